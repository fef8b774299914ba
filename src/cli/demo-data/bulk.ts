/**
 * Bulk load: drops indexes and foreign keys and creates them again after the rows, since adding rows to existing indexes
 * takes longer than all the other work. It all happens in one transaction, so a killed process changes nothing.
 */
import { getTableName, type SQL, sql } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Connection } from '../../../drizzle/client/index.ts'

/** For sorting, within the transaction only; one index is created at a time. */
const MAINTENANCE_WORK_MEM = '512MB'
/** How long to wait for current readers. All other queries on the tables wait behind the requested lock. */
const LOCK_TIMEOUT = '10s'

/** The statements that drop an index or a foreign key and create it again. */
type SchemaObject = {
  drop: string
  create: string
}

const joinNames = (tables: readonly PgTable[]) => tables.map((table) => `"${getTableName(table)}"`).join(', ')

/** Locks the tables against all other access until the end of the transaction. */
export async function lockTables(tx: Connection, tables: readonly PgTable[]): Promise<void> {
  await tx.run("select set_config('lock_timeout', $1, true)", [LOCK_TIMEOUT])
  await tx.run(`lock table ${joinNames(tables)} in access exclusive mode`)
  await tx.run("select set_config('maintenance_work_mem', $1, true)", [MAINTENANCE_WORK_MEM])
  // Building a batch may take long on a busy machine, and the transaction is idle.
  await tx.run("select set_config('idle_in_transaction_session_timeout', '0', true)")
}

/**
 * Drops indexes and foreign keys, except primary keys and unique indexes.
 * @returns the statements that create them again
 */
export async function dropIndexes(tx: Connection, tables: readonly PgTable[]): Promise<string[]> {
  const names = `{${joinNames(tables)}}`
  const objects = [
    ...(await tx.execute<SchemaObject>(selectForeignKeys(names))),
    ...(await tx.execute<SchemaObject>(selectIndexes(names))),
  ]
  for (const { drop } of objects) await tx.run(drop)
  // In reverse, so that the checks of foreign keys can use the indexes.
  return objects.map(({ create }) => create).toReversed()
}

// From the catalog, so that objects which an operator has added are created again as well.
const selectForeignKeys = (names: string): SQL =>
  sql`select format('alter table %s drop constraint %I', conrelid::regclass, conname) as "drop",
       format('alter table %s add constraint %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) as "create"
     from pg_constraint where contype = 'f' and conrelid = any(${names}::regclass[]) order by conrelid, conname`

const selectIndexes = (names: string): SQL =>
  sql`select format('drop index %s', indexrelid::regclass) as "drop", pg_get_indexdef(indexrelid) as "create"
     from pg_index where not indisunique and indrelid = any(${names}::regclass[]) order by indrelid, indexrelid`
