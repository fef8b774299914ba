/**
 * Checks that every route answers every role as the definitions, or promises about them, say: for rows of the caller, of
 * others, and unknown ones. The rules do not depend on the version, so that each version but the first has every fourth
 * operation, another one of each collection.
 */

import { hashKey } from '@resource-api/accounts/internal'
import { getIncludingScope, getScope } from '@resource-api/api/access'
import type { Representation } from '@resource-api/api/versions'
import { roles, staff } from '@resource-api/database/roles'
import {
  type AccessMatrix,
  buildAccessMatrix,
  compareMatrices,
  locateRule,
  MATRIX_FILE,
  nameRule,
  readMatrix,
  WRITE_COMMAND,
} from '@resource-api/resources/access-matrix'
import { getUniqueColumns } from '@resource-api/resources/internal'
import { v7 as uuid } from 'uuid'
import type { BuildApp, Person, TestApp, TestOverrides } from './app.ts'
import { type AccessOptions, type CheckedApp, type CheckTest, startChecked } from './check.ts'
import type { Client } from './client.ts'
import {
  allowsRow,
  type Cell,
  getComparableValues,
  getComparedFields,
  locateSchema,
  type MatrixOperation,
} from './definitions.ts'
import { createOwnedRows, type RowKind } from './example-rows.ts'
import { buildVersionBody, hasOtherFields } from './version-bodies.ts'

const METHODS: Record<MatrixOperation, string[]> = {
  list: ['GET', 'HEAD'],
  read: ['GET', 'HEAD'],
  create: ['POST'],
  replace: ['PUT'],
  update: ['PATCH'],
  remove: ['DELETE'],
  restores: ['POST'],
}
const success = {
  list: 200,
  read: 200,
  create: 201,
  replace: 200,
  update: 200,
  remove: 204,
  restores: 201,
} as const

interface Operation {
  collection: string
  verb: MatrixOperation
  method: string
}

/** Compares what the definitions grant with what is promised. */
function checkPromises(t: CheckTest, { app }: CheckedApp, promises: AccessMatrix | undefined): void {
  t.ok(promises, `${MATRIX_FILE} is missing; ${WRITE_COMMAND} writes it`)
  if (!promises) return
  for (const { path, granted, promised, isSame } of compareMatrices(buildAccessMatrix(app), promises)) {
    const rule = nameRule(path)
    t.same(granted, promised, isSame ? rule : `${locateRule(path, app.resources)}: ${rule}`)
  }
}

/** Checks the access to all resources. */
export async function checkAccess<O extends TestOverrides>(
  t: CheckTest,
  buildApp: BuildApp<O>,
  { promises = readMatrix(), ...options }: AccessOptions<O> = {},
): Promise<void> {
  await t.test('access', { skip: false }, async (t) => {
    const app = await startChecked(t, buildApp, options, promises)
    await t.test('the definitions grant what is promised', { skip: false }, async (t) =>
      checkPromises(t, app, promises),
    )
    await checkRoutes(t, app)
  })
}

