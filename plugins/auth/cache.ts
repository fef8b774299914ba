/** Remembers what a credential was good for, for as short a time as a revocation may take to be in force. */
import { LRUCache } from 'lru-cache'

/** Milliseconds; the contract allows five seconds on every replica, and a look-up takes some of them. */
const LIFE = 4_000
const MOST = 10_000

/** A look-up whose answers are kept for a while, `undefined` too: a bad credential costs one query, not one each. */
export function remembered<V>(look: (key: string) => Promise<V | undefined>) {
  const cache = new LRUCache<string, Promise<V | undefined>>({ max: MOST, ttl: LIFE })

  return {
    get(key: string): Promise<V | undefined> {
      const known = cache.get(key)
      if (known) return known
      const found = look(key)
      cache.set(key, found)
      // A database that was away is asked again.
      found.catch(() => {
        if (cache.peek(key) === found) cache.delete(key)
      })
      return found
    },
    /** Those who wait for a look-up get its answer all the same; nobody else does. */
    forget: () => cache.clear(),
  }
}
