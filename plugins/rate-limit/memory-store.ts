/** Counts in the memory of this process: without Redis, and as the fallback while Redis is unavailable. */
import { LRUCache } from 'lru-cache'
import { type Amount, getWindowName, type Store, toCount, type Window } from './types.ts'

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

  const getCache = (window: Window) => {
    const name = getWindowName(window)
    const existing = caches.get(name)
    if (existing) return existing
    const created = new LRUCache<string, Entry>({ max: maxWindows })
    caches.set(name, created)
    return created
  }

  /** Returns the current entry of a window, or a new one that is not yet stored. */
  const getEntry = (window: Window, time: number): Entry => {
    const stored = getCache(window).get(window.key)
    return stored && stored.endsAt > time ? stored : { used: 0, endsAt: time + window.durationMs }
  }

  return {
    add(amount: Amount, windows: readonly Window[]) {
      const time = now()
      const entries = windows.map((window) => ({ window, entry: getEntry(window, time) }))
      const isRefused = amount > 0 && entries.some(({ window, entry }) => entry.used >= window.limit)
      return entries.map(({ window, entry }) => {
        if (!isRefused && amount !== 0 && entry.used + amount >= 0) {
          if (entry.used === 0) getCache(window).set(window.key, entry)
          entry.used += amount
        }
        return toCount(window, entry.used, entry.endsAt - time, isRefused)
      })
    },
    size: () => [...caches.values()].reduce((sum, { size }) => sum + size, 0),
  }
}
