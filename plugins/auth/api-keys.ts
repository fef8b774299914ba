/** Finds the caller that an API key belongs to. */
import { timingSafeEqual } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Database } from '../../drizzle/client/index.ts'
import { queryRows } from '../../drizzle/client/query-rows.ts'
import { type Actor, isRole, NO_USER_ID } from '../access/index.ts'
import { createLookUpCache } from './cache.ts'
import { hashKey, isKey } from './key-format.ts'

export interface KeyOptions {
  /** The bootstrap admin's key (ADMIN_API_KEY), if it is set. */
  adminKey: string | undefined
  /** The e-mail address of the bootstrap admin. */
  adminEmail: string
}

const ALL_SCOPES: ReadonlySet<string> = new Set(['*'])

/** Longer keys are not cached: generated ones have 53 characters, and an invalid one may have thousands. */
const MAX_CACHED_KEY_LENGTH = 128
const MAX_ACCEPTED_KEYS = 10_000

const SELECT_ADMIN = `select id, status from users where email = $1 and role = 'admin'`

const SELECT_OWNER = `select u.id, u.role, k.id as key_id, k.scopes, k.rate_limit, extract(epoch from k.expires_at)::bigint as expires
  from api_keys k join users u on u.id = k.user_id
  where k.key_hash = $1 and k.expires_at > now() and u.status = 'active'`

// Does not increment the revision: the use of a key does not modify the resource.
const UPDATE_LAST_USED = `update api_keys set last_used_at = now()
  where id = $1 and (last_used_at is null or last_used_at < now() - interval '1 minute')`

interface AdminRow {
  id: string
  status: string
}

interface OwnerRow {
  id: string
  role: string
  key_id: string
  scopes: string[]
  rate_limit: number | null
  /** Seconds since the epoch. */
  expires: number
}

interface KeyOwner {
  actor: Actor
  /** Milliseconds since the epoch. */
  expiresAt: number
}

/** Runs the look-up of a key that may be forged, or throws ApiError 429. */
export type LimitLookUp = <T>(lookUp: () => Promise<T | undefined>) => Promise<T | undefined>

export function createKeyReader(database: Database, { adminKey, adminEmail }: KeyOptions) {
  const adminHash = adminKey === undefined ? undefined : Buffer.from(hashKey(adminKey))

  const findAdmin = async (): Promise<KeyOwner | undefined> => {
    const [admin] = await queryRows<AdminRow>(database, SELECT_ADMIN, [adminEmail.toLowerCase()])
    if (admin && admin.status !== 'active') return undefined
    // Without its admin the key has the same rights, and acts for no user.
    const userId = admin?.id ?? NO_USER_ID
    const actor: Actor = { userId, role: 'admin', scopes: ALL_SCOPES, credential: 'bootstrap_key' }
    return { actor, expiresAt: Number.POSITIVE_INFINITY }
  }

  const findOwner = async (hash: string): Promise<KeyOwner | undefined> => {
    const [row] = await queryRows<OwnerRow>(database, SELECT_OWNER, [hash])
    if (!row || !isRole(row.role)) return undefined
    await database.run(UPDATE_LAST_USED, [row.key_id])
    const actor: Actor = {
      userId: row.id,
      role: row.role,
      scopes: new Set(row.scopes),
      credential: 'api_key',
      key: { id: row.key_id, rateLimit: row.rate_limit },
    }
    return { actor, expiresAt: row.expires * 1000 }
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

  const getActor = (owner: KeyOwner | undefined): Actor | undefined =>
    owner && Date.now() < owner.expiresAt ? owner.actor : undefined

  return {
    /** Returns the actor of a key; undefined if the key is invalid or has expired. */
    read: async (key: string, limitLookUp: LimitLookUp): Promise<Actor | undefined> =>
      getActor(
        await (key.length > MAX_CACHED_KEY_LENGTH ? lookUp(key, limitLookUp) : cache.get(key, limitLookUp)),
      ),

    /** Returns the actor of a key that is cached, without a query. */
    peek: (key: string): Actor | undefined => getActor(cache.peek(key)),

    clearCache: cache.clear,
  }
}
