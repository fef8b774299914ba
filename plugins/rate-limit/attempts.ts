/** Limits failed attempts: to look up a credential, and to sign in to an account with a password. */
import { createHmac } from 'node:crypto'
import { type Count, type Store, selectReported, type Window } from './windows.ts'

export const ATTEMPT_WINDOW_MS = 900_000
/** The limit for all IP addresses together, as a multiple of the limit for one address. */
const ACCOUNT_LIMIT_FACTOR = 10

interface PasswordAttempt {
  /** The e-mail address. */
  account: string
  /** The IP address. */
  address: string
  /** Whether the account signed in from the address before. */
  isKnown: boolean
}

export interface AttemptLimits {
  /** Failures per account and IP address. */
  failures: number
  /** Key of the HMAC of an account's e-mail address, which is not stored itself. */
  secret: Buffer
}

/** Keeps the running verifications of each key. */
function createRunningWork() {
  const running = new Map<string, Set<Promise<unknown>>>()
  return {
    list: (key: string): Promise<unknown>[] => [...(running.get(key) ?? [])],
    async run<T>(key: string, work: () => Promise<T>): Promise<T> {
      const all = running.get(key) ?? new Set()
      const result = work()
      const settled = result.catch(() => undefined)
      running.set(key, all.add(settled))
      try {
        return await result
      } finally {
        all.delete(settled)
        if (all.size === 0 && running.get(key) === all) running.delete(key)
      }
    },
  }
}

/**
 * Makes an attempt unless too many have failed. A falsy result stands for a failed attempt.
 * @param onFull called instead of the attempt if one of the windows is full
 */
export type CountFailures = <T>(
  windows: readonly [Window, ...Window[]],
  attempt: () => Promise<T>,
  onFull: (full: Count) => Promise<T>,
) => Promise<T>

/**
 * Creates the function that counts failures. It counts an attempt before it is made, so that concurrent requests cannot
 * make more attempts than may fail. If the limit is reached while other attempts are running, it waits for one of them,
 * since a successful one is uncounted.
 */
export function createFailureCounter(store: Store): CountFailures {
  const running = createRunningWork()

  /** Makes an attempt that has been counted. Uncounts it unless it fails. */
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

  return async (windows, attempt, onFull) => {
    const [{ key }] = windows
    for (;;) {
      const runningBefore = running.list(key)
      const count = selectReported(await store.add(1, windows))
      if (!count.isExceeded) return running.run(key, () => attemptCounted(windows, attempt))
      const others = [...runningBefore, ...running.list(key)]
      if (others.length === 0) return onFull(count)
      await Promise.race(others)
    }
  }
}

export function createAttemptLimiter(countFailures: CountFailures, { failures, secret }: AttemptLimits) {
  const createWindows = ({ account, address, isKnown }: PasswordAttempt): [Window, ...Window[]] => {
    const hash = createHmac('sha256', secret).update(account.toLowerCase()).digest('base64url')
    const owner = `{account:${hash}}`
    const durationMs = ATTEMPT_WINDOW_MS
    const addressWindow = { key: `${owner}:${address}:login_failures`, limit: failures, durationMs }
    // Anyone can fill the window of the account. An address that signed in before is not refused for that.
    if (isKnown) return [addressWindow]
    const limit = failures * ACCOUNT_LIMIT_FACTOR
    return [addressWindow, { key: `${owner}:account_failures`, limit, durationMs }]
  }

  /**
   * Verifies a password unless too many attempts at the account have failed.
   * @param refuse creates the error if the limit is reached
   * @returns the result of `verify`; a falsy one stands for a wrong password
   */
  return <T>(
    attempt: PasswordAttempt,
    refuse: (full: Count) => Error,
    verify: () => Promise<T>,
  ): Promise<T> =>
    countFailures(createWindows(attempt), verify, async (full) => {
      throw refuse(full)
    })
}
