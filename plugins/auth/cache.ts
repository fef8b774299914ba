/** Caches the result of looking up a credential, for less time than a revocation may take to be effective. */
import { LRUCache } from 'lru-cache'
import type { MaybePromise } from '../../lib/maybe-promise.ts'

/** A revocation is effective on every replica within 5 s; the rest is for the query. */
const TTL_MS = 4_000
const MAX_ENTRIES = 10_000
/** Time for which the cache reuses one reading of the clock. */
const TTL_RESOLUTION_MS = 100

/** Caches the results of `lookUp`, `undefined` too: an invalid credential costs one query, not one per request. */
export function createLookUpCache<V>(lookUp: (key: string) => Promise<V | undefined>) {
  const cache = new LRUCache<string, { result: MaybePromise<V | undefined> }>({
    max: MAX_ENTRIES,
    ttl: TTL_MS,
    ttlResolution: TTL_RESOLUTION_MS,
  })

  return {
    get(key: string): MaybePromise<V | undefined> {
      const cached = cache.get(key)
      if (cached) return cached.result
      const pending = lookUp(key)
      const entry: { result: MaybePromise<V | undefined> } = { result: pending }
      cache.set(key, entry)
      pending.then(
        (result) => {
          entry.result = result
        },
        () => {
          // A failure is not cached: the next request tries again.
          if (cache.peek(key) === entry) cache.delete(key)
        },
      )
      return pending
    },
    /** Returns the cached result, without a look-up. */
    peek(key: string): V | undefined {
      const result = cache.peek(key)?.result
      return result instanceof Promise ? undefined : result
    },
    /** Empties the cache. Requests that already wait for a look-up still get its result. */
    clear: () => cache.clear(),
  }
}
