/**
 * Every route answers every role as docs/access-matrix.json says, for rows of the caller, of others, and unknown ones. The
 * rules do not depend on the version, so that version 2 has every fourth operation, another one of each collection.
 */
import t from 'tap'
import { v7 as uuid } from 'uuid'
import type { Verb } from '../../plugins/access/rules.ts'
import { getIncludingScope, getScope } from '../../plugins/access/scopes.ts'
import { hashKey } from '../../plugins/auth/key-format.ts'
import { buildAccessTable } from '../../plugins/openapi/access-tables.ts'
import { type Role, roles } from '../../schemas/roles.ts'
import { type Client, type Person, type TestApp, testApp } from '../helpers/app.ts'
import {
  allowsRow,
  type Cell,
  definitions,
  getComparableValues,
  getComparedFields,
  getDefinition,
  getOwnerColumn,
  locateDefinition,
  locateSchema,
  matrix,
  promises,
} from '../helpers/definitions.ts'
import { createOwnedRows, type OwnedRows, type RowKind } from '../helpers/example-rows.ts'
import { VERSIONS } from '../helpers/versioned-client.ts'

const methodsOf: Record<Verb, string[]> = {
  list: ['GET', 'HEAD'],
  read: ['GET', 'HEAD'],
  create: ['POST'],
  replace: ['PUT'],
  update: ['PATCH'],
  remove: ['DELETE'],
}
const success = { list: 200, read: 200, create: 201, replace: 200, update: 200, remove: 204 } as const

/** Collections that no API key may be used for. */
const isBearerOnly = (collection: string) => getDefinition(collection).bearerOnly === true

/** Returns the values of a field: those that access rules compare it with, and one that they do not. */
function getComparedValues(collection: string, field: string): { compared: string[]; other: string } {
  const definition = getDefinition(collection)
  const { schemas, access } = definition
  const compared = Object.values(access).flatMap((rules) =>
    Object.values(rules).flatMap((rule) =>
      typeof rule === 'boolean'
        ? []
        : rule.flatMap(({ [field]: value }) =>
            typeof value === 'symbol' || value === undefined ? [] : [String(value)],
          ),
    ),
  )
  const other = getComparableValues(definition, field).find((value) => !compared.includes(value))
  if (other !== undefined) return { compared: [...new Set(compared)], other }
  throw new Error(
    `${locateDefinition(definition, 'access')}: the rules compare "${field}", of which no other value is known; declare it with OneOf and a value that the rules do not name (${locateSchema(schemas.read.title)})`,
  )
}

/** The kinds of rows that an access rule may distinguish. */
function kindsOf(collection: string, verb: Verb): Record<string, RowKind> {
  const definition = getDefinition(collection)
  const { parent, schemas } = definition
  const owner = getOwnerColumn(definition)
  const hasOwner = owner !== undefined && owner !== 'id'
  if (verb === 'list')
    return hasOwner ? { own: { own: true }, foreign: { own: false } } : { any: { own: true } }
  if (verb === 'create') {
    // The owner of a new row is in the path or in the body; some can be created only for the caller.
    const isOwnerFree = hasOwner && (parent?.to === 'users' || owner in schemas.create.properties)
    return { own: { own: true }, ...(isOwnerFree && { foreign: { own: false } }) }
  }
  const kinds: Record<string, RowKind> = { ...(owner && { own: { own: true } }), foreign: { own: false } }
  if (collection === 'users') kinds['a foreign manager'] = { own: false, values: { role: 'manager' } }
  for (const field of getComparedFields(definition)) {
    const { compared, other } = getComparedValues(collection, field)
    for (const kind of Object.values(kinds)) kind.values = { ...kind.values, [field]: other }
    for (const value of compared) {
      kinds[`${field} ${value}`] = { own: false, values: { ...kinds.foreign?.values, [field]: value } }
    }
  }
  return kinds
}

interface Operation {
  collection: string
  verb: Verb
  method: string
}

const operations: Operation[] = Object.entries(matrix).flatMap(([collection, cells]) =>
  (Object.keys(cells) as Verb[]).flatMap((verb) =>
    methodsOf[verb].map((method) => ({ collection, verb, method })),
  ),
)

const collections = Object.keys(matrix)
/** Version 2 has operations with all verbs and methods: a collection begins one later than the collection before it. */
const operationsOf = (version: number) =>
  version === 1
    ? operations
    : operations.filter(({ collection }, i) => {
        const first = operations.findIndex((each) => each.collection === collection)
        return (i - first + collections.indexOf(collection)) % 4 === 0
      })

