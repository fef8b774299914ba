/** API keys: made for machines by those whose power they have. */
import { apiKeys } from '../../drizzle/tables.ts'
import { ApiKey, ApiKeyChange, ApiKeyCreate } from '../../schemas/api-keys.ts'
import type { Violation } from '../../schemas/error.ts'
import { CALLER } from '../access.ts'
import { type AnyCard, defineCollection } from '../collection/define.ts'
import { hashKey, makeKey, prefixOf } from '../keys.ts'

const DAY = 24 * 3600 * 1000
const USUAL = 90 * DAY
const LONGEST = 365 * DAY

const own = [{ user_id: CALLER }] as const
const mine = { admin: true, manager: own, member: own } as const
const owners = { admin: own, manager: own, member: own } as const

/** A moment to come, within a year. */
function checkExpiry({ expires_at: text }: { expires_at?: string }): Violation[] {
  const left = text === undefined ? DAY : Date.parse(text) - Date.now()
  if (left > 0 && left <= LONGEST) return []
  return [{ field: 'expires_at', message: 'must be within the next 365 days', code: 'OUT_OF_RANGE' }]
}

export const apiKeysCard: AnyCard = defineCollection({
  name: 'api-keys',
  singular: 'ApiKey',
  plural: 'ApiKeys',
  description: 'Credentials for machines: the power of their owner, within their scopes',
  table: apiKeys,
  verbs: ['list', 'read', 'create', 'update', 'remove'],
  bearerOnly: true,
  schemas: { read: ApiKey, create: ApiKeyCreate, change: ApiKeyChange },
  filters: [],
  sorts: { created_at: apiKeys.created_at },
  search: [],
  relations: {},
  access: { list: mine, read: mine, create: owners, update: owners, remove: mine },
  defaults: (actor) => ({ user_id: actor.userId }),
  computed: (row) => ({ key: typeof row.key === 'string' ? row.key : null }),
  check: checkExpiry,
  actions: {
    async create(store, id, body) {
      const key = makeKey()
      const expires = body.expires_at ?? new Date(Date.now() + USUAL).toISOString()
      const row = await store.insert({
        ...body,
        id,
        expires_at: expires,
        prefix: prefixOf(key),
        key_hash: hashKey(key),
      })
      return { ...row, key }
    },
  },
})
