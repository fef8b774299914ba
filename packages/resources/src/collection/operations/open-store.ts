/** The store of an action: rows of its own resource, and of others by their tables, in the transaction of the request. */
import { type Connection, newId } from '@resource-api/database'
import { isTransaction } from '@resource-api/database/internal'
import { type RowId, readId } from '@resource-api/database/key'
import { invalidBody } from '@resource-api/http'
import { type Actor, compileValue, type Fields, rewriteError } from '@resource-api/http/internal'
import { type TObject, Type } from '@sinclair/typebox'
import { getTableName } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { FastifyRequest } from 'fastify'
import { type ChangeOrigin, getOrigin } from '../../outbox/origin.ts'
import { requestsDryRun } from '../dry-run.ts'
import { listCommonFields } from '../fields.ts'
import { createDefaults } from '../request/body.ts'
import { toBodySchema } from '../request/body-schema.ts'
import { createNotFound } from '../request/resource-address.ts'
import type { Lock, Resource } from '../resource.ts'
import { getTimestamps, toTimestamp } from '../response/response-builder.ts'
import { getInitialValues } from '../sql/row-content.ts'
import { createPickChanged } from '../sql/same-values.ts'
import type { CommitHook, OtherStore, Row, Store } from '../store.ts'
import { createEnqueue } from '../work.ts'
import { checkImmutable, checkTransitions } from './compute-change.ts'
import { chooseLock, limitLocks, lockRow } from './row-locks.ts'
import { getRunCreations } from './run-creations.ts'

/** The request in whose transaction a store writes. */
interface Writer {
  request: Pick<FastifyRequest, 'id' | 'ip' | 'mayChangeCredentials' | 'query' | 'routeOptions' | 'server'>
  connection: Connection
  actor: Actor
  origin: ChangeOrigin
}

/** The mails of a dry run: the worker does not look for them. */
const noMail = { async enqueue() {} }

/** A timestamp as a row has it. */
const STORED_TIMESTAMP = /^\d{4}-\d\d-\d\d /

/**
 * Creates a function that validates the fields that an action gives a row. Beyond those of a body, it may set read-only
 * fields, which are validated by the read schema, and columns that the API does not show, which are not validated.
 */
function createFieldReader(resource: Resource, mode: 'create' | 'update') {
  const { check, columns, schemas, table } = resource
  const common = listCommonFields(table)
  const input = mode === 'create' ? schemas.create : schemas.change
  const readOnly = Object.keys(schemas.read.properties).filter(
    (name) => name in columns && !common.includes(name),
  )
  const schema: TObject = Type.Object({
    ...Type.Partial(Type.Pick(schemas.read, readOnly)).properties,
    ...(mode === 'create' ? input : Type.Partial(input)).properties,
  })
  const timestamps = getTimestamps(schema)
  const validate = compileValue(toBodySchema(schema, mode))
  const fillDefaults = createDefaults(mode === 'create' ? input : Type.Object({}))

  return (given: Readonly<Fields>): Fields => {
    const shown: Fields = {}
    const hidden: Fields = {}
    for (const [name, field] of Object.entries(given)) {
      if (field === undefined) continue
      const isShown = !(name in columns) || name in schemas.read.properties
      const isStored = typeof field === 'string' && timestamps.has(name) && STORED_TIMESTAMP.test(field)
      if (isShown) shown[name] = isStored ? toTimestamp(field) : field
      else hidden[name] = field
    }
    const { value, violations } = validate(shown)
    // A body is an object, and so is its normalized form.
    const fields = value as Fields
    const all = [...violations, ...(check?.(fields, mode) ?? [])]
    if (all.length > 0) throw invalidBody(all)
    return { ...fillDefaults(fields), ...hidden }
  }
}

interface Readers {
  create: ReturnType<typeof createFieldReader>
  update: ReturnType<typeof createFieldReader>
  pickChanged: ReturnType<typeof createPickChanged>
}

/** Of the resources that actions write: a schema is compiled at its first use, since few resources are. */
const readers = new WeakMap<Resource, Readers>()

function getReaders(resource: Resource): Readers {
  const known = readers.get(resource)
  if (known) return known
  const made = {
    create: createFieldReader(resource, 'create'),
    update: createFieldReader(resource, 'update'),
    pickChanged: createPickChanged(resource.columns),
  }
  readers.set(resource, made)
  return made
}

const LOCKS = { reference: 'key share', change: 'no key update', removal: 'update' } as const

