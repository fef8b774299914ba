/** Demo data: believable, the same for the same seed, written in batches by as many hands as the database has. */
import { getTableName } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Migratable, Runner } from '../../../drizzle/migrate.ts'
import { orderProducts, orders, posts, products, userProfiles, users } from '../../../drizzle/tables.ts'
import { claim, setAside } from './bulk.ts'
import { insert } from './insert.ts'
import { orderOf } from './orders.ts'
import { createPools } from './pools.ts'
import { postOf } from './posts.ts'
import { productOf } from './products.ts'
import { createTimeline } from './timeline.ts'
import { firstEmail, profileOf, userOf } from './users.ts'
import { type Counts, countsOf, type Folding, type World } from './world.ts'

export type { Folding } from './world.ts'

export interface SeedOptions {
  /** How many users; all else follows from it. */
  users: number
  /** The same number makes the same data. */
  seed: number
  /** Epoch milliseconds of the end of the two years that the data is spread over. */
  until: number
  search: Folding
  /** How many batches are written at once; no more than the database has connections. */
  hands: number
  /**
   * Whether empty tables are filled in one transaction, their indexes made afterwards: several times as fast for very
   * much. Nobody else reads or writes the tables meanwhile.
   */
  bulk?: boolean
  /** Told after each batch how many rows it was; `totalOf` says of how many, more or less. */
  onProgress?: (rows: number) => void
  /** Told after each index and foreign key that is made again how many there are in all. */
  onIndex?: (all: number) => void
}

/** What was added. */
export interface Seeded extends Counts {
  /** Of all orders together. */
  items: number
}

/** The database holds what is to be added, and says so in words that can be shown. */
export class AlreadySeeded extends Error {
  override readonly name = 'AlreadySeeded'
}

/** Things in one batch: enough to forget the round trip, few enough to fit the memory many times over. */
const BATCH = 1_000
const ITEMS = 3
const TABLES = [users, userProfiles, posts, products, orders, orderProducts]
/** Sorting new trigrams into their index is the dearest part; the more at once, the cheaper. */
const BULK = "select set_config('gin_pending_list_limit', '65536', true)"

/** How many rows so many users come to: an order's items are three on average. */
export function totalOf(userCount: number): number {
  const { orders: orderCount, ...others } = countsOf(userCount)
  return Object.values(others).reduce((sum, count) => sum + count, orderCount * (1 + ITEMS))
}

type Batch = (tx: Runner) => Promise<number>

/** One batch for every thousand indices; `make` gives the rows of one index. */
function batches<T extends PgTable>(
  count: number,
  table: T,
  make: (index: number) => readonly T['$inferSelect'][],
): Batch[] {
  return slices(count).map((indices) => async (tx) => {
    const rows = indices().flatMap(make)
    await insert(tx, table, rows)
    return rows.length
  })
}

const slices = (count: number): (() => number[])[] =>
  Array.from({ length: Math.ceil(count / BATCH) }, (_, i) => () => {
    const from = i * BATCH
    return Array.from({ length: Math.min(BATCH, count - from) }, (__, j) => from + j)
  })

/** Orders and what leads from them to products, together: nobody sees the one without the other. */
function orderBatches(
  world: World,
  firstNumber: number,
  counted: (batch: number, items: number) => void,
): Batch[] {
  return slices(world.counts.orders).map((indices, batch) => async (tx) => {
    const made = indices().map((index) => orderOf(world, index, firstNumber + index))
    const links = made.flatMap((order) => order.links)
    await insert(
      tx,
      orders,
      made.map(({ order }) => order),
    )
    await insert(tx, orderProducts, links)
    counted(batch, links.length)
    return made.length + links.length
  })
}

/** Takes numbers for so many orders, while a server may take its own. */
function takeNumbers(database: Migratable, count: number): Promise<number> {
  return database.transaction(async (tx) => {
    // Changes nothing, but keeps others from taking numbers until the end of the transaction.
    await tx.run('alter sequence order_numbers increment by 1')
    const [row] = await tx.run(
      'select last_value + case when is_called then 1 else 0 end as first from order_numbers',
    )
    const first = Number(row?.first)
    await tx.run("select setval('order_numbers', $1)", [first + count - 1])
    return first
  })
}

