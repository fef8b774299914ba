/** Counts in the memory of this process: without Redis, and as the fallback while Redis is unavailable. */
import { LRUCache } from 'lru-cache'
import { type Amount, type Count, getWindowName, type Store, toCount, type Window } from './windows.ts'

/** Windows kept for each name; above that, the least recently used one is evicted. */
const MAX_WINDOWS = 20_000

interface Entry {
  used: number
  /** Milliseconds since the epoch. */
  endsAt: number
}

interface MemoryStoreOptions {
  /** Milliseconds since the epoch. */
  now: () => number
  maxWindows?: number
}

/** Creates a store without timers: an expired window is replaced when its key is used again. */
export function createMemoryStore({
  now,
  maxWindows = MAX_WINDOWS,
}: MemoryStoreOptions): Store & { size(): number } {
  // One cache per window name, so that a flood of anonymous requests evicts no user's window.
  const caches = new Map<string, LRUCache<string, Entry>>()

  /** Returns the current entry of a window, or a new one that is not yet stored. */
  const getEntry = (window: Window, time: number): Entry => {
    const stored = caches.get(getWindowName(window))?.get(window.key)
    return stored && stored.endsAt > time ? stored : { used: 0, endsAt: time + window.durationMs }
  }

  const storeEntry = (window: Window, entry: Entry) => {
    const name = getWindowName(window)
    const cache = caches.get(name) ?? new LRUCache({ max: maxWindows })
    caches.set(name, cache.set(window.key, entry))
  }

  return {
    add(amount: Amount, windows: readonly Window[]) {
      const time = now()
      let isRefused = false
      const found: { window: Window; entry: Entry }[] = []
      for (const window of windows) {
        const entry = getEntry(window, time)
        if (amount > 0 && entry.used >= window.limit) isRefused = true
        found.push({ window, entry })
      }
      const counts: Count[] = []
      for (const { window, entry } of found) {
        if (!isRefused && amount !== 0 && entry.used + amount >= 0) {
          if (entry.used === 0) storeEntry(window, entry)
          entry.used += amount
        }
        counts.push(toCount(window, entry.used, entry.endsAt - time, isRefused))
      }
      return counts
    },
    size: () => [...caches.values()].reduce((sum, { size }) => sum + size, 0),
  }
}
