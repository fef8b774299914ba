/** Sends a request until it has a response that another attempt would not change. */
import { Deadline } from './deadline.ts'
import { NetworkError, readRetryAfterMs } from './errors.ts'

const DEFAULT_MAX_RETRIES = 3
const FIRST_BACKOFF_MS = 200
const MAX_BACKOFF_MS = 5_000
/** Responses of a server or a proxy that is overloaded or restarting. */
const TEMPORARY_STATUSES = [429, 502, 503, 504]

/** An attempt failed without a whole response; `cause` is the error of `fetch`. */
export class LostResponseError extends Error {}

interface RetryOptions {
  method: string
  /** The signal of the caller. */
  signal: AbortSignal
  /** The time limit of all attempts together. */
  deadlineMs: number
  /** Whether a second request does no harm if the server has already processed the first one. */
  isRepeatable: boolean
  /** How often the request is repeated at most; 3 by default. */
  maxRetries?: number | undefined
}

/** Returns a random wait between half of the exponential backoff and all of it. */
function getBackoffMs(retries: number): number {
  const ms = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** retries)
  return ms / 2 + (Math.random() * ms) / 2
}

/** Returns the wait before the next attempt, or null if the response is final. */
function getRetryDelayMs(response: Response, retries: number, isRepeatable: boolean): number | null {
  const retryAfterMs = readRetryAfterMs(response.headers)
  // 409 with Retry-After: the first request with this Idempotency-Key is still running.
  const isTemporary =
    TEMPORARY_STATUSES.includes(response.status) || (response.status === 409 && retryAfterMs !== null)
  // 429 is decided before anything is done.
  if (!isTemporary || !(isRepeatable || response.status === 429)) return null
  // The backoff is also the minimum: an HTTP date is in the past if the clock of the server is slow.
  return Math.max(retryAfterMs ?? 0, getBackoffMs(retries))
}

/**
 * Interprets a response that follows an attempt with unknown outcome. That attempt may have caused what the response
 * says: a deleted resource is not found, and a replaced one has another entity tag.
 */
function settleRepeated(method: string, response: Response): Response {
  if (method === 'DELETE' && response.status === 404) return new Response(null, { status: 204 })
  if (method === 'PUT' && response.status === 412) {
    throw new NetworkError(
      'The response to the first attempt was lost, and the resource has changed since it was read. ' +
        'Read it to see whether this replacement was done',
    )
  }
  return response
}

/**
 * Sends a request. Repeats it at most `maxRetries` times: after 429, 502, 503 and 504 as `Retry-After` says, and after
 * network errors with a growing random wait. Waits that would pass the deadline are not begun.
 * @param attempt sends the request once and reads the body of the response; only its `LostResponseError`s are retried
 * @throws NetworkError, TimeoutError, or the reason of the caller's signal
 */
export async function sendWithRetries(
  attempt: (deadline: Deadline) => Promise<Response>,
  { method, signal, deadlineMs, isRepeatable, maxRetries = DEFAULT_MAX_RETRIES }: RetryOptions,
): Promise<Response> {
  const deadline = new Deadline(deadlineMs, signal)
  let isOutcomeUnknown = false
  try {
    for (let retries = 0; ; retries++) {
      let delayMs: number
      try {
        const response = await attempt(deadline)
        const wait = retries < maxRetries ? getRetryDelayMs(response, retries, isRepeatable) : null
        if (wait === null || !deadline.hasTimeFor(wait)) {
          return isOutcomeUnknown ? settleRepeated(method, response) : response
        }
        delayMs = wait
        if (response.status >= 500) isOutcomeUnknown = true
      } catch (error) {
        deadline.signal.throwIfAborted()
        // For example an error of the session, which has been retried already, or of the token store.
        if (!(error instanceof LostResponseError)) throw error
        delayMs = getBackoffMs(retries)
        if (!isRepeatable || retries === maxRetries || !deadline.hasTimeFor(delayMs)) {
          throw new NetworkError(`${method} failed: there was no response`, { cause: error.cause })
        }
        isOutcomeUnknown = true
      }
      await deadline.wait(delayMs)
    }
  } finally {
    deadline.clear()
  }
}
