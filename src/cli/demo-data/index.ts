/** Writes realistic demo data, the same for the same seed, in concurrent batches. */
import { getTableName } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Connection, Database } from '../../../drizzle/client/index.ts'
import { orderProducts, orders } from '../../../drizzle/tables.ts'
import type { ResourceDefinition } from '../../../plugins/collection/definition.ts'
import { buildSearchText } from '../../../plugins/collection/sql/case-folding.ts'
import { dropIndexes, lockTables } from './bulk.ts'
import { createOrderBatches, reserveOrderNumbers } from './order-batches.ts'
import { createPools } from './pools.ts'
import { getCounts, type SeedContext } from './seed-context.ts'
import { type Batch, type SeedStep, sliceIndices } from './seed-step.ts'
import { steps } from './steps.ts'
import { createTimeline } from './timeline.ts'
import { getFirstEmail } from './users.ts'

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
  /** Called after each batch with its number of rows; `countRows` returns the approximate total. */
  onProgress?: (rows: number) => void
  /** Called after each index or foreign key that is created again, with their total number. */
  onIndexCreated?: (total: number) => void
}

/** The number of rows that were added, by the label of the step, and `orders`. */
export interface SeedResult {
  /** Order items, of all orders. */
  items: number
  [label: string]: number
}

/** The database already contains data of this seed. The message is for the operator. */
export class AlreadySeededError extends Error {
  override readonly name = 'AlreadySeededError'
}

const AVERAGE_ITEMS = 3
/** Inserting into the trigram indexes is the most expensive part; a longer pending list makes it cheaper. */
const RAISE_PENDING_LIST_LIMIT = "select set_config('gin_pending_list_limit', '65536', true)"

type Definitions = readonly ResourceDefinition[]

const isRegistered = (definitions: Definitions, resource: string) =>
  definitions.some(({ name }) => name === resource)

const selectSteps = (definitions: Definitions): SeedStep[] =>
  steps.filter(({ resource }) => isRegistered(definitions, resource))

/** Returns the tables that are filled. */
const listTables = (definitions: Definitions): PgTable[] => [
  ...selectSteps(definitions).map(({ table }) => table),
  ...(isRegistered(definitions, 'orders') ? [orders, orderProducts] : []),
]

/** Returns the approximate number of rows for a number of users: an order has three items on average. */
export function countRows(userCount: number, definitions: Definitions): number {
  const orderCount = isRegistered(definitions, 'orders') ? getCounts(userCount).orders : 0
  const counts = selectSteps(definitions).map((step) => step.countRows(userCount))
  return counts.reduce((sum, count) => sum + count, orderCount * (1 + AVERAGE_ITEMS))
}

/** Returns a batch for every thousand indices. */
const createBatches = (context: SeedContext, { indicesPerUser, insert }: SeedStep): Batch[] =>
  sliceIndices(context.counts.users * indicesPerUser).map((indices) => (tx) => insert(tx, context, indices()))

/** Returns all batches in stages: the rows that a batch refers to are in an earlier stage. */
function createStages(
  context: SeedContext,
  definitions: Definitions,
  orderBatches: readonly Batch[],
): Batch[][] {
  const selected = selectSteps(definitions)
  const [first, second, third] = [0, 1, 2].map((stage) =>
    selected.filter((step) => step.stage === stage).flatMap((step) => createBatches(context, step)),
  )
  const users = first ?? []
  return [
    // The first batch of users is written alone: its first user marks the seed as used, also if a later batch fails.
    users.splice(0, 1),
    [...users, ...(second ?? [])],
    [...(third ?? []), ...orderBatches],
  ]
}

/** Writes each batch in its own transaction. Servers can use the database at the same time. */
async function writeConcurrently(
  database: Database,
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
async function isEmpty(tx: Connection): Promise<boolean> {
  const [user] = await tx.run(`select 1 from users offset ${MAX_EXISTING_USERS} limit 1`)
  const [other] = await tx.run('select 1 from products union all select 1 from orders limit 1')
  return !user && !other
}

/**
 * Writes all batches in one transaction; builds the next batch while the database writes the current one.
 * @returns false if the tables are not empty, and then nothing is written
 */
function writeInBulk(
  database: Database,
  stages: readonly Batch[][],
  { definitions, onProgress, onIndexCreated }: SeedOptions,
): Promise<boolean> {
  const tables = listTables(definitions)
  return database.transaction(
    async (tx) => {
      await lockTables(tx, tables)
      if (!(await isEmpty(tx))) return false
      const statements = await dropIndexes(tx, tables)
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
export async function seedDatabase(database: Database, options: SeedOptions): Promise<SeedResult> {
  const { definitions } = options
  const counts = getCounts(options.users)
  const timeline = createTimeline(options.until)
  const pools = await createPools(options.seed)
  const context: SeedContext = {
    seed: options.seed,
    counts,
    timeline,
    pools,
    getSearchText: (resource, row) =>
      buildSearchText(row, definitions.find(({ name }) => name === resource)?.search ?? []),
  }
  const [firstUser] = await database.run('select 1 from users where email = $1', [getFirstEmail(context)])
  if (firstUser) {
    throw new AlreadySeededError(
      `The database already contains data of seed ${options.seed}, complete or not; another --seed adds more`,
    )
  }

  // Indexed by batch, so that a batch that is retried after a deadlock counts once.
  const items: number[] = []
  const hasOrders = isRegistered(definitions, 'orders')
  const orderBatches = hasOrders
    ? createOrderBatches(context, await reserveOrderNumbers(database, counts.orders), (batch, count) => {
        items[batch] = count
      })
    : []
  const stages = createStages(context, definitions, orderBatches)
  const isWritten = options.bulk && (await writeInBulk(database, stages, options))
  if (!isWritten) await writeConcurrently(database, stages, options)
  // Query plans depend on table statistics, which autovacuum would update only later.
  for (const table of listTables(definitions)) await database.run(`vacuum (analyze) "${getTableName(table)}"`)
  return {
    ...Object.fromEntries(selectSteps(definitions).map((step) => [step.label, step.countRows(counts.users)])),
    ...(hasOrders && { orders: counts.orders }),
    items: items.reduce((sum, count) => sum + count, 0),
  }
}
