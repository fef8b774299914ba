/** Repeats statements and transactions that PostgreSQL rolled back because of concurrent transactions. */
import { setTimeout as sleep } from 'node:timers/promises'
import { publishRetry } from './channels.ts'
import { DatabaseUnavailable, SERIALIZATION_FAILURE } from './errors.ts'

/** SQLSTATE deadlock_detected. */
const DEADLOCK = '40P01'
const RETRYABLE_CODES = new Set([DEADLOCK, SERIALIZATION_FAILURE])
const DEFAULT_MAX_RETRIES = 3
/** The longest pause before the first retry; it doubles before each further one. */
const FIRST_PAUSE_MS = 25

/**
 * Repeats work that failed, by default at most three times, while the error is a deadlock or a serialization failure. The pauses
 * are of random length, so that the transactions do not collide again. No other error is retried: after a connection
 * lost during COMMIT, the transaction may have been committed.
 */
export async function retry<T>(
  error: unknown,
  work: () => Promise<T>,
  maxRetries = DEFAULT_MAX_RETRIES,
  attempt = 1,
): Promise<T> {
  const code = error instanceof DatabaseUnavailable ? error.code : undefined
  if (attempt > maxRetries || code === undefined || !RETRYABLE_CODES.has(code)) throw error
  publishRetry(code, attempt)
  await sleep(Math.random() * FIRST_PAUSE_MS * 2 ** (attempt - 1))
  return work().catch((next) => retry(next, work, maxRetries, attempt + 1))
}
