/** The windows of the rate limits, the interface of the store that counts in them, and the store in memory. */
import { channel } from 'node:diagnostics_channel'
import type { MaybePromise } from '@resource-api/database/concurrency'
import { getChannelName } from '@resource-api/database/values'
import { LRUCache } from 'lru-cache'

/** A fixed window: at most `limit` requests per key. It starts with the first request and ends as a whole. */
export interface Window {
  /** Such as `burst`. */
  name: string
  /** Begins with the owner in braces, the hash tag of Redis Cluster: all windows of an owner are on one node. */
  key: string
  limit: number
  durationMs: number
}

/** The name of the window of one second, which replies describe only if it refused their request. */
export const BURST = 'burst'

export interface Count {
  window: Window
  /** Requests left in the window; never negative. */
  remaining: number
  /** Time until the window ends. */
  resetMs: number
  /** Whether the window was already full when something was to be added. */
  isExceeded: boolean
}

export interface Store {
  /**
   * Adds to all the windows or, if one of them is full, to none: refused requests do not count.
   * @param amount the cost of a request, 0 to read, -1 to undo one. A cost above 1 may exceed the limit once
   */
  add(amount: number, windows: readonly Window[]): MaybePromise<readonly Count[]>
}

/** `{ window }`: the name of the window that was full. Metrics count these. */
export const refusedChannel = channel(getChannelName('limits:refused'))

/** @param used the window's count after the addition */
export const toCount = (window: Window, used: number, resetMs: number, isRefused: boolean): Count => ({
  window,
  remaining: Math.max(0, window.limit - used),
  resetMs,
  isExceeded: isRefused && used >= window.limit,
})

/** Returns the full window that ends last or, if none is full, the one with the least remaining. */
export const selectReported = (counts: readonly Count[]): Count =>
  counts.reduce((selected, count) => {
    if (count.isExceeded !== selected.isExceeded) return count.isExceeded ? count : selected
    if (count.isExceeded) return count.resetMs > selected.resetMs ? count : selected
    return count.window.name !== BURST && count.remaining < selected.remaining ? count : selected
  })

/** Adds to windows. Returns the count that replies describe. */
export const addToWindows = async (
  store: Store,
  amount: number,
  windows: readonly Window[],
): Promise<Count> => selectReported(await store.add(amount, windows))

/** Windows kept for each name; above that, the least recently used one is evicted. */
const MAX_WINDOWS = 20_000

/** Creates a store without timers: an expired window is replaced when its key is used again. */
export function createMemoryStore(now: () => number, max = MAX_WINDOWS): Store {
  // One cache per window name, so that a flood of anonymous requests evicts no user's window.
  const caches = new Map<string, LRUCache<string, { used: number; endsAt: number }>>()

  return {
    add(amount, windows) {
      const time = now()
      const found: { window: Window; entry: { used: number; endsAt: number } }[] = []
      let isRefused = false
      for (const window of windows) {
        const stored = caches.get(window.name)?.get(window.key)
        const isOpen = stored !== undefined && stored.endsAt > time
        const entry = isOpen ? stored : { used: 0, endsAt: time + window.durationMs }
        if (amount > 0 && entry.used >= window.limit) isRefused = true
        found.push({ window, entry })
      }
      const counts: Count[] = []
      for (const { window, entry } of found) {
        if (!isRefused && amount !== 0 && entry.used + amount >= 0) {
          if (entry.used === 0) {
            const cache = caches.get(window.name) ?? new LRUCache({ max })
            caches.set(window.name, cache.set(window.key, entry))
          }
          entry.used += amount
        }
        counts.push(toCount(window, entry.used, entry.endsAt - time, isRefused))
      }
      return counts
    },
  }
}
