/** Writes realistic demo data, the same for the same seed, in concurrent batches. */
import { eq, getTableColumns, getTableName, sql } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Connection, Database } from '../../../drizzle/client/index.ts'
import { orders, products, users as usersTable } from '../../../drizzle/tables.ts'
import type { ResourceDefinition } from '../../../plugins/collection/definition.ts'
import { buildSearchText } from '../../../plugins/collection/sql/case-folding.ts'
import { withProgress } from '../progress.ts'
import { dropIndexes, lockTables } from './bulk.ts'
import { ordersStep } from './orders.ts'
import { postsStep } from './posts.ts'
import { productsStep } from './products.ts'
import { ORDERS_PER_USER, type SeedContext, type SeedStep } from './seed-context.ts'
import { getPerson, profilesStep, usersStep } from './users.ts'

/** The steps in stages: rows refer only to rows of earlier stages. */
const STAGES = [[usersStep], [profilesStep, postsStep, productsStep], [ordersStep]]

export interface SeedOptions {
  /** The number of users, from which all other numbers follow. */
  users: number
  /** The same seed creates the same data. */
  seed: number
  /** The end of the two years over which the data is spread, in epoch milliseconds. */
  until: number
  /** The registered resources; only they get rows. */
  definitions: readonly ResourceDefinition[]
  /** Batches written concurrently; at most the number of database connections. */
  concurrency: number
  /**
   * Whether to fill empty tables in one transaction and create their indexes afterwards: several times as fast for many
   * rows. The tables are locked against all other access until the end.
   */
  bulk?: boolean
}

/** The database already contains data of this seed. The message is for the operator. */
export class AlreadySeededError extends Error {
  override readonly name = 'AlreadySeededError'
}

/** Inserting into the trigram indexes is the most expensive part; a longer pending list makes it cheaper. */
const RAISE_PENDING_LIST_LIMIT = 'set local gin_pending_list_limit = 65536'

/** Rows per batch: enough that the round trip does not matter, few enough for little memory. */
const BATCH_SIZE = 1_000

/** The numbers of rows that were written, by their label in the summary. */
type Counts = Record<string, number>

/** Writes rows in a transaction and returns their numbers. */
type Batch = (tx: Connection) => Promise<Counts>

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

/** Returns a batch for every thousand indices. Rows of one index are written together. */
function createBatches(
  context: SeedContext,
  { indicesPerUser, tables, build }: SeedStep,
  search: readonly string[] = [],
): Batch[] {
  const count = context.users * indicesPerUser
  // A table without the column `search` ignores it.
  const addSearch = (row: object) => ({ ...row, search: buildSearchText({ ...row }, search) })
  return Array.from({ length: Math.ceil(count / BATCH_SIZE) }, (_, batch) => async (tx) => {
    const from = batch * BATCH_SIZE
    const length = Math.min(BATCH_SIZE, count - from)
    const built = Array.from({ length }, (__, i) => build(context, from + i))
    const counts: Counts = {}
    for (const [label, table] of Object.entries(tables)) {
      const rows = built.flatMap((rowsByLabel) => rowsByLabel[label] ?? [])
      await insertRows(tx, table, rows.map(addSearch))
      counts[label] = rows.length
    }
    return counts
  })
}

/** Writes each batch in its own transaction. Servers can use the database at the same time. */
async function writeConcurrently(
  database: Database,
  stages: readonly Batch[][],
  concurrency: number,
  onWritten: (counts: Counts) => void,
): Promise<void> {
  for (const stage of stages) {
    const queue = stage.values()
    const runWorker = async () => {
      for (const write of queue) {
        const counts = await database.transaction(
          async (tx) => {
            await tx.run(RAISE_PENDING_LIST_LIMIT)
            return write(tx)
          },
          { statementTimeout: 0 },
        )
        onWritten(counts)
      }
    }
    await Promise.all(Array.from({ length: concurrency }, runWorker))
  }
}

/** Users, such as the admin, that a database may have and still count as empty. */
const MAX_EXISTING_USERS = 1_000

/** Returns whether the tables have so few rows that creating their indexes again costs nothing. */
async function isEmpty(tx: Connection): Promise<boolean> {
  const [user] = await tx.select({ id: usersTable.id }).from(usersTable).offset(MAX_EXISTING_USERS).limit(1)
  const [product] = await tx.select({ id: products.id }).from(products).limit(1)
  const [order] = await tx.select({ id: orders.id }).from(orders).limit(1)
  return !user && !product && !order
}

