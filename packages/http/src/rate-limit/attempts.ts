/** Limits failed attempts: to look up a credential, and to prove a password. */
import { createHmac } from 'node:crypto'
import type {} from '@resource-api/api/access'
import type { ApiError } from '@resource-api/api/errors'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { deriveKey } from '../config/secrets.ts'
import type { RunConfig } from '../config/settings.ts'
import { getClientIp } from './address-windows.ts'
import { addToWindows, type Count, type Store, type Window } from './windows.ts'

/** Of failed sign-ins, and of changes of a user's own password or email address. */
const PASSWORD_WINDOW_MS = 900_000
/** The limit for failed sign-ins from all IP addresses together, as a multiple of the limit for one address. */
const ACCOUNT_LIMIT_FACTOR = 10
/** Changes of a user's own password or email address per `PASSWORD_WINDOW_MS`. */
const MAX_PASSWORD_CHANGES = 10

export type AttemptOptions = Pick<RunConfig, 'APP_SECRET' | 'LOGIN_FAILURES'>

/** Creates the functions that make an attempt unless too many have failed. They throw what `createRefusal` returns. */
export function createAttempts(
  app: FastifyInstance,
  store: Store,
  { APP_SECRET, LOGIN_FAILURES: failures }: AttemptOptions,
  createRefusal: (request: FastifyRequest, full: Count) => ApiError,
) {
  /** Key of the HMAC of an account's email address, which is not stored itself. */
  const secret = deriveKey(APP_SECRET, 'rate limits')
  /** The running attempts of each key. */
  const running = new Map<string, Set<Promise<unknown>>>()

  const attemptCounted = async <T>(windows: readonly Window[], attempt: () => Promise<T>): Promise<T> => {
    let hasFailed = false
    try {
      const result = await attempt()
      hasFailed = !result
      return result
    } finally {
      if (!hasFailed) await store.add(-1, windows)
    }
  }

  const track = (key: string, attempt: Promise<unknown>) => {
    const attempts = running.get(key) ?? new Set()
    const settled = attempt.catch(() => undefined)
    running.set(key, attempts.add(settled))
    settled.finally(() => {
      attempts.delete(settled)
      if (attempts.size === 0) running.delete(key)
    })
  }

  /**
   * Counts an attempt before it is made, so that concurrent requests cannot make more attempts than may fail, and uncounts
   * it unless it fails. If the limit is reached while others are running, it waits for one of them, which may be uncounted.
   * @param attempt a falsy result stands for a failed attempt
   * @param onFull called instead of the attempt if one of the windows is full
   */
  const limit = async <T>(
    windows: readonly [Window, ...Window[]],
    attempt: () => Promise<T>,
    onFull: (full: Count) => Promise<T>,
  ): Promise<T> => {
    const [{ key }] = windows
    for (;;) {
      const before = [...(running.get(key) ?? [])]
      const counted = await addToWindows(store, 1, windows)
      if (!counted.isExceeded) {
        const result = attemptCounted(windows, attempt)
        track(key, result)
        return result
      }
      const others = [...before, ...(running.get(key) ?? [])]
      if (others.length === 0) return onFull(counted)
      await Promise.race(others)
    }
  }

  /**
   * Verifies a password unless too many attempts at the account, which need not exist, have failed.
   * @param account the email address
   * @param verify a falsy result stands for a wrong password
   */
  const attemptPassword = async <T>(
    request: FastifyRequest,
    account: string,
    verify: () => Promise<T>,
  ): Promise<T> => {
    const address = getClientIp(request)
    const owner = `{account:${createHmac('sha256', secret).update(account.toLowerCase()).digest('base64url')}}`
    const durationMs = PASSWORD_WINDOW_MS
    const own = {
      name: 'login_failures',
      key: `${owner}:${address}:login_failures`,
      limit: failures,
      durationMs,
    }
    const windows: [Window, ...Window[]] = [own]
    // Anyone can fill the window of the account. An address that signed in before is not refused for that.
    if (!(await app.callers.isKnownAddress({ account, address }))) {
      const max = failures * ACCOUNT_LIMIT_FACTOR
      windows.push({ name: 'account_failures', key: `${owner}:account_failures`, limit: max, durationMs })
    }
    return limit(windows, verify, async (full) => {
      throw createRefusal(request, full)
    })
  }

  /**
   * Verifies a user's current password, which permits a change of the password or the email address. Right ones are
   * limited too, since each is followed by more hashing; wrong ones count as failed sign-ins instead.
   */
  const confirmPassword = async (
    request: FastifyRequest,
    userId: string,
    account: string,
    verify: () => Promise<boolean>,
  ): Promise<boolean> => {
    const name = 'password_changes'
    const key = `{user:${userId}}:${name}`
    const windows = [{ name, key, limit: MAX_PASSWORD_CHANGES, durationMs: PASSWORD_WINDOW_MS }]
    const before = await addToWindows(store, 0, windows)
    if (before.remaining === 0) throw createRefusal(request, before)
    if (!(await attemptPassword(request, account, verify))) return false
    // Other requests may have been verified at the same time: this count decides which of them exceed the limit.
    const after = await addToWindows(store, 1, windows)
    if (after.isExceeded) throw createRefusal(request, after)
    return true
  }

  return { limit, attemptPassword, confirmPassword }
}