async function checkRoutes(t: CheckTest, app: CheckedApp): Promise<void> {
  const { getDefinition, getOwnerColumn, matrix: whole } = app.definitions
  const matrix = Object.fromEntries(Object.entries(whole).filter(([name]) => app.getReason(name) === false))
  const representations = app.app.versions.map(({ representation }) => representation)
  const [first] = representations

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
      `${locateRule([collection, 'read'], [definition])}: the rules compare "${field}", of which no other value is known; declare it with OneOf and a value that the rules do not name (${locateSchema(schemas.read.title)})`,
    )
  }

  /** The kinds of rows that an access rule may distinguish. */
  function listKinds(collection: string, verb: MatrixOperation): Record<string, RowKind> {
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
    if (collection === 'users')
      for (const role of staff) kinds[`a foreign ${role}`] = { own: false, values: { role } }
    for (const field of getComparedFields(definition)) {
      const { compared, other } = getComparedValues(collection, field)
      for (const kind of Object.values(kinds)) kind.values = { ...kind.values, [field]: other }
      for (const value of compared) {
        kinds[`${field} ${value}`] = { own: false, values: { ...kinds.foreign?.values, [field]: value } }
      }
    }
    return kinds
  }

  const operations: Operation[] = Object.entries(matrix).flatMap(([collection, cells]) =>
    (Object.keys(cells) as MatrixOperation[]).flatMap((verb) =>
      METHODS[verb].map((method) => ({ collection, verb, method })),
    ),
  )

  const collections = Object.keys(matrix)
  /**
   * Each further version has operations with all verbs and methods: a collection begins one later than the collection before
   * it. Collections with other fields in the version have all operations.
   */
  const selectOperations = (representation: Representation) =>
    representation === first
      ? operations
      : operations.filter(({ collection }, i) => {
          if (hasOtherFields(representation, getDefinition(collection))) return true
          const start = operations.findIndex((each) => each.collection === collection)
          return (i - start + collections.indexOf(collection)) % 4 === 0
        })

  /**
   * Returns what a cell promises, by the kind of row. A list is there for whom it is not empty by rule. What related rows
   * decide may be a success or a 403: the negative status.
   */
  function getExpected({ collection, verb }: Operation, cell: Cell): Record<string, number> {
    const byRelations = -success[verb]
    const found = Object.entries(listKinds(collection, verb)).map(([name, kind]) => {
      const open = verb === 'list' ? cell !== 'none' : allowsRow(cell, { ...kind.values, own: kind.own })
      if (open === undefined) return [name, byRelations]
      return [name, open ? success[verb] : 403]
    })
    const hasMissing =
      (verb !== 'list' && verb !== 'create') || getDefinition(collection).parent !== undefined
    return Object.fromEntries([...found, ...(hasMissing ? [['missing', cell === 'none' ? 403 : 404]] : [])])
  }

  const { peopleOfAllRoles, person } = app
  const rows = createOwnedRows(app.database, app)
  const people = await peopleOfAllRoles()
  const refused = await createRefusedCallers(app)
  const scopes = collections.flatMap((each) => (isBearerOnly(each) ? [] : [`${each}:read`, `${each}:write`]))
  const keys = new Map<string, Promise<Person>>()
  /** Returns an admin with a key of these scopes. */
  const withScopes = (wanted: readonly string[]) => {
    const found = keys.get(wanted.join()) ?? person('admin', wanted)
    keys.set(wanted.join(), found)
    return found
  }

  const buildBody = async (representation: Representation, { collection, verb }: Operation, owner: string) =>
    verb === 'create' || verb === 'replace' || verb === 'update'
      ? buildVersionBody(rows, representation, getDefinition(collection), verb, owner)
      : undefined
  const made = new Map<string, Promise<unknown>>()
  /** Returns what a call needs: something new for a write that succeeds, and the same for all calls that change nothing. */
  const reuse = <T>(isNew: boolean, key: unknown[], create: () => Promise<T>): Promise<T> => {
    const name = key.join(' ')
    // The key has the type.
    const found = isNew ? undefined : (made.get(name) as Promise<T> | undefined)
    const value = found ?? create()
    if (!isNew) made.set(name, value)
    return value
  }

  /** Calls an operation on a row of an owner, or on a missing one. @returns the status, and whether HEAD had a body */
  const call = async (
    target: {
      representation: Representation
      by: Client
      operation: Operation
      id: string
      expected: number
    },
    name: string,
    kind: RowKind | undefined,
  ) => {
    const { representation, by, operation, id, expected } = target
    const { version } = representation
    const { collection, verb, method } = operation
    // A second row of an owner with one row takes the place of the first.
    const column = getOwnerColumn(getDefinition(collection)) ?? ''
    const isSole = column !== 'id' && getUniqueColumns(getDefinition(collection).table).has(column)
    const isNew = isSole || (method !== 'GET' && method !== 'HEAD' && Math.abs(expected) === success[verb])
    const values = collection === 'users' ? kind?.values : {}
    const owner =
      kind && !kind.own ? await reuse(isNew, ['owner', collection, name], () => rows.user(values)) : id
    const isOne = verb !== 'list' && verb !== 'create'
    const make = () => rows.make(collection, owner, kind?.values)
    const isRestore = verb === 'restores'
    const row = isOne && kind ? await reuse(isNew, ['row', isRestore, collection, name, owner], make) : uuid()
    const body = await reuse(isNew, ['body', version, collection, verb, owner], () =>
      buildBody(representation, operation, owner),
    )
    const getPath = (name: string) => rows.getPath(collection, name, owner, row)
    if (isRestore && kind)
      await reuse(isNew, ['deletion', row], async () => app.admin.delete(await getPath('remove')))
    const path = kind || isOne ? await getPath(verb) : rows.getMissingList(collection, verb)
    const reply = await by.call(method, `/api/v${version}${path}`, { body })
    return method === 'HEAD' && reply.text !== '' ? `${reply.status} with a body` : reply.status
  }

  for (const representation of representations) {
    const { version } = representation
    await t.test(`version ${version}: every route answers every caller`, { skip: false }, async (t) => {
      for (const operation of selectOperations(representation)) {
        const { collection, verb, method } = operation
        const title = `v${version} ${method} ${verb} ${collection}`
        const isKeyless = isBearerOnly(collection)
        const kinds: Record<string, RowKind> = listKinds(collection, verb)
        const isGone = collection === 'users' && verb === 'remove'

        /** Checks the statuses of one caller, for the kinds of rows that are expected. */
        const check = async (id: string, by: Client, expected: Record<string, number>, caller: string) => {
          const statuses: Record<string, number | string> = {}
          // The caller's own row last: a deleted caller cannot authenticate afterwards.
          for (const [name, status] of Object.entries(expected).reverse()) {
            const found = await call(
              { representation, by, operation, id, expected: status },
              name,
              kinds[name],
            )
            statuses[name] = status < 0 && (found === -status || found === 403) ? status : found
          }
          t.same(statuses, expected, `${title}: ${caller}`)
        }
        /** Some kinds of rows, the missing one among them, with the statuses of a cell, or one status for each. */
        const some = (count: number, cell: Cell | number) => {
          const found = Object.entries(getExpected(operation, typeof cell === 'number' ? 'all' : cell))
          const chosen = found.filter((_, i) => i < count - 1 || i === found.length - 1)
          return Object.fromEntries(
            chosen.map(([name, status]) => [name, typeof cell === 'number' ? cell : status]),
          )
        }

        const cells = matrix[collection]?.[verb]
        for (const role of roles) {
          const cell = cells?.[role] ?? 'none'
          // A user who is deleted by the call cannot be used again.
          const fresh = () => (isGone ? person(role) : people[role])
          const { id, bearer } = await fresh()
          // The rows do not matter where the role is refused before any look-up, and HEAD is GET.
          await check(id, bearer, some(cell === 'none' || method === 'HEAD' ? 2 : 99, cell), role)
          const keyed = await fresh()
          await check(keyed.id, keyed.client, some(2, isKeyless ? 403 : cell), `${role}'s key`)
        }

        const needed = isKeyless ? undefined : getScope(collection, verb === 'restores' ? 'update' : verb)
        const fitting = needed === undefined ? [] : [needed, getIncludingScope(needed) ?? []].flat()
        for (const scope of fitting) {
          const { id, client } = await (isGone ? person('admin', [scope]) : withScopes([scope]))
          await check(id, client, some(2, cells?.admin ?? 'none'), `a key with ${scope}`)
        }
        const others = await withScopes(scopes.filter((scope) => !fitting.includes(scope)))
        await check(others.id, others.client, some(2, 403), 'a key with all other scopes')
        const nothing = await withScopes(['nothing'])
        await check(nothing.id, nothing.client, some(99, 403), 'a key with no scope')
        const open = verb === 'list' || verb === 'read' ? cells?.anonymous : undefined
        for (const [caller, { id, by }] of refused) {
          const expected = Object.entries(some(99, (caller === 'anonymous' && open) || 401))
          const statuses = expected.map(([name, status]) => [name, status === 403 ? 401 : status] as const)
          const count = caller === 'anonymous' ? 99 : 1
          await check(id, by, Object.fromEntries(statuses.slice(-count)), caller)
        }
      }
    })
  }
}

/** Returns callers without an account, and with a deleted one. */
async function createRefusedCallers({ person, database, anybody }: TestApp) {
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
