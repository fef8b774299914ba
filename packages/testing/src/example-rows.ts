/**
 * Rows and bodies of any resource, from its examples for tests or else from those of its schemas. Unique values vary, and ids in the examples are
 * replaced by those of rows that exist: `user_id` by the owner, `product_id` by a new product.
 */
import { buildExample } from '@resource-api/api/documents'
import { CALLER } from '@resource-api/api/rules'
import { exampleId } from '@resource-api/api/schemas'
import { compileSchema } from '@resource-api/api/validation'
import type { Database } from '@resource-api/database'
import { findBuiltIn } from '@resource-api/database/application'
import type { Param } from '@resource-api/database/client'
import { getRowParts } from '@resource-api/database/key'
import { roles } from '@resource-api/database/roles'
import { isObject } from '@resource-api/database/values'
import { getUniqueColumns, type ResourceDefinition } from '@resource-api/resources/internal'
import { buildSearchText } from '@resource-api/resources/search-text'
import { getTableColumns } from 'drizzle-orm'
import type { FastifyInstance } from 'fastify'
import { v7 as uuid } from 'uuid'
import type { TestApp } from './app.ts'
import type { Json } from './client.ts'
import { type Definitions, locateSchema, locateTable, readDefinitions, toDefinition } from './definitions.ts'
import { type AllExamples, getTime } from './examples.ts'

/** Values of columns. */
export type Values = Record<string, Param | undefined>
type Fields = Record<string, Json>

const short = () => uuid().slice(-12)

let count = 0

/** Returns a different value each time that the schema of the field accepts, made from its example. */
function createUniqueValue(schema: Json, example: Json): Json {
  count += 1
  if (typeof example === 'number') {
    const { minimum = 0, maximum = Number.MAX_SAFE_INTEGER } = schema
    return minimum + (count % (maximum - minimum + 1))
  }
  const digits = String(count).padStart(5, '0')
  const text = String(example ?? '')
  const [local = '', domain] = text.split('@')
  const base = domain === undefined ? text : local
  const rest = domain === undefined ? '' : `@${domain}`
  const candidates = [`${base}${digits}`, `${digits}${base}`, base.slice(0, -digits.length) + digits, digits]
  const isValid = compileSchema(schema)
  return candidates.map((candidate) => `${candidate}${rest}`).find((candidate) => isValid(candidate))
}

/**
 * Returns the resource that a field such as `product_id` refers to: by the foreign key of the resource that has the field,
 * or else by its name, for fields in lists and objects.
 */
export function findReferenced(
  { definitions, getReferences, getTable }: Definitions,
  field: string,
  of: ResourceDefinition | undefined,
): ResourceDefinition | undefined {
  if (!field.endsWith('_id')) return undefined
  const key = of && getReferences(of).get(field)
  const target = key && definitions.find(({ name }) => getTable(name) === key)
  if (target) return target
  const name = field.replace(/_id$/, '').replaceAll('_', '')
  const named = definitions.find(({ singular }) => singular.toLowerCase() === name)
  if (named) return named
  const [table] = definitions.flatMap((definition) => getReferences(definition).get(field) ?? [])
  return table === undefined ? undefined : definitions.find((each) => getTable(each.name) === table)
}

/** Returns the values of a row that every member may read, if the rule compares fields other than the owner. */
function getReadableValues({ access }: ResourceDefinition): Fields {
  const rule = (access.read ?? access.list)?.member
  const [condition = {}] = typeof rule === 'object' ? rule : []
  return Object.fromEntries(
    Object.entries(condition).filter(([name, value]) => value !== CALLER && !name.includes('.')),
  )
}

export interface RowSources {
  definitions: Definitions
  examples: AllExamples
  /** Has the paths of the operations. Default: the usual ones. */
  app?: Pick<FastifyInstance, 'operationUrls'>
}

