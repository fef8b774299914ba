/** When a delivery that failed is attempted again. */

import { parseHttpDate } from '@resource-api/api/preconditions'
import { createRetrySchedule, RETRY_DELAYS_MS } from '@resource-api/work'

/** The longest time that a receiver can ask to wait. */
const MAX_RETRY_AFTER_MS = 24 * 3_600_000

const getDelay = createRetrySchedule(RETRY_DELAYS_MS)

/**
 * Returns the milliseconds to the next attempt; null after the last one.
 * @param attempts how many attempts have failed, 1 or more
 * @param retryAfterMs how long the receiver asks to wait; it only makes the delay longer
 */
export function getRetryDelayMs(attempts: number, retryAfterMs = 0, random?: () => number): number | null {
  const delay = getDelay(attempts, random)
  return delay === null ? null : Math.max(delay, Math.min(retryAfterMs, MAX_RETRY_AFTER_MS))
}

/**
 * Reads the Retry-After (RFC 9110, section 10.2.3) of a 429 or 503, in seconds or as a date.
 * @returns milliseconds; undefined for other statuses, and without a valid value
 */
export function readRetryAfter(status: number, header: unknown, now = Date.now()): number | undefined {
  if ((status !== 429 && status !== 503) || typeof header !== 'string') return undefined
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1_000
  const date = parseHttpDate(header)
  return date === undefined ? undefined : Math.max(0, date * 1_000 - now)
}