/**
 * Writes all batches in one transaction; builds the next batch while the database writes the current one.
 * @returns false if the tables are not empty, and then nothing is written
 */
function writeInBulk(
  database: Database,
  tables: readonly PgTable[],
  batches: readonly Batch[],
  onWritten: (counts: Counts) => void,
): Promise<boolean> {
  return database.transaction(
    async (tx) => {
      await lockTables(tx, tables)
      if (!(await isEmpty(tx))) return false
      const statements = await dropIndexes(tx, tables)
      let previous: Promise<Counts> = Promise.resolve({})
      for (const write of batches) {
        const written = write(tx)
        // If the previous batch fails, its error is thrown below, and this batch fails because of it.
        written.catch(() => undefined)
        onWritten(await previous)
        previous = written
      }
      onWritten(await previous)
      await withProgress('indexes and foreign keys', statements.length, async (add) => {
        for (const statement of statements) {
          await tx.run(statement)
          add(1)
        }
      })
      return true
    },
    { statementTimeout: 0 },
  )
}

/**
 * Draws numbers for orders, which follow each other. If a running server has drawn one in between, all are drawn again:
 * order numbers may have gaps, and a sequence cannot be locked on Citus.
 * @returns the first one
 */
async function reserveOrderNumbers(database: Database, count: number): Promise<number> {
  for (;;) {
    const [drawn] = await database.execute<{ first: number; last: number }>(
      sql`select coalesce(min(drawn), 1) as first, coalesce(max(drawn), 0) as last
        from (select nextval('order_numbers') as drawn from generate_series(1, ${count}::bigint)) as numbers`,
    )
    if (drawn && drawn.last - drawn.first + 1 === count) return drawn.first
  }
}

/** @throws AlreadySeededError if the first user of the seed exists */
async function ensureUnused(database: Database, context: SeedContext): Promise<void> {
  const isFirst = eq(usersTable.email, getPerson(context, 0).user.email)
  const [user] = await database.select({ id: usersTable.id }).from(usersTable).where(isFirst)
  if (!user) return
  throw new AlreadySeededError(
    `The database already contains data of seed ${context.seed}, complete or not; another --seed adds more`,
  )
}

/**
 * Adds demo data to a migrated database.
 * @returns the numbers of rows by label, such as `users`; `items` are those of all orders
 * @throws AlreadySeededError if the database contains data of this seed, complete or not
 */
export async function seedDatabase(
  database: Database,
  { definitions, seed, users, until, concurrency, bulk = false }: SeedOptions,
): Promise<Counts> {
  const context: SeedContext = { seed, users, until, firstOrderNumber: 0 }
  await ensureUnused(database, context)
  const findDefinition = ({ resource }: SeedStep) => definitions.find(({ name }) => name === resource)
  const steps = STAGES.flat().filter(findDefinition)
  if (steps.includes(ordersStep))
    context.firstOrderNumber = await reserveOrderNumbers(database, users * ORDERS_PER_USER)
  const [userBatches = [], ...others] = STAGES.map((stage) =>
    stage
      .filter(findDefinition)
      .flatMap((step) => createBatches(context, step, findDefinition(step)?.search)),
  )
  // The first batch is written alone: its first user marks the seed as used, also if a later batch fails.
  const stages = [userBatches.slice(0, 1), userBatches.slice(1), ...others]
  const tables = steps.flatMap((step) => Object.values(step.tables))
  // In this order, whichever batch is written first.
  const added: Counts = Object.fromEntries(
    steps.flatMap((step) => Object.keys(step.tables).map((label) => [label, 0])),
  )
  await withProgress('batches', stages.flat().length, async (add) => {
    const onWritten = (counts: Counts) => {
      for (const [label, count] of Object.entries(counts)) added[label] = (added[label] ?? 0) + count
      add(1)
    }
    const isWritten = bulk && (await writeInBulk(database, tables, stages.flat(), onWritten))
    if (!isWritten) await writeConcurrently(database, stages, concurrency, onWritten)
  })
  // Query plans depend on table statistics, which autovacuum would update only later.
  for (const table of tables) await database.run(`vacuum (analyze) "${getTableName(table)}"`)
  return added
}
