/** API keys: made for machines by those whose power they have. */

import type { Connection } from '../../drizzle/client/types.ts'
import { apiKeys } from '../../drizzle/tables.ts'
import { createApiKeySchemas } from '../../schemas/api-keys.ts'
import type { Violation } from '../../schemas/error.ts'
import { type Actor, CALLER, listScopes } from '../access/index.ts'
import { getKeyPrefix, hashKey, makeKey } from '../auth/key-format.ts'
import { defineResource, type ResourceDefinition } from '../collection/definition.ts'
import { apiError } from '../errors/index.ts'

const DAY = 24 * 3600 * 1000
const USUAL = 90 * DAY
const LONGEST = 365 * DAY

/** Expired keys count as well: their rows stay, and are listed, until they are deleted. */
const MAX_KEYS_PER_USER = 100

const LOCK_USER = 'select 1 from users where id = $1 for no key update'

const CALLER_HOLDS = `select 1 from users where id = $1 and status = 'active'
  and ($2::uuid is null or exists (select 1 from sessions where id = $2::uuid and expires_at > now()))`

const own = [{ user_id: CALLER }] as const
const mine = { admin: true, manager: own, member: own } as const
const owners = { admin: own, manager: own, member: own } as const

/** A moment to come, within a year. */
function checkExpiry({ expires_at: text }: { expires_at?: string }): Violation[] {
  const left = text === undefined ? DAY : Date.parse(text) - Date.now()
  if (left > 0 && left <= LONGEST) return []
  return [{ field: 'expires_at', message: 'must be within the next 365 days', code: 'OUT_OF_RANGE' }]
}

/**
 * Locks the user's row until the transaction ends, and checks that the user may have another key. The lock makes
 * requests that create keys of one user wait for each other: concurrent ones would all count the same keys.
 * @throws ApiError 409 for a user who has 100 keys
 */
export async function reserveKey(tx: Connection, userId: string): Promise<void> {
  await tx.run(LOCK_USER, [userId])
  const [keys] = await tx.run('select count(*) as count from api_keys where user_id = $1', [userId])
  if (Number(keys?.count) < MAX_KEYS_PER_USER) return
  throw apiError('RESOURCE_CONFLICT', {
    message: `A user has at most ${MAX_KEYS_PER_USER} API keys, expired ones included; delete one first`,
  })
}

/**
 * Checks that the caller is still active and signed in. What is remembered of a credential is up to 5 s old, and a key
 * that is created in that time would outlive the session that created it.
 * @throws ApiError 401
 */
async function ensureCaller(tx: Connection, { userId, sessionId }: Actor): Promise<void> {
  const [caller] = await tx.run(CALLER_HOLDS, [userId, sessionId ?? null])
  if (caller) return
  throw apiError('UNAUTHORIZED', {
    message: 'Invalid or expired token',
    headers: { 'WWW-Authenticate': 'Bearer realm="resource-api", error="invalid_token"' },
  })
}

/** @param collections whose scopes a key may have */
export const createApiKeysResource = (collections: readonly string[]): ResourceDefinition =>
  defineResource({
    name: 'api-keys',
    singular: 'ApiKey',
    plural: 'ApiKeys',
    description: `Credentials for machines: the power of their owner, within their scopes. At most ${MAX_KEYS_PER_USER} per user`,
    table: apiKeys,
    verbs: ['list', 'read', 'create', 'update', 'remove'],
    bearerOnly: true,
    // A revoked credential must not be listed as valid.
    readsPrimary: true,
    schemas: createApiKeySchemas(listScopes(collections)),
    filters: [],
    sorts: { created_at: apiKeys.created_at },
    search: [],
    relations: {},
    access: { list: mine, read: mine, create: owners, update: owners, remove: mine },
    defaults: (actor) => ({ user_id: actor.userId }),
    computed: (row) => ({ key: typeof row.key === 'string' ? row.key : null }),
    check: checkExpiry,
    actions: {
      async create(store, id, body, actor) {
        await reserveKey(store.connection, actor.userId)
        await ensureCaller(store.connection, actor)
        const key = makeKey()
        const expires = body.expires_at ?? new Date(Date.now() + USUAL).toISOString()
        const row = await store.insert({
          ...body,
          id,
          expires_at: expires,
          prefix: getKeyPrefix(key),
          key_hash: hashKey(key),
        })
        return { ...row, key }
      },
    },
  })
