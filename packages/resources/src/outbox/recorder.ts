/**
 * The outbox: statements that change rows, extended so that they insert an event for each row too. Change and event are
 * one statement, so that they are committed together, in one round trip.
 */
import { type Access, CALLER, isPath, type RoleRules } from '@resource-api/api/rules'
import { type Connection, prepare } from '@resource-api/database'
import type { PreparedStatement, Values } from '@resource-api/database/client'
import { getRowParts, getTableKey, isExisting, showColumn, toEventId, toId } from '@resource-api/database/key'
import { eventSequence, outbox, toNames } from '@resource-api/database/tables'
import type { TObject } from '@sinclair/typebox'
import {
  getTableColumns,
  getTableName,
  is,
  mapColumnsInSQLToAlias,
  SQL,
  type SQLWrapper,
  sql,
} from 'drizzle-orm'
import { PgColumn } from 'drizzle-orm/pg-core'
import type { SelectResultFields } from 'drizzle-orm/query-builders/select.types'
import type { ResourceTable } from '../definition/resource-table.ts'
import type { ChangeOrigin } from './origin.ts'

export type ChangeKind = 'created' | 'updated' | 'deleted'

/** The parts of a resource's definition that its events depend on. */
interface RecordedResource {
  name: string
  isRecorded?: boolean
  table: ResourceTable
  schemas: { read: TObject }
  access: Access
  operations?: Readonly<Record<string, { access: RoleRules }>>
  relations: Readonly<Record<string, { local: string }>>
}

/** How the rows of a table are recorded. */
export interface Recorder {
  /** The name of the resource. */
  resourceType: string
  table: ResourceTable
  /** The columns that events have: those that the API shows, and the id. */
  columns: Returning
  /** The column by which events of a caller are found: see `findOwnerColumn`. */
  ownerColumn: PgColumn | undefined
}

/** The recorders of all resources, by `getTableKey` of their table. */
export type Recorders = ReadonlyMap<string, Recorder>

/** An INSERT, UPDATE or DELETE of Drizzle, without RETURNING. */
export interface RowsChange {
  returning(fields: Readonly<Record<string, PgColumn | SQL.Aliased>>): SQLWrapper
}

export type Returning = Readonly<Record<string, PgColumn | SQL>>

interface ChangeOptions<R extends Returning> {
  /** What the statement returns: columns of the table, and expressions over them. */
  returning?: R
  /** For an update: the former values of the columns that changed, as JSON over the columns of the table and `former`. */
  previous?: SQL
  /** Further columns of the changed rows, for `previous` and `order`: expressions over the tables of the statement. */
  former?: Record<string, SQL>
  /** The order of the events. Default: that in which the rows were changed. */
  order?: SQL
}

/** Returns the rules of all operations of a resource, its own ones included. Those for reads come first. */
export const listRules = ({
  access,
  operations = {},
}: Pick<RecordedResource, 'access' | 'operations'>): RoleRules[] => [
  access.read ?? {},
  ...Object.values(access),
  ...Object.values(operations).map((own) => own.access),
]

/**
 * Returns the column whose value events have in `owner_id`, so that an index finds those of a caller: the first one that a
 * rule compares with the caller, or the key of the first relation of a path to the caller, such as the id of the
 * organization. Rules for reads come before others. It decides nothing.
 */
export function findOwnerColumn(
  resource: Pick<RecordedResource, 'access' | 'operations' | 'relations' | 'table'>,
): string | undefined {
  const { relations, table } = resource
  const columns: Readonly<Record<string, PgColumn>> = getTableColumns(table)
  return listRules(resource)
    .flatMap((roles) => Object.values(roles))
    .flatMap((rule) => (typeof rule === 'object' ? rule : []))
    .flatMap((condition) => Object.keys(condition).filter((name) => condition[name] === CALLER))
    .map((name) => (isPath(name) ? relations[name.slice(0, name.indexOf('.'))]?.local : name) ?? '')
    .find((column) => columns[column]?.getSQLType() === 'uuid')
}

