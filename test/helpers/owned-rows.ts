/** Inserts rows of each collection for an owner, and builds valid bodies for them. */
import { v7 as uuid } from 'uuid'
import type { Database } from '../../drizzle/client/index.ts'
import type { Json } from './app.ts'
import { getDefinition, locateSchema } from './definitions.ts'
import { createExampleRows, createUniqueValue } from './example-rows.ts'
import { insertRows, type Values } from './rows.ts'

/** The properties of a row that access rules depend on. */
export interface RowKind {
  own: boolean
  /** The values that differ from those of the examples. */
  values?: Values
}

const tomorrow = () => new Date(Date.now() + 86_400_000).toISOString()
const short = () => uuid().slice(-12)

/** Returns the first field of text that a change can set to any text. */
function findTextField(name: string): string | undefined {
  const { properties } = getDefinition(name).schemas.change
  return Object.keys(properties).find((field) => {
    const { type, pattern, format, enum: values }: Json = properties[field]
    return [type].flat().includes('string') && !pattern && !format && !values && !/password/.test(field)
  })
}

export function createOwnedRows(database: Database) {
  const { insertRow, makeRoom, buildCreation, getParent } = createExampleRows(database)
  const one = async (table: string, values: Values): Promise<string> =>
    (await insertRows(database, table, [values]))[0] ?? ''

  const makeEndpoint = (owner: string) => {
    const values = { url: 'https://example.com', event_types: '["*"]', api_version: 1, secret_box: 'x' }
    return one('webhook_endpoints', { user_id: owner, ...values })
  }
  const endpoints = new Map<string, Promise<string>>()
  /** Returns the id of the parent below which rows of an owner are. */
  const getParentOf = (name: string, owner: string): Promise<string> | undefined => {
    if (getDefinition(name).parent?.to !== 'webhook-endpoints') return getParent(name, owner)
    const endpoint = endpoints.get(owner) ?? makeEndpoint(owner)
    endpoints.set(owner, endpoint)
    return endpoint
  }

  const makers: Record<string, (owner: string) => Promise<string>> = {
    users: async (owner) => owner,
    sessions: (owner) =>
      one('sessions', { user_id: owner, refresh_hash: 'x', expires_at: tomorrow(), ends_at: tomorrow() }),
    'api-keys': (owner) => {
      const values = { name: 'k', prefix: 'rak_', scopes: '["*"]', expires_at: tomorrow() }
      return one('api_keys', { user_id: owner, key_hash: short(), ...values })
    },
    'webhook-endpoints': makeEndpoint,
    deliveries: async (owner) => {
      const values = { event_id: uuid(), event_type: 'products.created' }
      return one('webhook_deliveries', {
        endpoint_id: (await getParentOf('deliveries', owner)) ?? '',
        user_id: owner,
        ...values,
      })
    },
    replays: async (owner) => {
      const endpoint_id = (await getParentOf('replays', owner)) ?? ''
      const times = { since: '2026-11-20', until: '2026-11-21', completed_at: '2026-11-21' }
      return one('webhook_replays', { endpoint_id, user_id: owner, total: 0, ...times })
    },
  }

  const getEmail = async (id: string) =>
    (await database.run('select email from users where id = $1', [id]))[0]?.email ?? `${short()}@example.com`

  return {
    user: (values: Values = {}) => one('users', values),
    getParent: getParentOf,
    /** Returns the path of a collection; some are below a parent. */
    async listOf(name: string, owner: string): Promise<string> {
      const { parent } = getDefinition(name)
      return parent ? `/${parent.to}/${await getParentOf(name, owner)}/${name}` : `/${name}`
    },
    /** Returns the path of a collection below a parent that does not exist. */
    getMissingList(name: string): string {
      const { parent } = getDefinition(name)
      return parent ? `/${parent.to}/${uuid()}/${name}` : `/${name}`
    },
    /** Inserts a row and returns its id. */
    make: (name: string, owner: string, values: Values = {}): Promise<string> =>
      makers[name]?.(owner) ?? insertRow(name, owner, values),
    /** Returns a body that creates a row of `owner`. */
    async creation(name: string, owner: string, values: Values = {}): Promise<Json> {
      await makeRoom(name, owner)
      const { password: _, ...body } = await buildCreation(name, owner)
      return { ...body, ...values }
    },
    /** Returns a body that replaces a row of `owner`. A user's email is kept, because a new one needs the password. */
    async replacement(name: string, owner: string): Promise<Json> {
      if (name === 'users') return { name: short(), email: await getEmail(owner) }
      const { change } = getDefinition(name).schemas
      const body = await buildCreation(name, owner)
      return Object.fromEntries(Object.entries(body).filter(([field]) => field in change.properties))
    },
    /** Returns a body of PATCH that has an effect. */
    change(name: string): Json {
      const { change } = getDefinition(name).schemas
      const field = findTextField(name)
      if (field !== undefined) return { [field]: createUniqueValue(change.properties[field], 'changed ') }
      const [number] = Object.entries<Json>(change.properties).filter(([, { type }]) => type === 'integer')
      if (number) return { [number[0]]: createUniqueValue(number[1], 0) }
      if (change.examples?.[0]) return change.examples[0]
      throw new Error(
        `${locateSchema(change.title)}: give ${change.title} an example, such as examples: [{ name: 'Changed' }]`,
      )
    },
  }
}

export type OwnedRows = ReturnType<typeof createOwnedRows>
