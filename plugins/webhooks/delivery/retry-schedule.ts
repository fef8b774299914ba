/** When a delivery that failed is attempted again. */
import { parseHttpDate } from '../../../lib/http-date.ts'

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
  24 * HOUR_MS,
  24 * HOUR_MS,
]

/** A tenth more or less, so that the deliveries of an outage do not all return in the same second. */
const JITTER = 0.1

/** The longest time that a receiver can ask to wait. */
const MAX_RETRY_AFTER_MS = 24 * HOUR_MS

/**
 * Returns the milliseconds to the next attempt, or undefined after the last one.
 * @param attempts how many attempts have failed, 1 or more
 * @param retryAfterMs how long the receiver asks to wait; it only makes the delay longer
 * @param random returns a number from 0 (inclusive) to 1 (exclusive)
 */
export function getRetryDelayMs(
  attempts: number,
  retryAfterMs = 0,
  random: () => number = Math.random,
): number | undefined {
  const delay = DELAYS_MS[attempts - 1]
  if (delay === undefined) return undefined
  const jittered = Math.round(delay * (1 - JITTER + 2 * JITTER * random()))
  return Math.max(jittered, Math.min(retryAfterMs, MAX_RETRY_AFTER_MS))
}

/**
 * Reads the Retry-After (RFC 9110, section 10.2.3) of a 429 or 503, in seconds or as a date.
 * @param now milliseconds since the epoch
 * @returns milliseconds; undefined for other statuses, and without a valid value
 */
export function readRetryAfter(status: number, header: unknown, now = Date.now()): number | undefined {
  if ((status !== 429 && status !== 503) || typeof header !== 'string') return undefined
  if (/^\d{1,9}$/.test(header)) return Number(header) * SECOND_MS
  const date = parseHttpDate(header)
  return date === undefined ? undefined : Math.max(0, date * SECOND_MS - now)
}
