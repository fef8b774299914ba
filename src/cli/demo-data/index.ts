/** Writes realistic demo data, the same for the same seed, in concurrent batches. */
import { getTableName } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import { queryRows } from '../../../drizzle/client/query-rows.ts'
import type { Migratable, Runner } from '../../../drizzle/migrate.ts'
import { orderProducts, orders, posts, products, userProfiles, users } from '../../../drizzle/tables.ts'
import { dropIndexes, lockTables } from './bulk.ts'
import { insertRows } from './insert.ts'
import { buildOrder } from './orders.ts'
import { createPools } from './pools.ts'
import { buildPost } from './posts.ts'
import { buildProduct } from './products.ts'
import { type Counts, getCounts, type SearchTextBuilders, type SeedContext } from './seed-context.ts'
import { createTimeline } from './timeline.ts'
import { buildProfiles, buildUser, getFirstEmail } from './users.ts'

export type { SearchTextBuilders } from './seed-context.ts'

export interface SeedOptions {
  /** The number of users, from which all other numbers follow. */
  users: number
  /** The same seed creates the same data. */
  seed: number
  /** The end of the two years over which the data is spread, in epoch milliseconds. */
  until: number
  searchTextBuilders: SearchTextBuilders
  /** Batches written concurrently; at most the number of database connections. */
  concurrency: number
  /**
   * Whether to fill empty tables in one transaction and create their indexes afterwards: several times as fast for many
   * rows. The tables are locked against all other access until the end.
   */
  bulk?: boolean
  /** Called after each batch with its number of rows; `countRows` returns the approximate total. */
  onProgress?: (rows: number) => void
  /** Called after each index or foreign key that is created again, with their total number. */
  onIndexCreated?: (total: number) => void
}

/** The number of rows that were added. */
export interface SeedResult extends Counts {
  /** Order items, of all orders. */
  items: number
}

/** The database already contains data of this seed. The message is for the operator. */
export class AlreadySeededError extends Error {
  override readonly name = 'AlreadySeededError'
}

/** Rows per batch: enough that the round trip does not matter, few enough for little memory. */
const BATCH_SIZE = 1_000
const AVERAGE_ITEMS = 3
const TABLES = [users, userProfiles, posts, products, orders, orderProducts]
/** Inserting into the trigram indexes is the most expensive part; a longer pending list makes it cheaper. */
const RAISE_PENDING_LIST_LIMIT = "select set_config('gin_pending_list_limit', '65536', true)"

/** Returns the approximate number of rows for a number of users: an order has three items on average. */
export function countRows(userCount: number): number {
  const { orders: orderCount, ...others } = getCounts(userCount)
  return Object.values(others).reduce((sum, count) => sum + count, orderCount * (1 + AVERAGE_ITEMS))
}

type Batch = (tx: Runner) => Promise<number>

/** Returns a batch for every thousand indices. @param build returns the rows of one index */
function createBatches<T extends PgTable>(
  count: number,
  table: T,
  build: (index: number) => readonly T['$inferSelect'][],
): Batch[] {
  return sliceIndices(count).map((indices) => async (tx) => {
    const rows = indices().flatMap(build)
    await insertRows(tx, table, rows)
    return rows.length
  })
}

const sliceIndices = (count: number): (() => number[])[] =>
  Array.from({ length: Math.ceil(count / BATCH_SIZE) }, (_, i) => () => {
    const from = i * BATCH_SIZE
    return Array.from({ length: Math.min(BATCH_SIZE, count - from) }, (__, j) => from + j)
  })

/** Writes orders and their links to products in one transaction, so that no reader sees one without the other. */
function createOrderBatches(
  context: SeedContext,
  firstNumber: number,
  onItems: (batch: number, items: number) => void,
): Batch[] {
  return sliceIndices(context.counts.orders).map((indices, batch) => async (tx) => {
    const built = indices().map((index) => buildOrder(context, index, firstNumber + index))
    const orderRows = built.map(({ order }) => order)
    const linkRows = built.flatMap(({ links }) => links)
    await insertRows(tx, orders, orderRows)
    await insertRows(tx, orderProducts, linkRows)
    onItems(batch, linkRows.length)
    return orderRows.length + linkRows.length
  })
}

/** Reserves numbers for `count` orders; a running server may take numbers at the same time. @returns the first one */
function reserveOrderNumbers(database: Migratable, count: number): Promise<number> {
  return database.transaction(async (tx) => {
    // Changes nothing, but locks the sequence until the end of the transaction.
    await tx.run('alter sequence order_numbers increment by 1')
    const [{ first } = { first: 1 }] = await queryRows<{ first: number }>(
      tx,
      'select last_value + case when is_called then 1 else 0 end as first from order_numbers',
    )
    await tx.run("select setval('order_numbers', $1)", [first + count - 1])
    return first
  })
}

