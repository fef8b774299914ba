/** Writes realistic rows, the same for the same seed, in concurrent batches. */

import { withProgress } from '@resource-api/cli'
import { type Connection, type Database, users as usersTable } from '@resource-api/database'
import { buildSearchText } from '@resource-api/resources/search-text'
import { eq, getTableColumns, getTableName, sql } from 'drizzle-orm'
import type { PgSequence, PgTable } from 'drizzle-orm/pg-core'
import { type Batch, writeBatches, writeInBulk } from './bulk.ts'
import { orderRows } from './orders.ts'
import { postRows } from './posts.ts'
import { productRows } from './products.ts'
import type { SeedContext, SeedStep } from './step.ts'
import { profileRows } from './user-profiles.ts'
import { getPerson, userRows } from './users.ts'

export interface SeedOptions extends SeedContext {
  /** Batches written concurrently; at most the number of database connections. */
  concurrency: number
  /**
   * Whether to fill empty tables in one transaction and create their indexes afterwards: several times as fast for many
   * rows. The tables are locked against all other access until the end.
   */
  bulk?: boolean
}

/** Rows refer only to rows of earlier stages. */
const STAGES: readonly (readonly SeedStep[])[] = [
  [userRows],
  [profileRows, postRows, productRows],
  [orderRows],
]

/** Inserting into the trigram indexes is the most expensive part; a longer pending list makes it cheaper. */
const RAISE_PENDING_LIST_LIMIT = 'set local gin_pending_list_limit = 65536'

/** Rows per batch: enough that the round trip does not matter, few enough for little memory. */
const BATCH_SIZE = 1_000

/** Inserts rows with one statement: sends them as one JSON text, which PostgreSQL converts to the column types. */
async function insertRows(tx: Connection, table: PgTable, rows: readonly object[]): Promise<void> {
  const name = getTableName(table)
  const columns = Object.values(getTableColumns(table))
    .map((column) => `"${column.name}"`)
    .join(', ')
  await tx.run(
    `insert into "${name}" (${columns}) select ${columns} from json_populate_recordset(null::"${name}", $1::json)`,
    [JSON.stringify(rows)],
  )
}

/** Draws numbers of a sequence, which follow each other, since nothing else uses the database. @returns the first one */
async function reserveNumbers(
  database: Database,
  { seqName = '' }: PgSequence,
  count: number,
): Promise<number> {
  const [drawn] = await database.execute<{ first: number }>(
    sql`select min(nextval) as first from (select nextval(${seqName}) from generate_series(1, ${count}::bigint)) as drawn`,
  )
  return drawn?.first ?? 1
}

/**
 * Adds rows to a migrated database.
 * @returns the numbers of rows by label, such as `users`
 * @throws Error if the database contains rows of this seed, complete or not
 */
export async function seedDatabase(
  database: Database,
  { seed, users, until, concurrency, bulk = false }: SeedOptions,
): Promise<Record<string, number>> {
  const context: SeedContext = { seed, users, until }
  const isFirst = eq(usersTable.email, getPerson(context, 0).user.email)
  if ((await database.$count(usersTable, isFirst)) > 0)
    throw new Error(`The database already contains rows of seed ${seed}; another --seed adds more`)

  const steps = STAGES.flat()
  const firstNumbers = new Map<SeedStep, number>()
  for (const step of steps) {
    if (!step.sequence) continue
    firstNumbers.set(step, await reserveNumbers(database, step.sequence, users * step.indicesPerUser))
  }
  const labeledTables = steps.flatMap((step) => Object.entries(step.tables))
  const tables = labeledTables.map(([, table]) => table)
  const added: Record<string, number> = Object.fromEntries(labeledTables.map(([label]) => [label, 0]))

  /** Returns a batch for every thousand indices. Rows of one index are written together. */
  const createBatches = (step: SeedStep): Batch[] => {
    const count = users * step.indicesPerUser
    const firstNumber = firstNumbers.get(step) ?? 0
    // A table without the column `search` ignores it.
    const addSearch = (row: object) => ({
      ...row,
      search: buildSearchText({ ...row }, step.resource.search),
    })
    return Array.from({ length: Math.ceil(count / BATCH_SIZE) }, (_, batch) => async (tx) => {
      const from = batch * BATCH_SIZE
      const length = Math.min(BATCH_SIZE, count - from)
      const built = Array.from({ length }, (__, i) => step.build(context, from + i, firstNumber + from + i))
      for (const [label, table] of Object.entries(step.tables)) {
        const rows = built.flatMap((rowsByLabel) => rowsByLabel[label] ?? [])
        await insertRows(tx, table, rows.map(addSearch))
        added[label] = (added[label] ?? 0) + rows.length
      }
    })
  }
  const stages = STAGES.map((stage) => stage.flatMap(createBatches))
  await withProgress('batches', stages.flat().length, async (add) => {
    if (bulk && (await writeInBulk(database, tables, stages.flat(), add))) return
    // Each batch has its own transaction.
    const writeAlone = (write: Batch) =>
      database.transaction(
        async (tx) => {
          await tx.run(RAISE_PENDING_LIST_LIMIT)
          await write(tx)
        },
        { statementTimeout: 0 },
      )
    for (const stage of stages) await writeBatches(stage, concurrency, writeAlone, add)
  })
  // Query plans depend on table statistics, which autovacuum would update only later.
  for (const table of tables) await database.run(`vacuum (analyze) "${getTableName(table)}"`)
  return added
}
