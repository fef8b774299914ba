/** The middle of some numbers, and how far they spread. */
export interface Spread {
  median: number
  least: number
  most: number
}

export function spreadOf(numbers: readonly number[]): Spread {
  const sorted = [...numbers].sort((a, b) => a - b)
  const at = (place: number) => sorted[place] ?? Number.NaN
  const middle = (sorted.length - 1) / 2
  return {
    median: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2,
    least: at(0),
    most: at(sorted.length - 1),
  }
}
