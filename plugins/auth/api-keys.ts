/** API keys to who calls with them. */
import { timingSafeEqual } from 'node:crypto'
import type { Database } from '../../drizzle/client/index.ts'
import { type MaybePromise, mapMaybe } from '../../lib/maybe-promise.ts'
import { type Actor, isRole } from '../access/index.ts'
import { remembered } from './cache.ts'
import { hashKey, isKey } from './key-format.ts'

export interface KeyOptions {
  /** The bootstrap admin's key, while it is set. */
  adminKey: string | undefined
  /** Whose key that is. */
  adminEmail: string
}

const EVERYTHING: ReadonlySet<string> = new Set(['*'])

/** Characters of what is remembered: a key of ours has 53, and what somebody makes up may have thousands. */
const LONGEST = 128

// The bootstrap key is that of the admin with ADMIN_EMAIL; where none has it any more, of the first one made.
const ADMIN = `select id, status from users where role = 'admin'
  order by (email = $1) desc, created_at, id limit 1`

const OWNER = `select u.id, u.role, k.id as key_id, k.scopes, k.rate_limit, extract(epoch from k.expires_at)::bigint as expires
  from api_keys k join users u on u.id = k.user_id
  where k.key_hash = $1 and k.expires_at > now() and u.status = 'active'`

// Changes no revision: being used is no change of the key.
const USED = `update api_keys set last_used_at = now()
  where id = $1 and (last_used_at is null or last_used_at < now() - interval '1 minute')`

interface Found {
  actor: Actor
  /** Epoch milliseconds. */
  expires: number
}

/** @returns a reader: who a key belongs to, undefined for one that is not good (any more) */
export function createKeyReader(database: Database, { adminKey, adminEmail }: KeyOptions) {
  const adminHash = adminKey === undefined ? undefined : Buffer.from(hashKey(adminKey))

  const findAdmin = async (): Promise<Found | undefined> => {
    const [admin] = await database.run(ADMIN, [adminEmail.toLowerCase()])
    if (admin?.status !== 'active') return undefined
    const userId = String(admin.id)
    const actor: Actor = { userId, role: 'admin', scopes: EVERYTHING, credential: 'bootstrap_key' }
    return { actor, expires: Number.POSITIVE_INFINITY }
  }

  const findOwner = async (hash: string): Promise<Found | undefined> => {
    const [row] = await database.run(OWNER, [hash])
    if (!row || !isRole(row.role) || !Array.isArray(row.scopes)) return undefined
    await database.run(USED, [String(row.key_id)])
    const actor: Actor = {
      userId: String(row.id),
      role: row.role,
      scopes: new Set(row.scopes.map(String)),
      credential: 'api_key',
      key: { id: String(row.key_id), rateLimit: row.rate_limit === null ? null : Number(row.rate_limit) },
    }
    return { actor, expires: Number(row.expires) * 1000 }
  }

  const look = async (key: string): Promise<Found | undefined> => {
    const hash = hashKey(key)
    if (adminHash && timingSafeEqual(adminHash, Buffer.from(hash))) return findAdmin()
    return isKey(key) ? findOwner(hash) : undefined
  }
  // By the text itself: to hash it for every request would cost more than all else that is asked of it.
  const known = remembered(look)

  const actorOf = (found: Found | undefined): Actor | undefined =>
    found && Date.now() < found.expires ? found.actor : undefined

  const read = (key: string): MaybePromise<Actor | undefined> =>
    mapMaybe(key.length > LONGEST ? look(key) : known.get(key), actorOf)

  /** Returns the actor of a key that is cached, without a query. */
  const peek = (key: string): Actor | undefined => actorOf(known.peek(key))

  return { read, peek, forget: known.forget }
}
