/**
 * The outbox: statements that change rows, extended so that they insert an event for each row too. Change and event are
 * one statement, so that they are committed together, in one round trip.
 */
import type { TObject } from '@sinclair/typebox'
import { getTableColumns, getTableName } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { Connection, Param, Row } from '../../drizzle/client/types.ts'
import { type Access, CALLER } from '../access/index.ts'
import type { ResourceTable } from '../collection/resource-table.ts'
import type { ChangeOrigin } from './origin.ts'

export type ChangeKind = 'created' | 'updated' | 'deleted'

/** The parts of a resource's definition that its events depend on. */
interface RecordedResource {
  name: string
  table: ResourceTable
  schemas: { read: TObject }
  access: Access
}

/** How the rows of a table are recorded. */
export interface Recorder {
  /** The name of the resource. */
  resourceType: string
  table: ResourceTable
  tableName: string
  /** The columns that events have: those that the API shows. */
  columns: ReadonlySet<string>
  /** The column with the id of the user whose resource it is; undefined for resources without an owner. */
  ownerColumn: string | undefined
}

/** The recorders of all resources, by the name of their table. */
export type Recorders = ReadonlyMap<string, Recorder>

/** A statement that changes rows of one table, without RETURNING. */
export interface RowsChange {
  text: string
  params: readonly Param[]
  /** What the statement returns: expressions over the columns of the table. Default: nothing. */
  returning?: string
  /** For an update: the former values of the columns that changed, as JSON over the row `changed`. */
  previous?: string
  /** Further columns of `changed`, for `previous`: expressions with names over the tables of the statement. */
  former?: string
}

/**
 * Returns the column whose value events have in `owner_id`, so that an index finds those of a caller: the first one that a
 * rule compares with the caller, rules for reads before others. It decides nothing.
 */
export function findOwnerColumn({
  access,
  table,
}: Pick<RecordedResource, 'access' | 'table'>): string | undefined {
  const columns: Readonly<Record<string, PgColumn>> = getTableColumns(table)
  const rules = [access.read ?? {}, ...Object.values(access)].flatMap((roles) => Object.values(roles))
  const conditions = rules.flatMap((rule) => (typeof rule === 'object' ? rule : []))
  return conditions
    .flatMap((condition) => Object.keys(condition).filter((column) => condition[column] === CALLER))
    .find((column) => columns[column]?.getSQLType() === 'uuid')
}

function createRecorder({ name, table, schemas, access }: RecordedResource): Recorder {
  const readable = Object.keys(schemas.read.properties)
  return {
    resourceType: name,
    table,
    tableName: getTableName(table),
    columns: new Set(Object.keys(getTableColumns(table)).filter((column) => readable.includes(column))),
    ownerColumn: findOwnerColumn({ access, table }),
  }
}

export const createRecorders = (resources: readonly RecordedResource[]): Recorders =>
  new Map(resources.map((resource) => [getTableName(resource.table), createRecorder(resource)]))

const quote = (name: string) => `"${name}"`

/** The parameters of an event that each statement has in addition to its own, in this order. */
const ORIGIN_PARAM_COUNT = 4

const getOriginParams = ({ actorId, credential, credentialId, requestId }: ChangeOrigin): Param[] => [
  actorId,
  credential,
  credentialId,
  requestId,
]

interface RecordedStatement {
  /** The change, which returns all columns of its rows, and those that `previous` has in addition. */
  text: string
  /** For an update: the former values, as JSON over the row `changed`. */
  previous: string | undefined
  /** The number of its parameters. Those of `getOriginParams` follow. */
  paramCount: number
  /** What the whole statement returns: expressions over the columns of the changed rows. */
  select: string
}

/**
 * Returns the text of a statement that makes a change and inserts an event for each changed row. The sequence value of an
 * event is drawn after its row was changed, so while it is locked.
 */
export function buildRecordedStatement(
  { resourceType, columns, ownerColumn }: Recorder,
  kind: ChangeKind,
  { text, previous = 'null', paramCount, select }: RecordedStatement,
): string {
  const [actor, credential, credentialId, requestId] = Array.from(
    { length: ORIGIN_PARAM_COUNT },
    (_, i) => `$${paramCount + 1 + i}`,
  )
  const shown = [...columns].map((column) => `changed.${quote(column)}`).join(', ')
  return `with changed as (${text}), recorded as (
    insert into outbox (type, resource_id, revision, columns, previous, owner_id, actor_id, credential, credential_id, request_id)
    select '${resourceType}.${kind}', changed.id, changed.revision${kind === 'deleted' ? ' + 1' : ''},
      (select row_to_json(shown) from (select ${shown}) as shown), ${previous},
      ${ownerColumn === undefined ? 'null' : `changed.${quote(ownerColumn)}`},
      ${actor}::uuid, ${credential}, ${credentialId}::uuid, ${requestId}
    from changed
  ) select ${select} from changed`
}

/** Makes the changes of one origin to rows of any table. Without recorders, no events are written. */
export interface ChangeContext {
  recorders: Recorders
  origin: ChangeOrigin
}

/**
 * Changes rows, with an event for each if the table is that of a resource.
 * @typeParam R the columns of `returning`
 * @returns the rows of `returning`
 */
export async function changeRows<R extends object = Row>(
  connection: Connection,
  { recorders, origin }: ChangeContext,
  table: ResourceTable,
  kind: ChangeKind,
  { text, params, returning, previous, former }: RowsChange,
): Promise<R[]> {
  const recorder = recorders.get(getTableName(table))
  if (!recorder) {
    return queryRows<R>(connection, returning === undefined ? text : `${text} returning ${returning}`, params)
  }
  const all = `${quote(recorder.tableName)}.*`
  const recorded = buildRecordedStatement(recorder, kind, {
    text: `${text} returning ${former === undefined ? all : `${all}, ${former}`}`,
    previous,
    paramCount: params.length,
    select: returning ?? 'count(*)',
  })
  const rows = await queryRows<R>(connection, recorded, [...params, ...getOriginParams(origin)])
  return returning === undefined ? [] : rows
}
