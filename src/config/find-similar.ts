/** Finds the name that was probably meant. */
import { closest, distance } from 'fastest-levenshtein'

/** Longer texts are not names; the comparison takes time proportional to the product of both lengths. */
const MAX_LENGTH = 64

/** Two exchanged letters are a distance of 2. */
const MAX_DISTANCE = 2

/** Returns the most similar name, if it differs by two letters or fewer, and not by half of them. */
export function findSimilar(text: string, names: readonly string[]): string | undefined {
  if (text.length > MAX_LENGTH || names.length === 0) return undefined
  const name = closest(text, names)
  return distance(text, name) <= Math.min(MAX_DISTANCE, Math.ceil(name.length / 2) - 1) ? name : undefined
}
