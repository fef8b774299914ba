/**
 * Much at once: sorting new rows into indexes one by one costs more than all the rest, so they are taken away and
 * made again afterwards. All in one transaction: whoever is killed amid it leaves the tables as they were.
 */
import { getTableName } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Runner } from '../../../drizzle/migrate.ts'

/** What sorts in memory for as long as the transaction lasts; one index is made at a time. */
const MEMORY = '512MB'
/** For whoever reads the tables now. Behind a lock that is waited for, everybody else waits as well. */
const PATIENCE = '10s'

/** How a thing is taken away, and made again as it was. */
interface Aside {
  away: string
  again: string
}

const names = (tables: readonly PgTable[]) => tables.map((table) => `"${getTableName(table)}"`).join(', ')

/** Keeps everybody else from the tables until the end of the transaction. */
export async function claim(tx: Runner, tables: readonly PgTable[]): Promise<void> {
  await tx.run("select set_config('lock_timeout', $1, true)", [PATIENCE])
  await tx.run(`lock table ${names(tables)} in access exclusive mode`)
  await tx.run("select set_config('maintenance_work_mem', $1, true)", [MEMORY])
  // Between two batches a busy machine may take its time.
  await tx.run("select set_config('idle_in_transaction_session_timeout', '0', true)")
}

/**
 * Takes indexes and foreign keys away, save what keeps rows apart: primary keys and unique indexes.
 * @returns what makes them again, one statement each
 */
export async function setAside(tx: Runner, tables: readonly PgTable[]): Promise<string[]> {
  const all = [...(await foreignKeys(tx, tables)), ...(await indexes(tx, tables))]
  for (const { away } of all) await tx.run(away)
  // Foreign keys last: they look for rows by what the others are there for.
  return all.map(({ again }) => again).toReversed()
}

/** As the catalogue has them, so that they come back as they were, whoever made them. */
async function aside(tx: Runner, tables: readonly PgTable[], text: string): Promise<Aside[]> {
  const rows = await tx.run(text, [`{${names(tables)}}`])
  return rows.map(({ away, again }) => ({ away: String(away), again: String(again) }))
}

const foreignKeys = (tx: Runner, tables: readonly PgTable[]) =>
  aside(
    tx,
    tables,
    `select format('alter table %s drop constraint %I', conrelid::regclass, conname) as away,
       format('alter table %s add constraint %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) as again
     from pg_constraint where contype = 'f' and conrelid = any($1::regclass[]) order by conrelid, conname`,
  )

const indexes = (tx: Runner, tables: readonly PgTable[]) =>
  aside(
    tx,
    tables,
    `select format('drop index %s', indexrelid::regclass) as away, pg_get_indexdef(indexrelid) as again
     from pg_index where not indisunique and indrelid = any($1::regclass[]) order by indrelid, indexrelid`,
  )