export function createRows(database: Database, { definitions: all, examples }: RowSources) {
  const { definitions, getDefinition, getOwnerColumn, getReferences, getTable, isRegistered } = all

  /** Returns the column of the owner if an owner has at most one row. */
  function getSoleOwnerColumn(definition: ResourceDefinition): string | undefined {
    const column = getOwnerColumn(definition)
    const isSole = column !== undefined && column !== 'id' && getUniqueColumns(definition.table).has(column)
    return isSole ? column : undefined
  }

  const insert = async (table: string, values: Fields): Promise<string> => {
    const names = Object.keys(values)
    const params = names.map((name): Param => {
      const value = values[name]
      return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
    })
    const places = names.map((_, i) => `$${i + 1}`)
    const columns = names.map((name) => `"${name}"`)
    await database.run(`insert into "${table}" (${columns.join()}) values (${places.join()})`, params)
    return values.id
  }

  const insertUser = (values: Values = {}) => {
    count += 1
    const name = `User ${count}`
    const whole = { id: uuid(), name, email: `user.${count}.${short()}@example.com`, ...values }
    return insert('users', { ...whole, search: buildSearchText(whole, ['name', 'email']) })
  }

  /** Replaces the ids in an example by those of rows that exist. */
  async function substituteIds(of: ResourceDefinition, value: Json, owner: string): Promise<Json> {
    if (Array.isArray(value)) return Promise.all(value.map((item) => substituteIds(of, item, owner)))
    if (typeof value !== 'object' || value === null) return value
    const entries: [string, Json][] = []
    for (const [name, field] of Object.entries(value)) {
      const referenced = field === exampleId ? findReferenced(all, name, of) : undefined
      entries.push([
        name,
        referenced ? await getRow(referenced, owner) : await substituteIds(of, field, owner),
      ])
    }
    return Object.fromEntries(entries)
  }

  /** Returns the owner, if a user is wanted, or the id of a new row. */
  async function getRow(definition: ResourceDefinition, owner: string): Promise<string> {
    if (definition.name === 'users') return owner
    const values = getReadableValues(definition)
    return (await reuseSoleRow(definition, owner, values)) ?? insertRow(definition.name, owner, values)
  }

  /** Returns the id of the row of an owner who can have only one, with the values: other rows may refer to it. */
  async function reuseSoleRow(definition: ResourceDefinition, owner: string, values: Fields) {
    const column = getSoleOwnerColumn(definition)
    if (column === undefined) return undefined
    const changes = [column, ...Object.keys(values)].map((name, i) => `"${name}" = $${i + 1}`)
    const [row] = await database.run(
      `update "${getTable(definition.name)}" set ${changes.join()} where "${column}" = $1 returning id`,
      [owner, ...Object.values(values)],
    )
    return row?.id === undefined ? undefined : String(row.id)
  }

  /**
   * Returns a valid body of POST, with the references of the path or the body set to the owner. What must exist before is
   * inserted.
   * @param values that differ from those of the examples
   */
  async function buildCreation(name: string, owner: string, values: Fields = {}): Promise<Fields> {
    const definition = getDefinition(name)
    const { create } = definition.schemas
    const given = examples.get(name)?.create(++count)
    const fields: Fields = Object.fromEntries(
      Object.entries(await substituteIds(definition, given ?? buildExample(create), owner)).filter(
        ([field]) => field in create.properties,
      ),
    )
    const ownerColumn = getOwnerColumn(definition)
    if (ownerColumn !== undefined && ownerColumn in create.properties && ownerColumn !== 'id') {
      fields[ownerColumn] = owner
    }
    // The bodies of the resource's own examples differ already.
    for (const field of given ? [] : getUniqueColumns(definition.table)) {
      if (field === ownerColumn || !(field in fields)) continue
      fields[field] = createUniqueValue(create.properties[field], fields[field])
      if (fields[field] !== undefined) continue
      throw new Error(
        `${locateSchema(create.title)}: no different value of the unique field "${field}" could be made from its example; give it an example that stays valid with digits at its end`,
      )
    }
    Object.assign(fields, values)
    await examples.get(name)?.before?.({ database, owner, body: fields })
    return fields
  }

  const parents = new Map<string, Promise<string>>()
  /** Returns the id of the parent below which rows of an owner are. */
  function getParent(name: string, owner: string): Promise<string> | undefined {
    const parent = getDefinition(name).parent
    if (!parent) return undefined
    if (parent.to === 'users') return Promise.resolve(owner)
    const key = `${name} ${owner}`
    const found = parents.get(key) ?? insertRow(parent.to, owner, getReadableValues(getDefinition(parent.to)))
    parents.set(key, found)
    return found
  }

  /** Inserts a row of an owner with the values of the examples. @returns its id */
  async function insertRow(name: string, owner: string, values: Fields = {}): Promise<string> {
    const definition = getDefinition(name)
    const { schemas, search, parent, table } = definition
    const references = getReferences(definition)
    const ownerColumn = getOwnerColumn(definition)
    const body = await buildCreation(name, owner)
    const whole: Json = await substituteIds(definition, buildExample(schemas.read), owner)
    // A view may have one row of each owner.
    const key = getRowParts(table).key.parts[0].column.name
    const isOwner = definition.isView === true && (ownerColumn === 'id' || ownerColumn === key)
    const row: Fields = { [key]: isOwner ? owner : uuid() }
    const hasParent = parent && (await getParent(name, owner))
    for (const { name: column, notNull, hasDefault } of Object.values(getTableColumns(table))) {
      const property: Json = schemas.create.properties[column]
      const given = column in body ? body[column] : property?.default
      if (column in row || ['created_at', 'updated_at', 'revision', 'search'].includes(column)) continue
      if (parent && column === parent.member) row[column] = hasParent
      else if (column === ownerColumn) row[column] = owner
      // The rows have more fields than the bodies in objects and lists.
      else if (isObject(given) || (Array.isArray(given) && given.some(isObject))) row[column] = whole[column]
      else if (given !== undefined) row[column] = given
      else if (!notNull || hasDefault) continue
      else if (references.has(column)) row[column] = await insertReferenced(definition, column, owner)
      else if (whole[column] !== undefined) row[column] = whole[column]
      else {
        throw new Error(
          `${locateTable(definition)}: no row can be inserted, because the column "${column}" has no default, and neither ${schemas.create.title} nor ${schemas.read.title} has an example of it (${locateSchema(schemas.create.title)})`,
        )
      }
    }
    Object.assign(row, examples.get(name)?.columns?.(body), values)
    if (search.length > 0) row.search = buildSearchText(row, search)
    await makeRoom(name, owner)
    if (isOwner) await database.run(`delete from "${getTable(name)}" where "${key}" = $1`, [owner])
    await insert(getTable(name), row)
    return row[key]
  }

  /** Gives the row of an owner who can have only one to another user. Rows that refer to it stay as they are. */
  async function makeRoom(name: string, owner: string): Promise<void> {
    const column = getSoleOwnerColumn(getDefinition(name))
    if (column === undefined) return
    const table = getTable(name)
    const [row] = await database.run(`select id from "${table}" where "${column}" = $1`, [owner])
    if (!row) return
    const other = await insertUser()
    await database.run(`update "${table}" set "${column}" = $2 where "${column}" = $1`, [owner, other])
  }

  async function insertReferenced(definition: ResourceDefinition, column: string, owner: string) {
    const table = getReferences(definition).get(column)
    const target = definitions.find(({ name }) => isRegistered(name) && getTable(name) === table)
    if (target) return getRow(target, owner)
    throw new Error(
      `${locateTable(definition)}: the column "${column}" refers to the table "${table}", which no registered resource has`,
    )
  }

  return { insert, insertUser, insertRow, makeRoom, buildCreation, getParent, substituteIds }
}

