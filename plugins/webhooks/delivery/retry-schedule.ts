/** When a delivery that failed is attempted again. */

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS

/** The delay after the first failed attempt, the second, and so on. */
const DELAYS_MS = [
  5 * SECOND_MS,
  30 * SECOND_MS,
  2 * MINUTE_MS,
  10 * MINUTE_MS,
  HOUR_MS,
  3 * HOUR_MS,
  6 * HOUR_MS,
  12 * HOUR_MS,
]

/** A tenth more or less, so that the deliveries of an outage do not all return in the same second. */
const JITTER = 0.1

/**
 * Returns the milliseconds to the next attempt, or undefined after the last one.
 * @param attempts how many attempts have failed, 1 or more
 * @param random returns a number from 0 (inclusive) to 1 (exclusive)
 */
export function getRetryDelayMs(attempts: number, random: () => number = Math.random): number | undefined {
  const delay = DELAYS_MS[attempts - 1]
  if (delay === undefined) return undefined
  return Math.round(delay * (1 - JITTER + 2 * JITTER * random()))
}