function createRecorder(resource: RecordedResource): Recorder {
  const { name, table, schemas } = resource
  const columns: Readonly<Record<string, PgColumn>> = getTableColumns(table)
  const shown = Object.entries(columns)
    .filter(([member]) => member in schemas.read.properties)
    .map(([member, column]) => [member, showColumn(column)] as const)
  const ownerColumn = columns[findOwnerColumn(resource) ?? '']
  const { key } = getRowParts(table)
  return {
    resourceType: name,
    table,
    columns: { ...Object.fromEntries(shown), ...(key.split && { id: toId(key) }) },
    ownerColumn,
  }
}

/** Returns whether changes of a resource are events. */
export const isRecorded = ({ isRecorded: hasEvents = true }: Pick<RecordedResource, 'isRecorded'>): boolean =>
  hasEvents

/** @param resources those that are not recorded are left out */
export const createRecorders = (resources: readonly RecordedResource[]): Recorders =>
  new Map(
    resources.filter(isRecorded).map((resource) => [getTableKey(resource.table), createRecorder(resource)]),
  )

/** What changes rows of any table. Without recorders, no events are written. */
export interface ChangeContext {
  connection: Connection
  recorders: Recorders
  origin: ChangeOrigin
}

/** The placeholders of an event in a prepared statement. */
const ORIGIN = {
  actorId: sql.placeholder('origin_actor'),
  credential: sql.placeholder('origin_credential'),
  credentialId: sql.placeholder('origin_credential_id'),
  requestId: sql.placeholder('origin_request'),
}

/** Returns the values of the placeholders of an event. */
export const getOriginValues = ({ actorId, credential, credentialId, requestId }: ChangeOrigin): Values => ({
  origin_actor: actorId,
  origin_credential: credential,
  origin_credential_id: credentialId,
  origin_request: requestId,
})

/** Returns fields with their names, those that are columns of these names as they are. */
export const nameExpressions = (fields: Returning) =>
  Object.fromEntries(
    Object.entries(fields).map(([name, field]) => [
      name,
      is(field, SQL) || field.name !== name ? sql`${field}`.as(name) : field,
    ]),
  )

const eventColumns = toNames(
  ...[outbox.type, outbox.resource_id, outbox.revision, outbox.columns, outbox.previous, outbox.bytes],
  ...[outbox.owner_id, outbox.actor_id, outbox.credential, outbox.credential_id, outbox.request_id],
)

/** A function of PostgreSQL has at most 100 arguments. */
const MAX_JSON_MEMBERS = 50

/** Returns the JSON of columns. `row_to_json` needs a subplan for their names, which costs 8 us of an update's 130. */
function buildJson(columns: Recorder['columns']): SQL {
  const entries = Object.entries(columns)
  // As a number of JSON, a decimal would lose digits.
  const toValue = (column: PgColumn | SQL) =>
    is(column, PgColumn) && column.columnType === 'PgNumeric' ? sql`${column}::text` : sql`${column}`
  if (entries.length > MAX_JSON_MEMBERS) {
    const shown = sql.join(
      entries.map(([name, column]) => sql`${toValue(column)} as ${sql.identifier(name)}`),
      sql`, `,
    )
    return sql`(select row_to_json(shown) from (select ${shown}) as shown)`
  }
  const members = entries.map(([name, column]) => sql`${sql.raw(`'${name}'`)}, ${toValue(column)}`)
  return sql`json_build_object(${sql.join(members, sql`, `)})`
}

/**
 * Returns a statement that makes a change and inserts an event for each changed row. The sequence value of an event is
 * drawn after its row was changed, so while it is locked. The changed rows have the name of the table, so that
 * expressions over its columns are the same in all parts of the statement. With `offset 0`, the JSON is made once.
 * @param origin values, or the placeholders of `getOriginValues`
 */
