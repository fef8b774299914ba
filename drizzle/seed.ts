/** Demo data: believable, the same for the same seed, written in batches by as many hands as the database has. */
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Migratable, Runner } from './migrate.ts'
import { insert } from './seed/insert.ts'
import { orderOf } from './seed/orders.ts'
import { createPools } from './seed/pools.ts'
import { postOf } from './seed/posts.ts'
import { productOf } from './seed/products.ts'
import { createTimeline } from './seed/timeline.ts'
import { firstEmail, profileOf, userOf } from './seed/users.ts'
import { type Counts, countsOf, type Folding, type World } from './seed/world.ts'
import { orderProducts, orders, posts, products, userProfiles, users } from './tables.ts'

export type { Folding } from './seed/world.ts'

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
  /** Told after each batch how many rows it was; `totalOf` says of how many, more or less. */
  onProgress?: (rows: number) => void
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
/** Sorting new trigrams into their index is the dearest part; the more at once, the cheaper. */
const BULK = "select set_config('gin_pending_list_limit', '65536', true)"

/** How many rows so many users come to: an order's items are three on average. */
export function totalOf(users: number): number {
  const { orders, ...others } = countsOf(users)
  return Object.values(others).reduce((sum, count) => sum + count, orders * (1 + ITEMS))
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
    return Array.from({ length: Math.min(BATCH, count - from) }, (_, j) => from + j)
  })

/** Orders and what leads from them to products, together: nobody sees the one without the other. */
function orderBatches(
  world: World,
  firstNumber: number,
  counted: (batch: number, items: number) => void,
): Batch[] {
  return slices(world.counts.orders).map((indices, batch) => async (tx) => {
    const made = indices().map((index) => orderOf(world, index, firstNumber + index))
    const links = made.flatMap(({ links }) => links)
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

/**
 * Adds demo data to a migrated database.
 * @throws AlreadySeeded where data of this seed is there, whole or in part
 */
export async function seed(database: Migratable & Runner, options: SeedOptions): Promise<Seeded> {
  const { hands, onProgress } = options
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

  const { users: people, posts: written, products: goods, orders: ordered } = counts
  const firstNumber = await takeNumbers(database, ordered)
  // By batch: one that is written again, after a deadlock, counts once.
  const items: number[] = []

  const work = async (queue: Batch[]) => {
    const hand = async () => {
      for (let batch = queue.shift(); batch; batch = queue.shift()) {
        const write = batch
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

  // The first batch of users goes alone: who is found there by `firstEmail` was begun, whatever comes.
  const userBatches = batches(people, users, (i) => [userOf(world, i)])
  await work(userBatches.splice(0, 1))
  await work([...userBatches, ...batches(goods, products, (i) => [productOf(world, i)])])
  await work([
    ...batches(people, userProfiles, (i) => profileOf(world, i)),
    ...batches(written, posts, (i) => [postOf(world, i)]),
    ...orderBatches(world, firstNumber, (batch, count) => {
      items[batch] = count
    }),
  ])
  // Plans depend on what the database knows of its tables, and it would find out only in a while.
  for (const table of ['users', 'user_profiles', 'posts', 'products', 'orders', 'order_products']) {
    await database.run(`vacuum (analyze) ${table}`)
  }
  return { ...counts, items: items.reduce((sum, count) => sum + count, 0) }
}