async function bodyOf(ownedRows: OwnedRows, { collection, verb }: Operation, owner: string) {
  if (verb === 'create') return ownedRows.creation(collection, owner)
  if (verb === 'replace') return ownedRows.replacement(collection, owner)
  return verb === 'update' ? ownedRows.change(collection, owner) : undefined
}

interface Target {
  version: number
  owner: string
  /** Undefined for an unknown row. */
  id: string | undefined
  body: unknown
}

/** Calls an operation; the status, and whether HEAD had a body. */
async function send(
  ownedRows: OwnedRows,
  by: Client,
  { collection, verb, method }: Operation,
  target: Target,
) {
  const { version, owner, id = uuid(), body } = target
  const isOne = verb !== 'list' && verb !== 'create'
  const isMissing = target.id === undefined && !isOne
  const list = isMissing ? ownedRows.getMissingList(collection) : await ownedRows.listOf(collection, owner)
  const reply = await by.call(method, `/api/v${version}${list}${isOne ? `/${id}` : ''}`, { body })
  return method === 'HEAD' && reply.text !== '' ? `${reply.status} with a body` : reply.status
}

/** Calls an operation on a new row of an owner, or on an unknown id. */
async function call(
  ownedRows: OwnedRows,
  by: Client,
  operation: Operation,
  {
    version,
    owner,
    values,
    missing = false,
  }: { version: number; owner: string; values?: RowKind['values']; missing?: boolean },
) {
  const { collection, verb } = operation
  const isNew = !missing && verb !== 'list' && verb !== 'create'
  const id = isNew ? await ownedRows.make(collection, owner, values) : missing ? undefined : ''
  return send(ownedRows, by, operation, {
    version,
    owner,
    id,
    body: await bodyOf(ownedRows, operation, owner),
  })
}

/** Callers that are also refused for the row of another user, and for none. */
const OTHER_ROWS_TOO = ['nothing', 'anonymous', 'an ended session']

/** Calls an operation that changes nothing since it is refused: on a row of the caller, for some also on others. */
function createRefusedCalls(ownedRows: OwnedRows, stranger: string) {
  const rows = new Map<string, string>()
  const rowOf = async (collection: string, owner: string) => {
    const name = `${collection} ${owner}`
    const id = rows.get(name) ?? (await ownedRows.make(collection, owner))
    rows.set(name, id)
    return id
  }
  return async (
    version: number,
    operation: Operation,
    callers: ReadonlyMap<string, { id: string; by: Client }>,
  ) => {
    const { collection } = operation
    const body = await bodyOf(ownedRows, operation, stranger)
    // A body that creates their profile has taken the one they had.
    if (operation.verb === 'create') rows.delete(`${collection} ${stranger}`)
    const theirs = await rowOf(collection, stranger)
    const found: Record<string, unknown> = {}
    for (const [name, { id: owner, by }] of callers) {
      const own = await rowOf(collection, owner)
      const column = getOwnerColumn(getDefinition(operation.collection)) ?? ''
      const ownBody = body?.[column] === undefined ? body : { ...body, [column]: owner }
      const onOwn = send(ownedRows, by, operation, { version, owner, id: own, body: ownBody })
      // The row that most rules allow stands for the others, except for one caller of each kind.
      found[name] = OTHER_ROWS_TOO.includes(name)
        ? await Promise.all([
            onOwn,
            send(ownedRows, by, operation, { version, owner: stranger, id: theirs, body }),
            send(ownedRows, by, operation, { version, owner, id: undefined, body }),
          ])
        : [await onOwn]
    }
    return found
  }
}

/** What the cell promises, by the kind of row. A list is there for whom it is not empty by rule. */
function expectedOf({ collection, verb }: Operation, cell: Cell): Record<string, number> {
  const found = Object.entries(kindsOf(collection, verb)).map(([name, kind]) => {
    const open = verb === 'list' ? cell !== 'none' : allowsRow(cell, { ...kind.values, own: kind.own })
    return [name, open ? success[verb] : 403]
  })
  const hasMissing = (verb !== 'list' && verb !== 'create') || getDefinition(collection).parent !== undefined
  return Object.fromEntries([...found, ...(hasMissing ? [['missing', cell === 'none' ? 403 : 404]] : [])])
}

t.test('the definitions grant what docs/access-matrix.json promises', async (t) => {
  for (const definition of definitions) {
    const promised = promises[definition.name]
    const where = `${locateDefinition(definition, 'access')}: the rules of ${definition.name}`
    if (!promised) continue
    const granted = buildAccessTable(definition)
    t.same(Object.keys(granted).sort(), Object.keys(promised).sort(), where)
    // The matrix has the promised cells, and those of roles that a project has added.
    t.same(granted, matrix[definition.name], where)
  }
})

