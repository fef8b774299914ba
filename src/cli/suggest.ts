/** Suggests the name that was probably meant. */
import { closest, distance } from 'fastest-levenshtein'

/** Longer texts are not names; the comparison takes time proportional to the product of both lengths. */
const MAX_LENGTH = 64

/** Returns the most similar name if a third of its characters or less differ. */
export function findSimilar(text: string, names: readonly string[]): string | undefined {
  if (text.length > MAX_LENGTH || names.length === 0) return undefined
  const name = closest(text, names)
  return distance(text, name) <= Math.max(1, Math.floor(name.length / 3)) ? name : undefined
}

/** Returns a sentence with a leading space, to be put behind an error message, or an empty text. */
export function suggest(text: string, names: readonly string[]): string {
  const name = findSimilar(text, names)
  return name === undefined ? '' : ` Did you mean '${name}'?`
}
