/** Finds the caller that an API key belongs to. */
import { timingSafeEqual } from 'node:crypto'
import { type Actor, NO_USER_ID } from '@resource-api/api/actor'
import { type Database, prepare, users } from '@resource-api/database'
import { isRole } from '@resource-api/database/roles'
import { apiKeys } from '@resource-api/database/tables'
import type { Config } from '@resource-api/http/config'
import { and, eq, gt, sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import { createLookUpCache, prepareLastUsed } from './cache.ts'
import { hashKey, isKey } from './key-format.ts'

type KeyConfig = Pick<Config, 'ADMIN_API_KEY' | 'ADMIN_EMAIL'>

/** Longer keys are not cached: generated ones have 53 characters, and an invalid one may have thousands. */
const MAX_CACHED_KEY_LENGTH = 128
const MAX_ACCEPTED_KEYS = 10_000

const findAdminUser = prepare((db) =>
  db
    .select({ id: users.id, status: users.status })
    .from(users)
    .where(and(eq(users.email, sql.placeholder('email')), eq(users.role, 'admin'))),
)

const findKey = prepare((db) =>
  db
    .select({
      id: apiKeys.id,
      user_id: apiKeys.user_id,
      role: users.role,
      scopes: apiKeys.scopes,
      rate_limit: apiKeys.rate_limit,
      expires: sql<number>`extract(epoch from ${apiKeys.expires_at})::bigint`.as('expires'),
    })
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.user_id))
    .where(
      and(
        eq(apiKeys.key_hash, sql.placeholder('hash')),
        gt(apiKeys.expires_at, sql`now()`),
        eq(users.status, 'active'),
      ),
    ),
)

const updateLastUsed = prepareLastUsed(apiKeys)

interface KeyOwner {
  actor: Actor
  /** Milliseconds since the epoch. */
  expiresAt: number
}

/** Runs the look-up of a key that may be forged, or throws ApiError 429. */
export type LimitLookUp = <T>(lookUp: () => Promise<T | undefined>) => Promise<T | undefined>

export function createKeyReader(database: Database, { ADMIN_API_KEY: adminKey, ADMIN_EMAIL }: KeyConfig) {
  const adminHash = adminKey === undefined ? undefined : Buffer.from(hashKey(adminKey))

  const findAdmin = async (): Promise<KeyOwner | undefined> => {
    const [admin] = await findAdminUser(database, { email: ADMIN_EMAIL.toLowerCase() })
    if (admin && admin.status !== 'active') return undefined
    // Without its admin the key has the same rights, and acts for no user.
    const userId = admin?.id ?? NO_USER_ID
    const actor: Actor = { userId, role: 'admin', scopes: new Set(['*']), credential: 'bootstrap_key' }
    return { actor, expiresAt: Number.POSITIVE_INFINITY }
  }

  const findOwner = async (hash: string): Promise<KeyOwner | undefined> => {
    const [row] = await findKey(database, { hash })
    if (!row || !isRole(row.role)) return undefined
    const { id, user_id: userId, role, scopes, rate_limit: rateLimit, expires } = row
    await updateLastUsed(database, { id })
    const key = { id, rateLimit }
    const actor: Actor = { userId, role, scopes: new Set(scopes), credential: 'api_key', key }
    return { actor, expiresAt: expires * 1000 }
  }

  /** Keys that were valid at their last look-up. Anyone can forge others: the checksum has no secret. */
  const accepted = new LRUCache<string, true>({ max: MAX_ACCEPTED_KEYS })

  const lookUp = async (key: string, limitLookUp: LimitLookUp): Promise<KeyOwner | undefined> => {
    const hash = hashKey(key)
    if (adminHash && timingSafeEqual(adminHash, Buffer.from(hash))) return findAdmin()
    if (!isKey(key)) return undefined
    const find = () => findOwner(hash)
    const owner = await (accepted.has(key) ? find() : limitLookUp(find))
    if (owner) accepted.set(key, true)
    else accepted.delete(key)
    return owner
  }
  // The cache's key is the API key itself: hashing it for each request would cost more than the rest of the look-up.
  const cache = createLookUpCache(lookUp)

  return {
    /** Returns the actor of a key; undefined if the key is invalid or has expired. */
    async read(key: string, limitLookUp: LimitLookUp): Promise<Actor | undefined> {
      const isCached = key.length <= MAX_CACHED_KEY_LENGTH
      const owner = await (isCached ? cache.get(key, limitLookUp) : lookUp(key, limitLookUp))
      return owner && Date.now() < owner.expiresAt ? owner.actor : undefined
    },

    /** Returns the actor of a key that is cached, without a query. */
    peek(key: string): Actor | undefined {
      const owner = cache.peek(key)
      return owner && Date.now() < owner.expiresAt ? owner.actor : undefined
    },

    clearCache: cache.clear,
  }
}
