/** The windows of a user, which all credentials of that user share, and the window of an API key with its own limit. */
import { type MaybePromise, mapMaybe } from '../../lib/maybe-promise.ts'
import type { Actor } from '../access/index.ts'
import type { Count, Flag, Store, Window } from './types.ts'

export interface UserLimits {
  limit: number
  durationMs: number
  /** Limit per second. */
  burst: number
}

const BURST_WINDOW_MS = 1_000

/** The owner of the windows: the actor of a request, or the user whose session is being refreshed. */
export type Caller = Pick<Actor, 'userId' | 'key'>

export function createUserCounter(
  store: Store,
  { limit, durationMs, burst }: UserLimits,
  getFlag?: (userId: string) => Flag | undefined,
) {
  const createWindows = ({ userId, key }: Caller): Window[] => {
    const owner = `{user:${userId}}`
    const keyLimit = key?.rateLimit ?? undefined
    return [
      { key: `${owner}:sustained`, limit, durationMs },
      { key: `${owner}:burst`, limit: burst, durationMs: BURST_WINDOW_MS },
      ...(key && keyLimit !== undefined
        ? [{ key: `${owner}:${key.id}:key`, limit: keyLimit, durationMs }]
        : []),
    ]
  }

  /** Actors are cached with their credentials, so that most requests find their windows here. */
  const cache = new WeakMap<Caller, { windows: Window[]; flag: Flag | undefined }>()
  const getWindows = (caller: Caller) => {
    const cached = cache.get(caller)
    if (cached) return cached
    const created = { windows: createWindows(caller), flag: getFlag?.(caller.userId) }
    cache.set(caller, created)
    return created
  }

  const selectReported = ([sustained, burstCount, keyCount]: readonly Count[]): Count => {
    if (!sustained || !burstCount) throw new Error('The store returned no counts')
    let longest: Count | undefined
    for (const count of [sustained, burstCount, keyCount]) {
      if (count?.isExceeded && (!longest || count.resetMs > longest.resetMs)) longest = count
    }
    return longest ?? (keyCount && keyCount.remaining < sustained.remaining ? keyCount : sustained)
  }

  return {
    /**
     * Counts a request in all windows of the user.
     * @returns the full window that lasts longest, or the one with the least remaining
     */
    take(caller: Caller, cost: number): MaybePromise<Count> {
      const { windows, flag } = getWindows(caller)
      return mapMaybe(store.add(cost, windows, flag), selectReported)
    },
    /** Adds to the cost of a request that was already counted. A full window does not stop the others from counting. */
    async add(caller: Caller, cost: number): Promise<Count> {
      const counts = await Promise.all(
        getWindows(caller).windows.map(async (window) => (await store.add(cost, [window]))[0]),
      )
      return selectReported(counts.flatMap((count) => (count ? [count] : [])))
    },
  }
}