/** All there is to write: what a batch refers to is in an earlier stage. */
function stagesOf(
  world: World,
  firstNumber: number,
  counted: (batch: number, items: number) => void,
): Batch[][] {
  const { counts } = world
  const people = batches(counts.users, users, (i) => [userOf(world, i)])
  return [
    // The first batch of users goes alone: who is found there by `firstEmail` was begun, whatever comes.
    people.splice(0, 1),
    [...people, ...batches(counts.products, products, (i) => [productOf(world, i)])],
    [
      ...batches(counts.users, userProfiles, (i) => profileOf(world, i)),
      ...batches(counts.posts, posts, (i) => [postOf(world, i)]),
      ...orderBatches(world, firstNumber, counted),
    ],
  ]
}

/** Each batch in a transaction of its own, beside whoever else uses the database. */
async function byHands(
  database: Migratable,
  stages: readonly Batch[][],
  { hands, onProgress }: SeedOptions,
): Promise<void> {
  for (const stage of stages) {
    const queue = stage.values()
    const hand = async () => {
      for (const write of queue) {
        const rows = await database.transaction(
          async (tx) => {
            await tx.run(BULK)
            return write(tx)
          },
          { statementTimeout: 0 },
        )
        onProgress?.(rows)
      }
    }
    await Promise.all(Array.from({ length: hands }, hand))
  }
}

/** The admin, and whoever else may have come before the demo data. */
const FEW = 1_000

/** Whether nothing is lost by making the indexes of all that is there anew. */
async function isEmpty(tx: Runner): Promise<boolean> {
  const [user] = await tx.run(`select 1 from users offset ${FEW} limit 1`)
  const [other] = await tx.run('select 1 from products union all select 1 from orders limit 1')
  return !user && !other
}

/**
 * All batches in one transaction, the next one made while the database writes the one before.
 * @returns false where the tables hold something already: nothing is done then
 */
function atOnce(
  database: Migratable,
  stages: readonly Batch[][],
  { onProgress, onIndex }: SeedOptions,
): Promise<boolean> {
  return database.transaction(
    async (tx) => {
      await claim(tx, TABLES)
      if (!(await isEmpty(tx))) return false
      const statements = await setAside(tx, TABLES)
      let before = Promise.resolve(0)
      for (const write of stages.flat()) {
        const written = write(tx)
        // Should the one before fail, that is the error, and this one fails on account of it.
        written.catch(() => undefined)
        const rows = await before
        onProgress?.(rows)
        before = written
      }
      const rows = await before
      onProgress?.(rows)
      for (const statement of statements) {
        await tx.run(statement)
        onIndex?.(statements.length)
      }
      return true
    },
    { statementTimeout: 0 },
  )
}

/**
 * Adds demo data to a migrated database.
 * @throws AlreadySeeded where data of this seed is there, whole or in part
 */
export async function seed(database: Migratable & Runner, options: SeedOptions): Promise<Seeded> {
  const counts = countsOf(options.users)
  const timeline = createTimeline(options.until)
  const pools = await createPools(options.seed)
  const world: World = { seed: options.seed, counts, timeline, pools, search: options.search }
  const [before] = await database.run('select 1 from users where email = $1', [firstEmail(world)])
  if (before) {
    throw new AlreadySeeded(
      `The database holds data of seed ${options.seed} already, whole or in part; another --seed adds more`,
    )
  }

  const firstNumber = await takeNumbers(database, counts.orders)
  // By batch: one that is written again, after a deadlock, counts once.
  const items: number[] = []
  const stages = stagesOf(world, firstNumber, (batch, count) => {
    items[batch] = count
  })
  const done = options.bulk && (await atOnce(database, stages, options))
  if (!done) await byHands(database, stages, options)
  // Plans depend on what the database knows of its tables, and it would find out only in a while.
  for (const table of TABLES) await database.run(`vacuum (analyze) "${getTableName(table)}"`)
  return { ...counts, items: items.reduce((sum, count) => sum + count, 0) }
}