function createOtherStore(resource: Resource, writer: Writer): OtherStore<Row> {
  const { code, immutable = [], name, stores } = resource
  const { connection } = writer
  // The action decides, not the rules for the caller.
  const actor: Actor = { ...writer.actor, role: 'admin' }
  const store = toStore(resource, { ...writer, actor })

  const find = (id: RowId, mode: Lock) => {
    if (mode !== 'key share') limitLocks(connection, name)
    return lockRow(resource, connection, { id, mode, rule: true }, actor)
  }

  const lock = async (id: RowId, mode: Lock): Promise<Row> => {
    const row = await find(id, mode)
    if (!row) throw createNotFound(resource, id)
    return row
  }

  /** Names the resource in the violations of an error. */
  const naming = <T>(work: Promise<T>): Promise<T> =>
    work.catch((error) => {
      throw rewriteError(error, ({ violations }) => ({
        violations: violations.map((each) => ({ ...each, field: `${name}.${each.field}` })),
      }))
    })

  const create = async (given: Fields): Promise<Row> => {
    if (code.create?.prepare)
      throw new Error(`Rows of ${name} need work before a transaction: only requests create them`)
    const fields = getReaders(resource).create({ ...resource.defaults?.(actor), ...given })
    await stores.lockTable(connection)
    const run = getRunCreations(code.create)
    const { drawId, rowParts, table } = resource
    const made = rowParts.key.madeBy === 'server' ? newId() : run && (await drawId?.(connection))
    const values: Partial<Row> = { ...fields, ...getInitialValues(table) }
    if (made !== undefined) values.id = made
    const id = made ?? readId(rowParts.key, values)
    const [row] = run ? await run([{ store, id, body: values, actor }]) : await store.insertAll([values])
    if (!row) throw new Error(`The creation in ${name} returned no row`)
    return row
  }

  const change = async (id: RowId, given: Fields): Promise<Row> => {
    const current = await lock(id, chooseLock(resource, Object.keys(given)))
    const { pickChanged, update } = getReaders(resource)
    const values = pickChanged(current, update(given))
    const changed = new Set(Object.keys(values))
    const next: Row = { ...current, ...values }
    checkImmutable(immutable, changed)
    const { guard, run } = code.update ?? code.replace ?? {}
    await guard?.({ current, next, changed, actor, connection })
    checkTransitions(resource, current, next)
    if (run) return run({ store, current, next, changed, actor })
    const [row = current] = await stores.changeRows(connection, store.origin, [{ current, values }])
    return row
  }

  const remove = async (id: RowId): Promise<void> => {
    const current = await lock(id, 'update')
    return code.remove?.run ? code.remove.run({ store, current, actor }) : store.remove(current)
  }

  return {
    find: (id, use = 'change') => find(id, LOCKS[use]),
    create: (fields) => naming(create(fields)),
    change: (id, fields) => naming(change(id, fields)),
    remove: (id) => naming(remove(id)),
  }
}

/** Returns the function of a store that returns those of other resources. */
export function createStoreFinder(
  resources: ReadonlyMap<PgTable, Resource>,
  writer: Writer,
): Store<Row>['of'] {
  return (table) => {
    const resource = resources.get(table)
    if (!resource) throw new Error(`No resource is stored in the table ${getTableName(table)}`)
    if (resource.isCredential) writer.request.mayChangeCredentials = true
    // The rows of the resource are those of this table.
    return createOtherStore(resource, writer) as OtherStore<never>
  }
}

const toStore = (resource: Resource, writer: Writer): Store<Row> => {
  const { connection } = writer
  const store: Store<Row> = Object.assign(resource.stores.store(connection, writer.origin), {
    of: createStoreFinder(resource.resources, writer),
    // Undefined in a dry run too if no mails are sent, as code depends on it.
    mail:
      writer.request.server.mail && (requestsDryRun(writer.request) ? noMail : writer.request.server.mail),
    enqueue: createEnqueue(writer.request.server.work, writer.connection),
    isDryRun: requestsDryRun(writer.request),
    ip: writer.request.ip,
    beforeCommit<V>(hook: CommitHook<V>, update: (former: V | undefined) => V) {
      if (!isTransaction(connection)) throw new Error('A hook before the commit needs a transaction')
      const name = getTableName(hook.table)
      connection.beforeCommit(hook, { name, run: (value: V) => hook.run(store, value) }, update)
    },
  })
  return store
}

/** Opens the store of a resource for the action of a request. */
export const openStore = (
  resource: Resource,
  connection: Connection,
  actor: Actor,
  request: Writer['request'],
): Store<Row> => toStore(resource, { request, connection, actor, origin: getOrigin(actor, request.id) })
