/**
 * Reads and inserts the rows of a table as lines of text. A line is a JSON array with PostgreSQL's text of each value,
 * or null: exact for every type, and the same in PGlite and on a server.
 */
import { type SQLWrapper, sql } from 'drizzle-orm'
import type { Connection } from '../client/types.ts'
import type { Table } from './contents.ts'

/** Consecutive rows of one table. */
export interface Batch {
  /** The name of the table. */
  table: string
  lines: string[]
}

/** A row of a post can have a megabyte: this many of them fit into memory. */
export const MAX_BATCH_ROWS = 200
/** A batch ends with the row that exceeds this. */
export const MAX_BATCH_BYTES = 1 << 20

const joinSql = (chunks: SQLWrapper[]) => sql.join(chunks, sql`, `)

const CURSOR = sql.identifier('backup_rows')

/** Reads all rows of the tables, in order, within the transaction of `tx`. */
export async function* readRows(tx: Connection, tables: readonly Table[]): AsyncGenerator<Batch> {
  for (const table of tables) {
    const values = joinSql(table.columns.map(({ name }) => sql`${sql.identifier(name)}::text`))
    await tx.execute(
      sql`declare ${CURSOR} no scroll cursor for select array_to_json(array[${values}]::text[])::text as line
        from ${sql.identifier(table.name)} order by ${joinSql(table.order)}`,
    )
    for (let count = MAX_BATCH_ROWS; ; ) {
      const rows = await tx.execute<{ line: string }>(sql`fetch ${sql.raw(`${count}`)} from ${CURSOR}`)
      if (rows.length === 0) break
      const lines = rows.map(({ line }) => line)
      yield { table: table.name, lines }
      count = getBatchRows(lines)
    }
    await tx.execute(sql`close ${CURSOR}`)
  }
}

/** Returns how many rows of the mean size of these fit into a batch. A few different numbers: each is a statement. */
function getBatchRows(lines: readonly string[]): number {
  const mean = lines.reduce((sum, line) => sum + Buffer.byteLength(line), 0) / lines.length
  return [MAX_BATCH_ROWS, 50, 10].find((count) => count * mean <= MAX_BATCH_BYTES) ?? 2
}

/** Inserts rows, whose values have the order of `table.columns`. */
export async function insertRows(tx: Connection, table: Table, lines: readonly string[]): Promise<void> {
  const names = joinSql(table.columns.map(({ name }) => sql.identifier(name)))
  const values = sql.raw(table.columns.map(({ type }, index) => `(line ->> ${index})::${type}`).join())
  await tx.execute(
    sql`insert into ${sql.identifier(table.name)} (${names}) overriding system value
      select ${values} from jsonb_array_elements(${`[${lines.join(',')}]`}::jsonb) line`,
  )
}
