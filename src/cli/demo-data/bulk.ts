/**
 * Bulk load: drops indexes and foreign keys and creates them again after the rows, since adding rows to existing indexes
 * takes longer than all the other work. It all happens in one transaction, so a killed process changes nothing.
 */
import { getTableName, sql } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Connection } from '../../../drizzle/client/index.ts'

/** For sorting, within the transaction only; one index is created at a time. */
const MAINTENANCE_WORK_MEM = '512MB'
/** How long to wait for current readers. All other queries on the tables wait behind the requested lock. */
const LOCK_TIMEOUT = '10s'

const joinNames = (tables: readonly PgTable[]) => tables.map((table) => `"${getTableName(table)}"`).join(', ')

/** Locks the tables against all other access until the end of the transaction. */
export async function lockTables(tx: Connection, tables: readonly PgTable[]): Promise<void> {
  await tx.run(`set local lock_timeout = '${LOCK_TIMEOUT}'`)
  await tx.run(`lock table ${joinNames(tables)} in access exclusive mode`)
  await tx.run(`set local maintenance_work_mem = '${MAINTENANCE_WORK_MEM}'`)
  // Building a batch may take long on a busy machine, and the transaction is idle.
  await tx.run('set local idle_in_transaction_session_timeout = 0')
}

/**
 * Selects the statements that drop foreign keys and indexes and create them again: from the catalog, so that objects which
 * an operator has added are created again as well.
 */
const selectObjects = (names: string) =>
  sql`select format('alter table %s drop constraint %I', conrelid::regclass, conname) as "drop",
      format('alter table %s add constraint %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) as "create",
      1 as position
    from pg_constraint where contype = 'f' and conrelid = any(${names}::regclass[])
    union all
    select format('drop index %s', indexrelid::regclass), pg_get_indexdef(indexrelid), 2
    from pg_index where not indisunique and indrelid = any(${names}::regclass[])
    order by position, "drop"`

/**
 * Drops indexes and foreign keys, except primary keys and unique indexes.
 * @returns the statements that create them again
 */
export async function dropIndexes(tx: Connection, tables: readonly PgTable[]): Promise<string[]> {
  const objects = await tx.execute<{ drop: string; create: string }>(selectObjects(`{${joinNames(tables)}}`))
  for (const { drop } of objects) await tx.run(drop)
  // In reverse, so that the checks of foreign keys can use the indexes.
  return objects.map(({ create }) => create).toReversed()
}
