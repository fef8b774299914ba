/** Deletes old rows of a table in small batches. */
import { type Connection, prepare } from '@resource-api/database'
import { and, type SQL, sql } from 'drizzle-orm'
import { getTableConfig, type PgColumn, type PgTable } from 'drizzle-orm/pg-core'

interface OldRows {
  table: PgTable
  /** The column with the time of a row, or the id in the order of creation. Its index finds the oldest rows. */
  column: PgColumn
  /** The rows up to this value are old. */
  until: SQL
  /** Which rows of the table. Default: all. */
  where?: SQL
}

const BATCH_SIZE = 500

const listKeyColumns = (table: PgTable): PgColumn[] => {
  const { columns, primaryKeys } = getTableConfig(table)
  return primaryKeys[0]?.columns ?? columns.filter(({ primary }) => primary)
}

/** Skips rows that another process is deleting, or a request is replacing. */
const prepareDeletion = ({ table, column, until, where = sql`true` }: OldRows) => {
  const keys = listKeyColumns(table)
  const isOld = keys.map((key) => sql`${key} = old.${sql.identifier(key.name)}`)
  return prepare((db) =>
    db.execute<{ count: number }>(sql`with old as (
        select ${sql.join(keys, sql`, `)} from ${table} where ${column} <= ${until} and ${where}
        order by ${column} limit ${sql.raw(String(BATCH_SIZE))} for update skip locked
      ), removed as (
        delete from ${table} using old where ${and(...isOld)} returning 1
      ) select count(*) as count from removed`),
  )
}

/** Returns the least UUIDv7 of the time so many days ago. */
export const getUuidBefore = (days: number): SQL =>
  sql`(lpad(to_hex((extract(epoch from now() - ${sql.raw(`interval '${days} days'`)}) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid`

/**
 * Runs deletions until one deletes less than a batch or `isWanted` returns false.
 * @param deleteBatch returns the number of deleted rows
 * @param batchSize the number of rows after which another deletion follows
 * @returns the number of deleted rows
 */
export async function deleteInBatches(
  deleteBatch: () => Promise<number>,
  batchSize: number,
  isWanted: () => boolean,
): Promise<number> {
  let count = 0
  for (let last = batchSize; last >= batchSize && isWanted(); count += last) last = await deleteBatch()
  return count
}

/** Creates the function that deletes the old rows of a table, and returns their number. */
export function createPruning(rows: OldRows) {
  const deleteOld = prepareDeletion(rows)
  return (connection: Connection, isWanted: () => boolean = () => true): Promise<number> => {
    const deleteBatch = async () => {
      const [row] = await deleteOld(connection)
      return row?.count ?? 0
    }
    return deleteInBatches(deleteBatch, BATCH_SIZE, isWanted)
  }
}
