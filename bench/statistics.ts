/** Computes the median, the range, the quartiles and percentiles of some numbers. */
export interface Spread {
  median: number
  min: number
  max: number
  /** The first and the third quartile. */
  quartiles: readonly [number, number]
}

const sort = (numbers: readonly number[]) => [...numbers].sort((a, b) => a - b)

/** Interpolates linearly between the two nearest numbers. */
function interpolate(sorted: readonly number[], share: number): number {
  const position = (sorted.length - 1) * share
  const lower = sorted[Math.floor(position)] ?? Number.NaN
  const upper = sorted[Math.ceil(position)] ?? Number.NaN
  return lower + (upper - lower) * (position % 1)
}

export function computeSpread(numbers: readonly number[]): Spread {
  const sorted = sort(numbers)
  return {
    median: interpolate(sorted, 0.5),
    min: interpolate(sorted, 0),
    max: interpolate(sorted, 1),
    quartiles: [interpolate(sorted, 0.25), interpolate(sorted, 0.75)],
  }
}

/**
 * Returns an interval that contains the median of the distribution with a probability of at least 95 %, whatever the
 * distribution: the numbers of rank k from below and from above, where 2 P(Binomial(n, 1/2) < k) is at most 5 %.
 * @returns undefined if there are fewer than six numbers
 */
export function computeMedianInterval(numbers: readonly number[]): readonly [number, number] | undefined {
  const sorted = sort(numbers)
  const n = sorted.length
  let rank = 0
  let probability = 0.5 ** n
  for (let tail = probability; 2 * tail <= 0.05; tail += probability) {
    rank += 1
    probability *= (n - rank + 1) / rank
  }
  const [low, high] = [sorted[rank - 1], sorted[n - rank]]
  return low === undefined || high === undefined ? undefined : [low, high]
}

/** Formats the median and the range of the ratios of two lists of measurements, one of each for a round. */
export function formatRatio(numerators: readonly number[], denominators: readonly number[]): string {
  const ratios = numerators.map((value, i) => value / (denominators[i] ?? Number.NaN))
  const { median, min, max } = computeSpread(ratios)
  return `${median.toFixed(2)} (${min.toFixed(2)} to ${max.toFixed(2)})`
}

/** @param share from 0 to 1 */
export function computePercentile(numbers: readonly number[], share: number): number {
  return sort(numbers)[Math.max(0, Math.ceil(numbers.length * share) - 1)] ?? Number.NaN
}