/** Returns all batches in stages: the rows that a batch refers to are in an earlier stage. */
function createStages(
  context: SeedContext,
  firstNumber: number,
  onItems: (batch: number, items: number) => void,
): Batch[][] {
  const { counts } = context
  const userBatches = createBatches(counts.users, users, (i) => [buildUser(context, i)])
  return [
    // The first batch of users is written alone: its first user marks the seed as used, also if a later batch fails.
    userBatches.splice(0, 1),
    [...userBatches, ...createBatches(counts.products, products, (i) => [buildProduct(context, i)])],
    [
      ...createBatches(counts.users, userProfiles, (i) => buildProfiles(context, i)),
      ...createBatches(counts.posts, posts, (i) => [buildPost(context, i)]),
      ...createOrderBatches(context, firstNumber, onItems),
    ],
  ]
}

/** Writes each batch in its own transaction. Servers can use the database at the same time. */
async function writeConcurrently(
  database: Migratable,
  stages: readonly Batch[][],
  { concurrency, onProgress }: SeedOptions,
): Promise<void> {
  for (const stage of stages) {
    const queue = stage.values()
    const runWorker = async () => {
      for (const write of queue) {
        const rows = await database.transaction(
          async (tx) => {
            await tx.run(RAISE_PENDING_LIST_LIMIT)
            return write(tx)
          },
          { statementTimeout: 0 },
        )
        onProgress?.(rows)
      }
    }
    await Promise.all(Array.from({ length: concurrency }, runWorker))
  }
}

/** Users, such as the admin, that a database may have and still count as empty. */
const MAX_EXISTING_USERS = 1_000

/** Returns whether the tables have so few rows that creating their indexes again costs nothing. */
async function isEmpty(tx: Runner): Promise<boolean> {
  const [user] = await tx.run(`select 1 from users offset ${MAX_EXISTING_USERS} limit 1`)
  const [other] = await tx.run('select 1 from products union all select 1 from orders limit 1')
  return !user && !other
}

/**
 * Writes all batches in one transaction; builds the next batch while the database writes the current one.
 * @returns false if the tables are not empty, and then nothing is written
 */
function writeInBulk(
  database: Migratable,
  stages: readonly Batch[][],
  { onProgress, onIndexCreated }: SeedOptions,
): Promise<boolean> {
  return database.transaction(
    async (tx) => {
      await lockTables(tx, TABLES)
      if (!(await isEmpty(tx))) return false
      const statements = await dropIndexes(tx, TABLES)
      let previous = Promise.resolve(0)
      for (const write of stages.flat()) {
        const written = write(tx)
        // If the previous batch fails, its error is thrown below, and this batch fails because of it.
        written.catch(() => undefined)
        const rows = await previous
        onProgress?.(rows)
        previous = written
      }
      const rows = await previous
      onProgress?.(rows)
      for (const statement of statements) {
        await tx.run(statement)
        onIndexCreated?.(statements.length)
      }
      return true
    },
    { statementTimeout: 0 },
  )
}

/**
 * Adds demo data to a migrated database.
 * @throws AlreadySeededError if the database contains data of this seed, complete or not
 */
export async function seedDatabase(database: Migratable & Runner, options: SeedOptions): Promise<SeedResult> {
  const counts = getCounts(options.users)
  const timeline = createTimeline(options.until)
  const pools = await createPools(options.seed)
  const context: SeedContext = {
    seed: options.seed,
    counts,
    timeline,
    pools,
    searchTextBuilders: options.searchTextBuilders,
  }
  const [firstUser] = await database.run('select 1 from users where email = $1', [getFirstEmail(context)])
  if (firstUser) {
    throw new AlreadySeededError(
      `The database already contains data of seed ${options.seed}, complete or not; another --seed adds more`,
    )
  }

  const firstNumber = await reserveOrderNumbers(database, counts.orders)
  // Indexed by batch, so that a batch that is retried after a deadlock counts once.
  const items: number[] = []
  const stages = createStages(context, firstNumber, (batch, count) => {
    items[batch] = count
  })
  const isWritten = options.bulk && (await writeInBulk(database, stages, options))
  if (!isWritten) await writeConcurrently(database, stages, options)
  // Query plans depend on table statistics, which autovacuum would update only later.
  for (const table of TABLES) await database.run(`vacuum (analyze) "${getTableName(table)}"`)
  return { ...counts, items: items.reduce((sum, count) => sum + count, 0) }
}
