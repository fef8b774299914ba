/**
 * Bulk load: drops indexes and foreign keys and creates them again after the rows, since adding rows to existing indexes
 * takes longer than all the other work. It all happens in one transaction, so a killed process changes nothing.
 */

import { withProgress } from '@resource-api/cli'
import { type Connection, type Database, users } from '@resource-api/database'
import { getTableName, sql } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'

/** Writes rows in a transaction. */
export type Batch = (tx: Connection) => Promise<void>

/** Writes batches, a few at a time, and counts them. */
export async function writeBatches(
  batches: readonly Batch[],
  concurrency: number,
  write: (batch: Batch) => Promise<void>,
  add: (count: number) => void,
): Promise<void> {
  const queue = batches.values()
  const runWorker = async () => {
    for (const batch of queue) {
      await write(batch)
      add(1)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, runWorker))
}

/** For sorting, within the transaction only; one index is created at a time. */
const MAINTENANCE_WORK_MEM = '512MB'
/** How long to wait for current readers. All other queries on the tables wait behind the requested lock. */
const LOCK_TIMEOUT = '10s'
/** Users, such as the admin, that a database may have and still count as empty. */
const MAX_EXISTING_USERS = 1_000

/** Selects whether the tables have so few rows that creating their indexes again costs nothing. */
const selectIsEmpty = (tables: readonly PgTable[]) => {
  const conditions = tables.map((table) => {
    const mostRows = table === users ? MAX_EXISTING_USERS : 0
    return sql`not exists (select from ${table} offset ${mostRows})`
  })
  return sql`select ${sql.join(conditions, sql` and `)} as is_empty`
}

/**
 * Selects the statements that drop foreign keys and indexes, except primary keys, unique indexes and exclusion constraints, and create them
 * again: from the catalog, so that objects which an operator has added are created again as well.
 */
const selectObjects = (names: string) =>
  sql`select format('alter table %s drop constraint %I', conrelid::regclass, conname) as "drop",
      format('alter table %s add constraint %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) as "create",
      1 as position
    from pg_constraint where contype = 'f' and conrelid = any(${names}::regclass[])
    union all
    select format('drop index %s', indexrelid::regclass), pg_get_indexdef(indexrelid), 2
    from pg_index where not indisunique and not indisexclusion and indrelid = any(${names}::regclass[])
    order by position, "drop"`

/**
 * Writes all batches in one transaction; builds the next batch while the database writes the current one.
 * @returns false if the tables are not empty, and then nothing is written
 */
export function writeInBulk(
  database: Database,
  tables: readonly PgTable[],
  batches: readonly Batch[],
  add: (count: number) => void,
): Promise<boolean> {
  const names = tables.map((table) => `"${getTableName(table)}"`).join(', ')
  const work = async (tx: Connection) => {
    await tx.run(`set local lock_timeout = '${LOCK_TIMEOUT}'`)
    await tx.run(`lock table ${names} in access exclusive mode`)
    await tx.run(`set local maintenance_work_mem = '${MAINTENANCE_WORK_MEM}'`)
    // Building a batch may take long on a busy machine, and the transaction is idle.
    await tx.run('set local idle_in_transaction_session_timeout = 0')
    const [state] = await tx.execute<{ is_empty: boolean }>(selectIsEmpty(tables))
    if (!state?.is_empty) return false
    const objects = await tx.execute<{ drop: string; create: string }>(selectObjects(`{${names}}`))
    for (const { drop } of objects) await tx.run(drop)
    await writeBatches(batches, 2, (batch) => batch(tx), add)
    await withProgress('indexes and foreign keys', objects.length, async (addObject) => {
      // In reverse, so that the checks of foreign keys can use the indexes.
      for (const { create } of objects.toReversed()) {
        await tx.run(create)
        addObject(1)
      }
    })
    return true
  }
  return database.transaction(work, { statementTimeout: 0 })
}
