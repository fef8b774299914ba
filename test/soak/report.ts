/** Summarizes and prints measurements, and sets exit code 1 if a guarantee is broken. */

/** Milliseconds of some requests. */
export interface Times {
  count: number
  mean: number
  p50: number
  p99: number
  max: number
}

export function summarize(times: readonly number[]): Times {
  const sorted = Float64Array.from(times).sort()
  const getQuantile = (share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN
  const mean = sorted.reduce((sum, time) => sum + time, 0) / sorted.length
  return { count: sorted.length, mean, p50: getQuantile(0.5), p99: getQuantile(0.99), max: getQuantile(1) }
}

export const formatTimes = ({ p50, p99, max }: Omit<Times, 'mean' | 'count'>) =>
  [p50, p99, max].map((time) => time.toFixed(1)).join(' / ')

/** Formats minimum, median and maximum. */
export function formatRange(times: readonly number[]): string {
  const { p50, max } = summarize(times)
  return [Math.min(...times), p50, max].map(Math.round).join(' / ')
}

/** Formats the number of responses and their times. */
export const formatOutcome = (times: Times) => `${times.count} (${formatTimes(times)})`

export const formatCells = ({ count, p50, p99, max }: Omit<Times, 'mean'>) =>
  [count, ...[p50, p99, max].map((time) => time.toFixed(1))].join(' | ')

export function failIf(isBroken: boolean): void {
  if (isBroken) process.exitCode = 1
}

/** Prints violations, of which there should be none. */
export function printViolations(lines: readonly string[]): void {
  for (const line of lines.slice(0, 20)) console.log(`    ${line}`)
  failIf(lines.length > 0)
}