export function recordChange(
  { table, resourceType, columns, ownerColumn }: Recorder,
  kind: ChangeKind,
  change: RowsChange,
  {
    returning = { count: sql`count(*)` },
    previous = sql`null`,
    former = {},
    order,
  }: ChangeOptions<Returning>,
  origin: Record<keyof ChangeOrigin, unknown> = ORIGIN,
): SQL {
  const rows = sql`changed as ${sql.identifier(getTableName(table))}`
  const { key, revision, searched } = getRowParts(table)
  // No event shows the search text.
  const stored = Object.entries(getTableColumns(table)).filter(([name]) => name !== searched)
  const all = change.returning({ ...Object.fromEntries(stored), ...nameExpressions(former) })
  const selected = Object.entries(returning).map(([name, field]) => sql`${field} as ${sql.identifier(name)}`)
  // A row without a revision has that of its content, which does not rise: its event has its own place instead.
  const [place, draw, version] = revision
    ? [sql``, sql``, sql`${revision}${sql.raw(kind === 'deleted' ? ' + 1' : '')}`]
    : [sql`, sequence`, sql`, nextval(${sql.raw(`'${eventSequence.seqName}'`)}) as sequence`, sql`sequence`]
  const recorded = sql`select ${`${resourceType}.${kind}`}, ${toEventId(key)}, ${version},
      written.columns, written.previous,
      octet_length(written.columns::text) + coalesce(octet_length(written.previous::text), 0),
      ${ownerColumn ?? null}::uuid,
      ${origin.actorId}::uuid, ${origin.credential}, ${origin.credentialId}::uuid, ${origin.requestId}${place}
    from ${rows}, lateral (
      select ${buildJson(columns)} as columns, ${previous}::json as previous${draw} offset 0
    ) as written${order && sql` order by ${order}`}`
  const result = sql`select ${sql.join(selected, sql`, `)} from ${rows}`
  // The changed rows have the name of their table, and no schema.
  const ofRows = (part: SQL) => (isExisting(table) ? mapColumnsInSQLToAlias(part, getTableName(table)) : part)
  return sql`with changed as (${all.getSQL()}), recorded as (
    insert into ${outbox} (${eventColumns}${place})
    ${ofRows(recorded)}
  ) ${ofRows(result)}`
}

/** Returns the statement of a change, which records it if the table is that of a resource. */
function buildChange(
  recorders: Recorders,
  table: ResourceTable,
  kind: ChangeKind,
  change: RowsChange,
  options: ChangeOptions<Returning>,
  origin?: ChangeOrigin,
): SQLWrapper {
  const recorder = recorders.get(getTableKey(table))
  if (recorder) return recordChange(recorder, kind, change, options, origin)
  return change.returning(nameExpressions(options.returning ?? { id: toId(getRowParts(table).key) }))
}

/**
 * Changes rows, with an event for each if the table is that of a resource.
 * @returns the rows of `returning`
 */
export const changeRows = <R extends Returning>(
  { connection, recorders, origin }: ChangeContext,
  table: ResourceTable,
  kind: ChangeKind,
  change: RowsChange,
  options: ChangeOptions<R> = {},
) =>
  // The rows have the names of `returning`.
  connection.execute(buildChange(recorders, table, kind, change, options, origin)) as Promise<
    SelectResultFields<R>[]
  >

/**
 * Returns a function that changes rows as `changeRows` does, by a prepared statement.
 * @param build builds the change, with placeholders
 */
export function prepareChange<R extends Returning>(
  table: ResourceTable,
  kind: ChangeKind,
  build: (db: Connection) => RowsChange,
  options: ChangeOptions<R> = {},
) {
  // An app has one map of recorders.
  const statements = new WeakMap<Recorders, PreparedStatement<unknown>>()
  return ({ connection, recorders, origin }: ChangeContext, values: Values) => {
    const statement =
      statements.get(recorders) ??
      prepare((db) => db.execute(buildChange(recorders, table, kind, build(db), options)))
    statements.set(recorders, statement)
    // The rows have the names of `returning`.
    return statement(connection, { ...values, ...getOriginValues(origin) }) as Promise<
      SelectResultFields<R>[]
    >
  }
}
