/** Deletes the rows that PostgreSQL would delete with a row before it, so that each has an event. */
import { apiError } from '@resource-api/api/errors'
import { isAnyOf, prepare } from '@resource-api/database'
import type { PreparedStatement } from '@resource-api/database/client'
import { eq, getTableName, type SQL, sql } from 'drizzle-orm'
import { getTableConfig, type PgColumn, type PgTable } from 'drizzle-orm/pg-core'
import type { ResourceTable } from '../definition/resource-table.ts'
import { type ChangeContext, prepareChange, type Recorder, type Recorders } from './recorder.ts'

/** Rows that one statement deletes, and their bytes. A row that cannot be compressed takes 8 ms for 100 kB. */
const MAX_PART_ROWS = 1_000
const MAX_PART_BYTES = 8 * 1024 * 1024
/** Rows that one request deletes, and their bytes: what takes up to 5 s. */
const MAX_ROWS = 100_000
const MAX_BYTES = 64 * 1024 * 1024

/** Rows that one statement deletes. `ids` is the text of an array. */
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

/** The references of each table with `on delete cascade`. Read for each pair of 100 tables, they take 1.7 s of the start. */
const knownReferences = new WeakMap<ResourceTable, { column: PgColumn | undefined; to: PgTable }[]>()

function readReferences(table: ResourceTable) {
  const read = getTableConfig(table).foreignKeys.flatMap((key) => {
    const { columns, foreignTable } = key.reference()
    return key.onDelete === 'cascade' ? [{ column: columns[0], to: foreignTable }] : []
  })
  knownReferences.set(table, read)
  return read
}

/** Returns the columns of a table that refer to the id of another table with `on delete cascade`. */
const listCascadingColumns = (table: ResourceTable, to: ResourceTable): PgColumn[] =>
  (knownReferences.get(table) ?? readReferences(table)).flatMap(({ column, to: referenced }) =>
    column && referenced === to ? [column] : [],
  )

function buildRemoval({ table, resourceType, columns }: Recorder, condition: SQL): Cascade {
  // As they are stored, compressed: PostgreSQL knows them without reading the values.
  const bytes = sql.join(
    Object.values(columns).map((column) => sql`coalesce(pg_column_size(${column}), 0)`),
    sql` + `,
  )
  const selectParts = prepare((db) =>
    db.execute<Part>(sql`select array_agg(id)::text as ids, count(*) as count, sum(bytes)::bigint as bytes from (
        select id, bytes, row_number() over (order by id) - 1 as rows_before,
          sum(bytes) over (order by id) - bytes as bytes_before
        from (
          select ${table.id} as id, ${bytes} as bytes from ${table} where ${condition} order by ${table.id} for update
        ) as sized
      ) as numbered group by rows_before / ${sql.raw(String(MAX_PART_ROWS))}, bytes_before / ${sql.raw(String(MAX_PART_BYTES))}`),
  )
  const removePart = prepareChange(table, 'deleted', (db) =>
    db.delete(table).where(isAnyOf(table.id, sql.placeholder('ids'))),
  )
  return { resourceType, selectParts, removePart }
}

/** @param isDependent returns the condition that a column refers to a row that is deleted */
function listDependent(
  recorders: Recorders,
  table: ResourceTable,
  isDependent: (column: PgColumn) => SQL,
  path: readonly ResourceTable[],
): Cascade[] {
  return [...recorders.values()].flatMap((recorder): Cascade[] => {
    const { table: dependent } = recorder
    // Rows that refer to rows of their own table are deleted by PostgreSQL alone.
    if (path.includes(dependent)) return []
    return listCascadingColumns(dependent, table).flatMap((column) => {
      const condition = isDependent(column)
      const ids = sql`(select ${dependent.id} from ${dependent} where ${condition})`
      const [first, ...others] = listDependent(recorders, dependent, (other) => sql`${other} in ${ids}`, [
        ...path,
        dependent,
      ])
      const removal = buildRemoval(recorder, condition)
      if (!first) return [removal]
      const lock = prepare((db) =>
        db.select({ id: dependent.id }).from(dependent).where(condition).orderBy(dependent.id).for('update'),
      )
      return [{ ...first, lock }, ...others, removal]
    })
  })
}

/** Returns the deletions that have to precede that of a row of the table, in their order. */
export const listCascades = (recorders: Recorders, table: ResourceTable): Cascade[] =>
  recorders.has(getTableName(table))
    ? listDependent(recorders, table, (column) => eq(column, sql.placeholder('id')), [table])
    : []

/**
 * Deletes the rows that depend on a row, in parts, of which none reaches the time limit of statements.
 * @throws ApiError 409 if they are too many for one request
 */
export async function removeDependent(
  context: ChangeContext,
  cascades: readonly Cascade[],
  id: string,
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
