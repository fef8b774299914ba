/** API keys: credentials for machines, with the role of the user who created them. */

import { refuseUnverified } from '@resource-api/api/access'
import { apiError, type Violation } from '@resource-api/api/errors'
import { CALLER, toReads } from '@resource-api/api/rules'
import { type Connection, prepare, toEveryRole, users } from '@resource-api/database'
import { getBuiltInName } from '@resource-api/database/application'
import { apiKeys } from '@resource-api/database/tables'
import type { Config } from '@resource-api/http/config'
import {
  collection,
  create,
  defineResource,
  list,
  type ResourcePlugin,
  read,
  remove,
  update,
} from '@resource-api/resources'
import { eq, sql } from 'drizzle-orm'
import { sendNotice } from '../accounts/notices.ts'
import { getKeyPrefix, hashKey, makeKey } from '../auth/key-format.ts'
import { createApiKeySchemas } from '../schemas/api-keys.ts'

export const API_KEYS = getBuiltInName('api-keys')
const PATH = `/${API_KEYS}`

const DAY_MS = 24 * 3600 * 1000
const DEFAULT_LIFETIME_MS = 90 * DAY_MS
const MAX_LIFETIME_DAYS = 365

const findOwner = prepare((db) =>
  db
    .select({ id: users.id, email: users.email, email_verified_at: users.email_verified_at })
    .from(users)
    .where(eq(users.id, sql.placeholder('id'))),
)

/** Includes expired keys: they stay listed until they are deleted. */
const MAX_KEYS_PER_USER = 100

const own = [{ user_id: CALLER }] as const
const ownerOnly = toEveryRole(own)
const ownerOrAdmin = { ...ownerOnly, admin: true } as const

/** Checks that the expiry is in the future, and at most a year away. */
function checkExpiry({ expires_at }: { expires_at?: string }): Violation[] {
  if (expires_at === undefined) return []
  const lifetimeMs = Date.parse(expires_at) - Date.now()
  if (lifetimeMs > 0 && lifetimeMs <= MAX_LIFETIME_DAYS * DAY_MS) return []
  const message = `must be within the next ${MAX_LIFETIME_DAYS} days`
  return [{ field: 'expires_at', message, code: 'OUT_OF_RANGE' }]
}

/**
 * Checks that the user may have another key. The transaction has locked the user's row.
 * @throws ApiError 409 if the user has 100 keys
 */
export async function ensureRoomForKey(tx: Connection, userId: string): Promise<void> {
  if ((await tx.$count(apiKeys, eq(apiKeys.user_id, userId))) < MAX_KEYS_PER_USER) return
  const message = `A user can have at most ${MAX_KEYS_PER_USER} API keys, expired ones included; delete one first`
  throw apiError('RESOURCE_CONFLICT', { message })
}

/** @param scopes the scopes that a key can have */
export const createApiKeys = (scopes: readonly string[]) =>
  collection({
    name: API_KEYS,
    table: apiKeys,
    description: `Credentials for machines, with the role of their owner, limited to their scopes. At most ${MAX_KEYS_PER_USER} per user`,
    // A revoked credential must not be listed as valid.
    system: { bearerOnly: true, isCredential: true, readsPrimary: true },
    schemas: createApiKeySchemas(scopes),
    lists: {
      nullChecks: ['rate_limit'],
      // Few rows: a user has at most 100.
      unindexed: ['rate_limit_null'],
      sorts: ['created_at'],
      streams: [],
    },
    access: { ...toReads(ownerOrAdmin), create: ownerOnly, update: ownerOnly, remove: ownerOrAdmin },
    defaults: (actor) => ({ user_id: actor.userId }),
    computed: (row) => ({ key: typeof row.key === 'string' ? row.key : null }),
    check: checkExpiry,
  })

/** @param scopes the scopes that a key can have */
export function createApiKeysResource(
  scopes: readonly string[],
  { REQUIRE_VERIFIED_EMAIL }: Pick<Config, 'REQUIRE_VERIFIED_EMAIL'>,
): ResourcePlugin {
  const keys = createApiKeys(scopes)
  return defineResource(keys, async (app, resource) => {
    app.get(PATH, list(resource))
    app.get(`${PATH}/:id`, read(resource))
    app.post(
      PATH,
      create(resource, async ({ store, id, body, actor }) => {
        const [owner] = await findOwner(store.connection, { id: actor.userId })
        if (REQUIRE_VERIFIED_EMAIL && !owner?.email_verified_at) throw refuseUnverified()
        await ensureRoomForKey(store.connection, actor.userId)
        const key = makeKey()
        const expires_at = body.expires_at ?? new Date(Date.now() + DEFAULT_LIFETIME_MS).toISOString()
        const secrets = { prefix: getKeyPrefix(key), key_hash: hashKey(key) }
        const row = await store.insert({ ...body, ...secrets, id, expires_at })
        if (owner) await sendNotice(store, 'api-key-created', owner, { key: row.name })
        return { ...row, key }
      }),
    )
    app.patch(`${PATH}/:id`, update(resource))
    app.delete(`${PATH}/:id`, remove(resource))
  })
}
