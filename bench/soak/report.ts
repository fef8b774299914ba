/** Summarizes and prints measurements, and sets exit code 1 if a guarantee is broken. */

/** Milliseconds of some requests. */
export interface Times {
  count: number
  mean: number
  min: number
  p50: number
  p99: number
  max: number
}

export function summarize(times: readonly number[]): Times {
  const sorted = Float64Array.from(times).sort()
  const getQuantile = (share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN
  const [min = Number.NaN, p50 = min, p99 = min, max = min] = [0, 0.5, 0.99, 1].map(getQuantile)
  const mean = sorted.reduce((sum, time) => sum + time, 0) / sorted.length
  return { count: sorted.length, mean, min, p50, p99, max }
}

type Quantiles = Pick<Times, 'p50' | 'p99' | 'max'>

export const formatTimes = ({ p50, p99, max }: Quantiles) =>
  [p50, p99, max].map((time) => time.toFixed(1)).join(' / ')

/** Formats minimum, median and maximum. */
export function formatRange(times: readonly number[]): string {
  const { min, p50, max } = summarize(times)
  return [min, p50, max].map(Math.round).join(' / ')
}

export const formatCells = (times: Quantiles & { count: number }) =>
  [times.count, ...formatTimes(times).split(' / ')].join(' | ')

export function failIf(isBroken: boolean): void {
  if (isBroken) process.exitCode = 1
}

/** Prints violations, of which there should be none. */
export function printViolations(lines: readonly string[]): void {
  for (const line of lines.slice(0, 20)) console.log(`    ${line}`)
  failIf(lines.length > 0)
}
