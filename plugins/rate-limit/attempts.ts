/** Attempts at a password: so many may fail, and no more are even begun. */
import { createHmac } from 'node:crypto'
import type { Count, Store, Window } from './types.ts'

/** Milliseconds. */
export const QUARTER_HOUR = 900_000
/** How many times as many may fail from all addresses together. */
const ADDRESSES = 10

export interface Attempt {
  /** The e-mail address. */
  account: string
  address: string
  /** Whether the account signed in from the address before. */
  isKnown: boolean
}

export interface AttemptLimits {
  failures: number
  /** Of an account's e-mail address no more is kept than what this makes of it. */
  secret: Buffer
}

/** Work under way, by a key. */
function createWorking() {
  const all = new Map<string, Set<Promise<unknown>>>()
  return {
    at: (key: string): Promise<unknown>[] => [...(all.get(key) ?? [])],
    async during<T>(key: string, work: () => Promise<T>): Promise<T> {
      const others = all.get(key) ?? new Set()
      const mine = work()
      const over = mine.catch(() => undefined)
      all.set(key, others.add(over))
      try {
        return await mine
      } finally {
        others.delete(over)
        if (others.size === 0 && all.get(key) === others) all.delete(key)
      }
    },
  }
}

export function createAttempts(store: Store, { failures, secret }: AttemptLimits) {
  const working = createWorking()

  const windowsOf = ({ account, address, isKnown }: Attempt): [Window, ...Window[]] => {
    const name = createHmac('sha256', secret).update(account.toLowerCase()).digest('base64url')
    const owner = `{account:${name}}`
    const ofAddress = { key: `${owner}:${address}:login_failures`, limit: failures, life: QUARTER_HOUR }
    // Strangers can fill the window of the account. An address that signed in before is not refused for it.
    if (isKnown) return [ofAddress]
    return [ofAddress, { key: `${owner}:account_failures`, limit: failures * ADDRESSES, life: QUARTER_HOUR }]
  }

  /** @returns the full window that lasts longest; undefined where a place was taken */
  const take = async (windows: readonly Window[]): Promise<Count | undefined> => {
    const full = (await store.add(1, windows)).filter(({ isExceeded }) => isExceeded)
    return full.sort((a, b) => b.left - a.left)[0]
  }

  /** Gives the place back unless the password was wrong. */
  const judge = async <T>(windows: readonly Window[], verify: () => Promise<T>): Promise<T> => {
    let isWrong = false
    try {
      const found = await verify()
      isWrong = !found
      return found
    } finally {
      if (!isWrong) await store.add(-1, windows)
    }
  }

  /**
   * A place is taken before the password is looked at: however many are tried at once, no more than may fail are
   * verified. Where none is left while others are still being verified, it waits for what they come to, since those
   * that are right give theirs back.
   * @param refuse makes the error for who has none left
   * @returns what `verify` found; nothing, for a wrong password
   */
  return async <T>(of: Attempt, refuse: (full: Count) => Error, verify: () => Promise<T>): Promise<T> => {
    const windows = windowsOf(of)
    const [{ key }] = windows
    for (;;) {
      const before = working.at(key)
      const full = await take(windows)
      if (!full) return working.during(key, () => judge(windows, verify))
      const others = [...before, ...working.at(key)]
      if (others.length === 0) throw refuse(full)
      await Promise.race(others)
    }
  }
}
