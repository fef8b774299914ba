/** Computes the median and the range of some numbers. */
export interface Spread {
  median: number
  min: number
  max: number
}

export function computeSpread(numbers: readonly number[]): Spread {
  const sorted = [...numbers].sort((a, b) => a - b)
  const getAt = (index: number) => sorted[index] ?? Number.NaN
  const middle = (sorted.length - 1) / 2
  return {
    median: (getAt(Math.floor(middle)) + getAt(Math.ceil(middle))) / 2,
    min: getAt(0),
    max: getAt(sorted.length - 1),
  }
}

/** Formats the median and the range of the ratios of two lists of measurements, one of each for a round. */
export function formatRatio(numerators: readonly number[], denominators: readonly number[]): string {
  const ratios = numerators.map((value, i) => value / (denominators[i] ?? Number.NaN))
  const { median, min, max } = computeSpread(ratios)
  return `${median.toFixed(2)} (${min.toFixed(2)} to ${max.toFixed(2)})`
}

/** @param share from 0 to 1 */
export function computePercentile(numbers: readonly number[], share: number): number {
  const sorted = [...numbers].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN
}