t.test('every route answers every caller as the matrix says, for every kind of row', async (t) => {
  const app = await testApp(t)
  const ownedRows = createOwnedRows(app.database)
  const scopes = Object.keys(matrix)
    .filter((collection) => !isBearerOnly(collection))
    .flatMap((collection) => [`${collection}:read`, `${collection}:write`])
  const people = await app.peopleOfAllRoles()
  const refused = await callersRefused(app)
  const keys = new Map<string, Person>()
  for (const scope of [...scopes, 'nothing']) keys.set(scope, await app.person('admin', [scope]))

  /** The statuses for all kinds of rows of one caller. */
  const walk = async (version: number, operation: Operation, person: Person, by: Client) => {
    const { collection, verb } = operation
    const statuses: Record<string, number | string> = {}
    if ('missing' in expectedOf(operation, 'all'))
      statuses.missing = await call(ownedRows, by, operation, { version, owner: person.id, missing: true })
    // The caller's own row last: a deleted caller cannot authenticate afterwards.
    for (const [name, { own, values = {} }] of Object.entries(kindsOf(collection, verb)).reverse()) {
      const owner = own ? person.id : await ownedRows.user(collection === 'users' ? values : {})
      statuses[name] = await call(ownedRows, by, operation, { version, owner, values })
    }
    return statuses
  }

  const refusals = createRefusedCalls(ownedRows, await ownedRows.user())
  const each = (callers: ReadonlyMap<string, unknown>, status: number) =>
    Object.fromEntries(
      [...callers.keys()].map((name) => [
        name,
        OTHER_ROWS_TOO.includes(name) ? [status, status, status] : [status],
      ]),
    )
  const all = (status: number, operation: Operation) =>
    Object.fromEntries(Object.keys(expectedOf(operation, 'all')).map((name) => [name, status]))

  for (const version of VERSIONS) {
    for (const operation of operationsOf(version)) {
      const { collection, verb, method } = operation
      const title = `v${version} ${method} ${verb} ${collection}`
      const isKeyless = isBearerOnly(collection)
      /** A user who is deleted by the call cannot be used again. */
      const fresh = (role: Role) =>
        collection === 'users' && verb === 'remove' ? app.person(role) : people[role]

      for (const role of roles) {
        const expected = expectedOf(operation, matrix[collection]?.[verb]?.[role] ?? 'none')
        const signedIn = await fresh(role)
        t.same(await walk(version, operation, signedIn, signedIn.bearer), expected, `${title}: ${role}`)
        const keyed = await fresh(role)
        const byKey = isKeyless ? all(403, operation) : expected
        t.same(await walk(version, operation, keyed, keyed.client), byKey, `${title}: ${role}'s key`)
      }

      const needed = isKeyless ? undefined : getScope(collection, verb)
      const fitting = needed === undefined ? [] : [needed, getIncludingScope(needed) ?? []].flat()
      for (const scope of fitting) {
        const isGone = collection === 'users' && verb === 'remove'
        const who = isGone ? await app.person('admin', [scope]) : keys.get(scope)
        if (!who) throw new Error(`there is no key with ${scope}`)
        const admins = expectedOf(operation, matrix[collection]?.[verb]?.admin ?? 'none')
        t.same(await walk(version, operation, who, who.client), admins, `${title}: a key with ${scope}`)
      }
      const unfit = new Map(
        [...keys]
          .filter(([scope]) => !fitting.includes(scope))
          .map(([scope, { id, client }]) => [scope, { id, by: client }]),
      )
      t.same(await refusals(version, operation, unfit), each(unfit, 403), `${title}: other scopes`)
      t.same(await refusals(version, operation, refused), each(refused, 401), `${title}: without a user`)
    }
  }
})

/** Callers without an account, and with a deleted one. */
async function callersRefused({ person, database, anybody }: TestApp) {
  const [revoked, ended, suspended] = [await person('admin'), await person('admin'), await person('admin')]
  await database.run('delete from api_keys where key_hash = $1', [hashKey(revoked.key)])
  await database.run('delete from sessions where id = $1', [ended.sessionId])
  await database.run(`update users set status = 'suspended' where id = $1`, [suspended.id])
  return new Map<string, { id: string; by: Client }>([
    ['anonymous', { id: revoked.id, by: anybody }],
    ['a revoked key', { id: revoked.id, by: revoked.client }],
    ['an ended session', { id: ended.id, by: ended.bearer }],
    ['a suspended user', { id: suspended.id, by: suspended.bearer }],
    ["a suspended user's key", { id: suspended.id, by: suspended.client }],
  ])
}
