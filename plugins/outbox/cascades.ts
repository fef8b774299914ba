/** Deletes the rows that PostgreSQL would delete with a row before it, so that each has an event. */
import { getTableName } from 'drizzle-orm'
import { getTableConfig } from 'drizzle-orm/pg-core'
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import type { ResourceTable } from '../collection/resource-table.ts'
import { apiError } from '../errors/index.ts'
import { type ChangeContext, changeRows, type Recorder, type Recorders } from './recorder.ts'

/** Rows that one statement deletes, and their bytes. A row that cannot be compressed takes 8 ms for 100 kB. */
const MAX_PART_ROWS = 1_000
const MAX_PART_BYTES = 8 * 1024 * 1024
/** Rows that one request deletes, and their bytes: what takes up to 5 s. */
const MAX_ROWS = 100_000
const MAX_BYTES = 64 * 1024 * 1024

/** The deletion of the dependent rows of one table. `$1` is the id of the row that they depend on. */
interface Cascade {
  table: ResourceTable
  resourceType: string
  /** Locks the rows first, so that no new row can refer to them. Only for rows that others depend on. */
  lock?: string
  /** Locks the rows and returns their ids, in parts. */
  selectParts: string
  /** Deletes the rows whose ids are in `$1`. */
  text: string
}

/** Returns the columns of a table that refer to the id of another table with `on delete cascade`. */
function listCascadingColumns(table: ResourceTable, to: ResourceTable): string[] {
  return getTableConfig(table).foreignKeys.flatMap((key) => {
    const { columns, foreignTable } = key.reference()
    const [column] = columns
    return key.onDelete === 'cascade' && foreignTable === to && column ? [column.name] : []
  })
}

function buildRemoval({ table, tableName, resourceType, columns }: Recorder, condition: string): Cascade {
  // As they are stored, compressed: PostgreSQL knows them without reading the values.
  const bytes = [...columns].map((column) => `coalesce(pg_column_size("${column}"), 0)`).join(' + ')
  return {
    table,
    resourceType,
    selectParts: `select array_agg(id)::text as ids, count(*) as count, sum(bytes)::bigint as bytes from (
        select id, bytes, row_number() over by_id - 1 as rows_before, sum(bytes) over by_id - bytes as bytes_before
        from (select id, ${bytes} as bytes from "${tableName}" where ${condition} order by id for update) as sized
        window by_id as (order by id)
      ) as numbered group by rows_before / ${MAX_PART_ROWS}, bytes_before / ${MAX_PART_BYTES}`,
    text: `delete from "${tableName}" where id = any($1::uuid[])`,
  }
}

function listDependent(
  recorders: Recorders,
  table: ResourceTable,
  ids: string,
  path: readonly ResourceTable[],
): Cascade[] {
  return [...recorders.values()].flatMap((recorder): Cascade[] => {
    const { table: dependent, tableName } = recorder
    // Rows that refer to rows of their own table are deleted by PostgreSQL alone.
    if (path.includes(dependent)) return []
    return listCascadingColumns(dependent, table).flatMap((column) => {
      const condition = `"${column}" ${ids}`
      const selectIds = `in (select id from "${tableName}" where ${condition})`
      const [first, ...others] = listDependent(recorders, dependent, selectIds, [...path, dependent])
      const removal = buildRemoval(recorder, condition)
      if (!first) return [removal]
      const lock = `select 1 from "${tableName}" where ${condition} order by id for update`
      return [{ ...first, lock }, ...others, removal]
    })
  })
}

/** Returns the deletions that have to precede that of a row of the table, in their order. */
export const listCascades = (recorders: Recorders, table: ResourceTable): Cascade[] =>
  recorders.has(getTableName(table)) ? listDependent(recorders, table, '= $1', [table]) : []

/**
 * Deletes the rows that depend on a row, in parts, of which none reaches the time limit of statements.
 * @throws ApiError 409 if they are too many for one request
 */
export async function removeDependent(
  connection: Connection,
  context: ChangeContext,
  cascades: readonly Cascade[],
  id: string,
): Promise<void> {
  let [rows, bytes] = [0, 0]
  for (const { table, resourceType, lock, selectParts, text } of cascades) {
    if (lock !== undefined) await connection.run(lock, [id])
    const parts = await queryRows<{ ids: string; count: number; bytes: number }>(connection, selectParts, [
      id,
    ])
    for (const part of parts) {
      rows += part.count
      bytes += part.bytes
    }
    if (rows > MAX_ROWS || bytes > MAX_BYTES) {
      throw apiError('RESOURCE_CONFLICT', {
        message: `More ${resourceType} depend on it than one request can delete; delete some of them first`,
      })
    }
    for (const { ids } of parts)
      await changeRows(connection, context, table, 'deleted', { text, params: [ids] })
  }
}
