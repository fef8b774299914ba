/** Inserts many rows with one statement: sends them as one JSON text, which PostgreSQL converts to the column types. */
import { getTableColumns, getTableName } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Connection } from '../../../drizzle/client/index.ts'

/** @param rows with a value for every column; defaults are not applied */
export async function insertRows<T extends PgTable>(
  connection: Connection,
  table: T,
  rows: readonly T['$inferSelect'][],
): Promise<void> {
  if (rows.length === 0) return
  const name = getTableName(table)
  const columns = Object.values(getTableColumns(table))
    .map((column) => `"${column.name}"`)
    .join(', ')
  await connection.run(
    `insert into "${name}" (${columns}) select ${columns} from json_populate_recordset(null::"${name}", $1::json)`,
    [JSON.stringify(rows)],
  )
}