/** Returns functions that make valid bodies and rows of the resources of an app. @param examples of `{name}.examples.ts` */
export const createExampleRows = ({ app, database }: TestApp, examples: AllExamples = new Map()) =>
  createRows(database, { definitions: readDefinitions(app.resources.map(toDefinition)), examples })

/** The properties of a row that access rules depend on. */
export interface RowKind {
  own: boolean
  /** The values that differ from those of the examples. */
  values?: Values
}

const tomorrow = () => new Date(Date.now() + 86_400_000).toISOString()

export function createOwnedRows(database: Database, sources: RowSources) {
  const { examples, definitions: all } = sources
  const { getDefinition } = all
  const rows = createRows(database, sources)
  const { insertRow, makeRoom, buildCreation, getParent, substituteIds } = rows

  /** Returns the properties of a change that every role may write that may change rows. */
  function getOpenProperties(name: string): Fields {
    const { access, fields = {}, schemas } = getDefinition(name)
    const writers = roles.filter((role) => access.update?.[role] || access.replace?.[role])
    const isOpen = ({ read, write = read }: { read?: readonly string[]; write?: readonly string[] } = {}) =>
      writers.every((role) => write?.includes(role) ?? true)
    return Object.fromEntries(
      Object.entries(schemas.change.properties).filter(([field]) => isOpen(fields[field])),
    )
  }

  /** Returns the first field of text that a change can set to any text. */
  function findTextField(name: string): string | undefined {
    const properties = getOpenProperties(name)
    return Object.keys(properties).find((field) => {
      const { type, pattern, format, enum: values }: Json = properties[field]
      return [type].flat().includes('string') && !pattern && !format && !values && !/password/.test(field)
    })
  }

  /** Returns another value of a field with an enum or a boolean, which may follow that of the example. */
  function findOtherState(name: string): Fields | undefined {
    const { schemas, transitions = {} } = getDefinition(name)
    const shown: Json = buildExample(schemas.read)
    const created: Json = { ...Object(buildExample(schemas.create)), ...examples.get(name)?.create(++count) }
    for (const [field, { type, enum: values, default: initial }] of Object.entries<Json>(
      getOpenProperties(name),
    )) {
      const current = created[field] ?? schemas.create.properties[field]?.default ?? shown[field] ?? initial
      const others = type === 'boolean' ? [true, false] : values
      const [next] = (transitions[field]?.[current] ?? others ?? []).filter((each: Json) => each !== current)
      if (next !== undefined) return { [field]: next }
    }
    return undefined
  }

  /** Returns the fields of the resource's own example that a change may set: no states, which depend on the row. */
  function listChangeableExamples(name: string): [string, Json][] {
    const { transitions = {} } = getDefinition(name)
    const properties = getOpenProperties(name)
    return Object.entries(examples.get(name)?.create(++count) ?? {}).filter(
      ([field, value]) => field in properties && !(field in transitions) && value !== exampleId,
    )
  }

  const one = (table: string, values: Values) => rows.insert(table, { id: uuid(), ...values })

  const makeEndpoint = (owner: string) => {
    // With all types, each change of a test would be sent to every endpoint that it has made.
    const values = {
      url: 'https://example.com',
      event_types: '["users.deleted"]',
      api_version: 1,
      secret_box: 'x',
    }
    return one('webhook_endpoints', { user_id: owner, ...values })
  }
  const endpoints = new Map<string, Promise<string>>()
  /** Returns the id of the parent below which rows of an owner are. */
  const findParent = (name: string, owner: string): Promise<string> | undefined => {
    if (findBuiltIn(getDefinition(name).parent?.to ?? '') !== 'webhook-endpoints')
      return getParent(name, owner)
    const endpoint = endpoints.get(owner) ?? makeEndpoint(owner)
    endpoints.set(owner, endpoint)
    return endpoint
  }

  /** Makes rows of the collections of the packages, whose examples are of responses only. */
  const makers: Partial<Record<string, (owner: string, name: string) => Promise<string>>> = {
    users: async (owner) => owner,
    sessions: (owner) =>
      one('sessions', { user_id: owner, refresh_hash: 'x', expires_at: tomorrow(), ends_at: tomorrow() }),
    'api-keys': (owner) => {
      const values = { name: 'k', prefix: 'rak_', scopes: '["*"]', expires_at: tomorrow() }
      return one('api_keys', { user_id: owner, key_hash: short(), ...values })
    },
    'webhook-endpoints': makeEndpoint,
    deliveries: async (owner, name) => {
      const values = { event_id: uuid(), event_type: 'products.created' }
      return one('work', {
        kind: 'delivery',
        endpoint_id: (await findParent(name, owner)) ?? '',
        user_id: owner,
        ...values,
      })
    },
    replays: async (owner, name) => {
      const endpoint_id = (await findParent(name, owner)) ?? ''
      const times = { since: '2026-11-20', until: '2026-11-21', completed_at: '2026-11-21' }
      return one('webhook_replays', { endpoint_id, user_id: owner, total: 0, ...times })
    },
  }

  const getEmail = async (id: string) =>
    (await database.run('select email from users where id = $1', [id]))[0]?.email ?? `${short()}@example.com`

  /** Returns the path of an operation, as its route has it, with the ids of the parent and of the row. */
  const fillPath = (name: string, operation: string, parentId: string, row: string): string => {
    const { parent } = getDefinition(name)
    const url = sources.app?.operationUrls.get(`${name}:${operation}`)
    const end = { list: '', create: '', restores: '/:id/restores' }[operation] ?? '/:id'
    const usual = `${parent ? `/${parent.to}/:${parent.member}` : ''}/${name}${end}`
    const path = url ? url.replace(/^\/api\/v\d+/, '') : usual
    return path.replace(`:${parent?.member}`, parentId).replace(':id', row)
  }

  return {
    user: rows.insertUser,
    getParent: findParent,
    /** Returns an example of a body with the ids of rows that exist. */
    substitute: (name: string, value: Json, owner: string): Promise<Json> =>
      substituteIds(getDefinition(name), value, owner),
    /** Returns the path of an operation; some are below a parent of the owner. */
    async getPath(name: string, operation: string, owner: string, row = ''): Promise<string> {
      return fillPath(name, operation, (await findParent(name, owner)) ?? '', row)
    },
    /** Returns the path of a list; some are below a parent of the owner. */
    async getListPath(name: string, owner: string): Promise<string> {
      return fillPath(name, 'list', (await findParent(name, owner)) ?? '', '')
    },
    /** Returns the path of an operation on a collection, below a parent that does not exist. */
    getMissingList: (name: string, operation = 'list'): string => fillPath(name, operation, uuid(), ''),
    /** Inserts a row and returns its id. */
    make: (name: string, owner: string, values: Values = {}): Promise<string> =>
      makers[name === 'users' ? name : (findBuiltIn(name) ?? '')]?.(owner, name) ??
      insertRow(name, owner, values),
    /** Returns a body that creates a row of `owner`. */
    async creation(name: string, owner: string, values: Values = {}): Promise<Json> {
      await makeRoom(name, owner)
      const { password: _, ...body } = await buildCreation(name, owner, values)
      return body
    },
    /** Returns a body that replaces a row of `owner`. A user's email is kept, because a new one needs the password. */
    async replacement(name: string, owner: string): Promise<Json> {
      if (name === 'users') return { name: short(), email: await getEmail(owner) }
      const { change } = getDefinition(name).schemas
      const created = await buildCreation(name, owner)
      const kept = Object.entries(created).filter(([field]) => field in change.properties)
      const { kept: stays = [] } = getDefinition(name)
      const required = (change.required ?? []).filter(
        (field) => change.properties[field]?.default === undefined && !stays.includes(field),
      )
      if (required.every((field) => field in created)) return Object.fromEntries(kept)
      return { ...findOtherState(name), ...Object.fromEntries(kept) }
    },
    /** Returns a body of PATCH that has an effect on a row of `owner`. */
    async change(name: string, owner: string): Promise<Json> {
      const { change } = getDefinition(name).schemas
      const given = examples.get(name)?.change?.(++count)
      if (given) return given
      const field = findTextField(name)
      if (field !== undefined) return { [field]: createUniqueValue(change.properties[field], 'changed ') }
      const [number] = Object.entries<Json>(getOpenProperties(name)).filter(
        ([, { type }]) => type === 'integer',
      )
      if (number) return { [number[0]]: createUniqueValue(number[1], 0) }
      const moment = Object.entries<Json>(getOpenProperties(name)).find(
        ([, { format }]) => format === 'date-time',
      )
      if (moment) return { [moment[0]]: getTime(++count, 12) }
      const state = findOtherState(name)
      if (state) return state
      const [other] = listChangeableExamples(name)
      if (other) return Object.fromEntries([other])
      if (change.examples?.[0]) return substituteIds(getDefinition(name), change.examples[0], owner)
      const reference = Object.keys(getOpenProperties(name)).find((each) =>
        findReferenced(all, each, getDefinition(name)),
      )
      if (reference !== undefined)
        return substituteIds(getDefinition(name), { [reference]: exampleId }, owner)
      throw new Error(
        `${locateSchema(change.title)}: give ${change.title} an example, such as examples: [{ name: 'Changed' }]`,
      )
    },
  }
}
