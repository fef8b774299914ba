/** Remembers what a credential was good for, for as short a time as a revocation may take to be in force. */
import { LRUCache } from 'lru-cache'
import type { MaybePromise } from '../../lib/maybe-promise.ts'

/** Milliseconds; the contract allows five seconds on every replica, and a look-up takes some of them. */
const LIFE = 4_000
const MOST = 10_000
/** Milliseconds for which the clock is not looked at again. */
const RESOLUTION = 100

/** A look-up whose answers are kept for a while, `undefined` too: a bad credential costs one query, not one each. */
export function remembered<V>(look: (key: string) => Promise<V | undefined>) {
  const cache = new LRUCache<string, { answer: MaybePromise<V | undefined> }>({
    max: MOST,
    ttl: LIFE,
    ttlResolution: RESOLUTION,
  })

  return {
    get(key: string): MaybePromise<V | undefined> {
      const known = cache.get(key)
      if (known) return known.answer
      const found = look(key)
      const entry: { answer: MaybePromise<V | undefined> } = { answer: found }
      cache.set(key, entry)
      found.then(
        (answer) => {
          entry.answer = answer
        },
        () => {
          // A database that was away is asked again.
          if (cache.peek(key) === entry) cache.delete(key)
        },
      )
      return found
    },
    /** Returns what is cached, without a look-up. */
    peek(key: string): V | undefined {
      const answer = cache.peek(key)?.answer
      return answer instanceof Promise ? undefined : answer
    },
    /** Those who wait for a look-up get its answer all the same; nobody else does. */
    forget: () => cache.clear(),
  }
}
