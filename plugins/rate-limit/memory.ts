/** Counts in this process: where there is no Redis, and meanwhile where it is out of reach. */
import { LRUCache } from 'lru-cache'
import { type Amount, countOf, nameOf, type Store, type Window } from './types.ts'

/** Of each kind of window; the one that nobody asked for the longest is forgotten first. */
const MOST = 20_000

interface Entry {
  used: number
  /** Milliseconds on the clock. */
  ends: number
}

export interface MemoryOptions {
  /** Milliseconds since the epoch. */
  now: () => number
  most?: number
}

/** A store without timers: a window that has ended is found out when it is asked for again. */
export function createMemory({ now, most = MOST }: MemoryOptions): Store & { size(): number } {
  // One for each kind, so that a flood of strangers pushes out no user.
  const kinds = new Map<string, LRUCache<string, Entry>>()

  const kindOf = (window: Window) => {
    const name = nameOf(window)
    const known = kinds.get(name)
    if (known) return known
    const made = new LRUCache<string, Entry>({ max: most })
    kinds.set(name, made)
    return made
  }

  /** What is known of a window, or where it would begin. */
  const entryOf = (window: Window, time: number): Entry => {
    const known = kindOf(window).get(window.key)
    return known && known.ends > time ? known : { used: 0, ends: time + window.life }
  }

  return {
    add(amount: Amount, windows: readonly Window[]) {
      const time = now()
      const entries = windows.map((window) => entryOf(window, time))
      const isFull = (window: Window, i: number) => (entries[i]?.used ?? 0) >= window.limit
      const isRefused = amount > 0 && windows.some(isFull)
      return windows.map((window, i) => {
        const entry = entries[i] ?? entryOf(window, time)
        if (!isRefused && amount !== 0 && entry.used + amount >= 0) {
          if (entry.used === 0) kindOf(window).set(window.key, entry)
          entry.used += amount
        }
        return countOf(window, entry.used, entry.ends - time, isRefused)
      })
    },
    size: () => [...kinds.values()].reduce((sum, { size }) => sum + size, 0),
  }
}
