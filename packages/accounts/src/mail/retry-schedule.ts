/** When a mail that failed is attempted again. */

const HOUR = 3_600
/** The seconds after the first failed attempt, the second, and so on; the last one is repeated. Links live for half an hour. */
const DELAYS = [5, 30, 120, 600, HOUR, 3 * HOUR, 6 * HOUR]
/** A tenth more or less, so that the mails of an outage do not all return in the same second. */
const JITTER = 0.1
/** Attempts end this many seconds after the mail was enqueued. */
const MAX_AGE_SECONDS = 24 * HOUR

/**
 * Returns the seconds until the next attempt; null if none follows.
 * @param attempts how many attempts have failed, 1 or more
 * @param age seconds since the mail was enqueued
 */
export function getRetryDelay(
  attempts: number,
  age: number,
  random: () => number = Math.random,
): number | null {
  const delay = (DELAYS[attempts - 1] ?? 6 * HOUR) * (1 - JITTER + 2 * JITTER * random())
  return age + delay > MAX_AGE_SECONDS ? null : delay
}
