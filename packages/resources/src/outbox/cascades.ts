/** Deletes the rows that PostgreSQL would delete with a row before it, so that each has an event. */
import { apiError } from '@resource-api/api/errors'
import { prepare } from '@resource-api/database'
import type { PreparedStatement } from '@resource-api/database/client'
import {
  getRowParts,
  getTableKey,
  hasAnyId,
  hasId,
  type Key,
  orderByKey,
  type RowId,
} from '@resource-api/database/key'
import { eq, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { getTableConfig, type PgColumn } from 'drizzle-orm/pg-core'
import type { ResourceTable } from '../definition/resource-table.ts'
import { type ChangeContext, prepareChange, type Recorder, type Recorders } from './recorder.ts'

/** Rows that one statement deletes, and their bytes. A row that cannot be compressed takes 8 ms for 100 kB. */
const MAX_PART_ROWS = 1_000
const MAX_PART_BYTES = 8 * 1024 * 1024
/** Rows that one request deletes, and their bytes: what takes up to 5 s. */
const MAX_ROWS = 100_000
const MAX_BYTES = 64 * 1024 * 1024

/** Rows that one statement deletes. `ids` is the text of an array, or the JSON of a key of several columns. */
type Part = { ids: string; count: number; bytes: number }

/** The deletion of the dependent rows of one table. The placeholder `id` is that of the row that they depend on. */
interface Cascade {
  resourceType: string
  /** Locks the rows first, so that no new row can refer to them. Only for rows that others depend on. */
  lock?: PreparedStatement<unknown>
  /** Locks the rows and returns their ids, in parts. */
  selectParts: PreparedStatement<Part[]>
  /** Deletes the rows whose ids are `ids`. */
  removePart: ReturnType<typeof prepareChange>
}

type ForeignKey = ReturnType<ReturnType<typeof getTableConfig>['foreignKeys'][number]['reference']>

/** The references of each table with `on delete cascade`. Read for each pair of 100 tables, they take 1.7 s of the start. */
const knownReferences = new WeakMap<ResourceTable, ForeignKey[]>()

function readReferences(table: ResourceTable) {
  const read = getTableConfig(table).foreignKeys.flatMap((key) =>
    key.onDelete === 'cascade' ? [key.reference()] : [],
  )
  knownReferences.set(table, read)
  return read
}

/** Returns the references of a table to another one with `on delete cascade`. */
const listCascading = (table: ResourceTable, to: ResourceTable): ForeignKey[] =>
  (knownReferences.get(table) ?? readReferences(table)).filter(({ foreignTable }) => foreignTable === to)

const toList = (columns: readonly PgColumn[]): SQL => {
  const [first, another] = columns
  return first && !another ? sql`${first}` : sql`(${sql.join([...columns], sql`, `)})`
}

/** Returns the condition that a reference is to rows of its table. */
const refersTo = ({ columns, foreignColumns, foreignTable }: ForeignKey, condition: SQL): SQL =>
  sql`${toList(columns)} in (select ${sql.join([...foreignColumns], sql`, `)} from ${foreignTable} where ${condition})`

/** Returns the condition that a reference is to the row with an id. */
function refersToId(reference: ForeignKey, key: Key, id: Placeholder): SQL {
  const [column, another] = reference.columns
  const [foreign] = reference.foreignColumns
  const isToId = !another && !key.split && foreign === key.parts[0].column
  return column && isToId ? eq(column, id) : refersTo(reference, hasId(key, id))
}

/** Returns what PostgreSQL writes as the list of ids of `hasAnyId`, and an id in it. */
function toIdList({ parts, split }: Key): { id: SQL; list: SQL } {
  const [{ column }] = parts
  if (!split) return { id: sql`${column}`, list: sql`array_agg(id)` }
  const values = parts.map((part) => sql`${part.column}::text`)
  return { id: sql`jsonb_build_array(${sql.join(values, sql`, `)})`, list: sql`jsonb_agg(id)` }
}

function buildRemoval({ table, resourceType, columns: shown }: Recorder, condition: SQL): Cascade {
  // As they are stored, compressed: PostgreSQL knows them without reading the values.
  const bytes = sql.join(
    Object.values(shown).map((column) => sql`coalesce(pg_column_size(${column}), 0)`),
    sql` + `,
  )
  const { key } = getRowParts(table)
  const { id, list } = toIdList(key)
  const selectParts = prepare((db) =>
    db.execute<Part>(sql`select ${list}::text as ids, count(*) as count, sum(bytes)::bigint as bytes from (
        select id, bytes, row_number() over (order by id) - 1 as rows_before,
          sum(bytes) over (order by id) - bytes as bytes_before
        from (
          select ${id} as id, ${bytes} as bytes from ${table} where ${condition} order by ${sql.join(orderByKey(key), sql`, `)} for update
        ) as sized
      ) as numbered group by rows_before / ${sql.raw(String(MAX_PART_ROWS))}, bytes_before / ${sql.raw(String(MAX_PART_BYTES))}`),
  )
  const removePart = prepareChange(table, 'deleted', (db) =>
    db.delete(table).where(hasAnyId(key, sql.placeholder('ids'))),
  )
  return { resourceType, selectParts, removePart }
}

/** @param isDependent returns the condition that a reference is to a row that is deleted */
function listDependent(
  recorders: Recorders,
  table: ResourceTable,
  isDependent: (reference: ForeignKey) => SQL,
  path: readonly ResourceTable[],
): Cascade[] {
  return [...recorders.values()].flatMap((recorder): Cascade[] => {
    const { table: dependent } = recorder
    // Rows that refer to rows of their own table are deleted by PostgreSQL alone.
    if (path.includes(dependent)) return []
    return listCascading(dependent, table).flatMap((reference) => {
      const condition = isDependent(reference)
      const isTheirs = (other: ForeignKey) => refersTo(other, condition)
      const [first, ...others] = listDependent(recorders, dependent, isTheirs, [...path, dependent])
      const removal = buildRemoval(recorder, condition)
      if (!first) return [removal]
      const { key } = getRowParts(dependent)
      const [{ column: firstColumn }] = key.parts
      const lock = prepare((db) =>
        db
          .select({ [firstColumn.name]: firstColumn })
          .from(dependent)
          .where(condition)
          .orderBy(...orderByKey(key))
          .for('update'),
      )
      return [{ ...first, lock }, ...others, removal]
    })
  })
}

/** Returns the deletions that have to precede that of a row of the table, in their order. */
export const listCascades = (recorders: Recorders, table: ResourceTable): Cascade[] =>
  recorders.has(getTableKey(table))
    ? listDependent(
        recorders,
        table,
        (reference) => refersToId(reference, getRowParts(table).key, sql.placeholder('id')),
        [table],
      )
    : []

/**
 * Deletes the rows that depend on a row, in parts, of which none reaches the time limit of statements.
 * @param id as `hasId` compares it
 * @throws ApiError 409 if they are too many for one request
 */
export async function removeDependent(
  context: ChangeContext,
  cascades: readonly Cascade[],
  id: RowId | readonly string[],
): Promise<void> {
  let [rows, bytes] = [0, 0]
  for (const { resourceType, lock, selectParts, removePart } of cascades) {
    await lock?.(context.connection, { id })
    const parts = await selectParts(context.connection, { id })
    rows += parts.reduce((sum, part) => sum + part.count, 0)
    bytes += parts.reduce((sum, part) => sum + part.bytes, 0)
    if (rows > MAX_ROWS || bytes > MAX_BYTES) {
      throw apiError('RESOURCE_CONFLICT', {
        message: `More ${resourceType} depend on it than one request can delete; delete some of them first`,
      })
    }
    for (const { ids } of parts) await removePart(context, { ids })
  }
}
