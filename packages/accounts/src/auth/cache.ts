/** Caches the look-ups of credentials for less time than a revocation may take to be effective, and records their use. */

import { prepare } from '@resource-api/database'
import type { MaybePromise } from '@resource-api/database/concurrency'
import type { apiKeys, sessions } from '@resource-api/database/tables'
import { and, eq, isNull, lt, or, sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'

const OPTIONS = {
  max: 10_000,
  // A revocation is effective on every replica within 5 s; the rest is for the query.
  ttl: 4_000,
  /** Time in milliseconds for which the cache reuses one reading of the clock. */
  ttlResolution: 100,
}

/** Prepares the update of `last_used_at`, at most once a minute. The use of a credential is no revision of it. */
export const prepareLastUsed = (table: typeof apiKeys | typeof sessions) =>
  prepare((db) =>
    db
      .update(table)
      .set({ last_used_at: sql`now()` })
      .where(
        and(
          eq(table.id, sql.placeholder('id')),
          or(isNull(table.last_used_at), lt(table.last_used_at, sql`now() - interval '1 minute'`)),
        ),
      ),
  )

/**
 * Caches the results of `lookUp`, `undefined` too: an invalid credential costs one query, not one per request.
 * @param lookUp gets the key and the further arguments of `get`
 */
export function createLookUpCache<V extends object, Rest extends unknown[] = []>(
  lookUp: (key: string, ...rest: Rest) => Promise<V | undefined>,
) {
  const valid = new LRUCache<string, V>(OPTIONS)
  /** The other look-ups: running ones, and invalid credentials. Apart, so that they evict no valid credential. */
  const others = new LRUCache<string, { result: MaybePromise<V | undefined> }>(OPTIONS)

  return {
    get(key: string, ...rest: Rest): MaybePromise<V | undefined> {
      const value = valid.get(key)
      if (value) return value
      const other = others.get(key)
      if (other) return other.result
      const start = performance.now()
      const pending = lookUp(key, ...rest)
      const entry: { result: MaybePromise<V | undefined> } = { result: pending }
      others.set(key, entry)
      pending.then(
        (result) => {
          entry.result = result
          // Otherwise the cache has been emptied since.
          if (!result || others.peek(key) !== entry) return
          others.delete(key)
          valid.set(key, result, { start })
        },
        () => {
          // A failure is not cached: the next request tries again.
          if (others.peek(key) === entry) others.delete(key)
        },
      )
      return pending
    },
    /** Returns the cached value of a valid credential, without a look-up. */
    peek: (key: string): V | undefined => valid.peek(key),
    /** Empties the cache. Requests that already wait for a look-up still get its result. */
    clear() {
      valid.clear()
      others.clear()
    },
  }
}
