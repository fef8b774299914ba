/** `seed`: demo data in all five collections. */

import type { Database } from '../../drizzle/client/index.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import { buildSearchText } from '../../plugins/collection/sql/case-folding.ts'
import { ordersResource } from '../../plugins/resources/orders.ts'
import { postsResource } from '../../plugins/resources/posts.ts'
import { productsResource } from '../../plugins/resources/products.ts'
import { userProfilesResource } from '../../plugins/resources/user-profiles.ts'
import { usersResource } from '../../plugins/resources/users.ts'
import { type Config, readConfig } from '../config.ts'
import { firstAdmin } from '../first-admin.ts'
import { type Command, UsageError, type Values, wholeNumber } from './command.ts'
import { type Folding, seed as sow, totalOf } from './demo-data/index.ts'
import { withDatabase } from './open.ts'
import { createProgress, type Progress } from './progress.ts'

const MOST_USERS = 10_000_000
const MOST_SEEDS = 999_999
/** Batches at once: beyond that, PostgreSQL only waits for its own locks. */
const HANDS = 4
/** Users from which all goes into one transaction: below, it takes a minute or two either way. */
const MANY_USERS = 20_000

const found =
  ({ search }: ResourceDefinition) =>
  (row: Readonly<Record<string, unknown>>) =>
    buildSearchText(row, search)

/** What the server writes into the column that search looks at. */
export const folding: Folding = {
  users: found(usersResource),
  profiles: found(userProfilesResource),
  posts: found(postsResource),
  products: found(productsResource),
  orders: found(ordersResource),
}

/** The last moment of the data: the beginning of that day, so that a day's runs make the same. */
function untilOf({ until = new Date().toISOString().slice(0, 10) }: Values): number {
  const moment = /^\d{4}-\d\d-\d\d$/.test(until) ? new Date(until) : undefined
  if (moment && moment.getTime() >= 0 && moment.toISOString().startsWith(until)) return moment.getTime()
  throw new UsageError(`--until must be a date such as 2026-11-21, not '${until}'`)
}

/** Where there is a user, the server makes no first admin any more: it must come before the demo data. */
async function adminFirst(config: Config, database: Database): Promise<void> {
  await firstAdmin(config, database)
  const [somebody] = await database.run('select 1 from users limit 1')
  if (somebody) return
  throw new Error('There is no admin yet, and none can be made later: set ADMIN_PASSWORD or ADMIN_API_KEY')
}

const say = (count: number, what: string) => `${count.toLocaleString('en')} ${what}`

async function run(values: Values): Promise<void> {
  const users = wholeNumber(values, 'users', 1, MOST_USERS)
  const seed = wholeNumber(values, 'seed', 0, MOST_SEEDS)
  const until = untilOf(values)
  const config = readConfig()
  await withDatabase(config, async (database) => {
    await adminFirst(config, database)
    const began = performance.now()
    const rowBar = createProgress('rows', totalOf(users))
    let indexBar: Progress | undefined
    const hands = database.kind === 'server' ? Math.min(HANDS, config.POOL_SIZE) : 1
    const made = await sow(database, {
      users,
      seed,
      until,
      hands,
      bulk: database.kind === 'server' && users >= MANY_USERS,
      search: folding,
      onProgress: rowBar.add,
      onIndex(all) {
        if (!indexBar) rowBar.stop()
        indexBar ??= createProgress('indexes and foreign keys', all)
        indexBar.add(1)
      },
    }).finally(() => (indexBar ?? rowBar).stop())
    const seconds = (performance.now() - began) / 1000
    const rows = Object.values(made).reduce((sum, count) => sum + count, 0)
    console.log(
      `Added ${say(made.users, 'users')}, ${say(made.profiles, 'profiles')}, ${say(made.posts, 'posts')}, ${say(
        made.products,
        'products',
      )} and ${say(made.orders, 'orders')} with ${say(made.items, 'items')}: ${say(rows, 'rows')} in ${seconds.toFixed(
        1,
      )} s, ${say(Math.round(rows / seconds), 'a second')}`,
    )
  })
}

export const seed: Command = {
  summary: 'Fill the database with demo data',
  details: `For each user there are two products, five orders with three items each, a post, and a profile for seven in
ten, spread over the two years before --until. The same --seed and --users make the same data, save that
the numbers of orders go on from those that are there. A seed grows once: where the database holds its data
already, nothing is added; another --seed adds more, beside whatever is there. Nobody of the demo data has
a password or is an admin; where there is no user yet, the first admin is made as the server would.

It writes to DATABASE_URL, also beside running servers; without it, to the embedded database in DATA_DIR,
which no server may have open meanwhile. From ${say(MANY_USERS, 'users')} on, into a server's empty tables, it is all
one transaction, and the indexes are made afterwards: a running server waits for its end, and answers 503 meanwhile.
It locks the tables first, and gives up where others hold them for 10 s (55P03). Where such a seed is stopped,
nothing of it remains.`,
  options: {
    users: { value: 'n', help: `How many users, up to ${say(MOST_USERS, '')}`.trim(), default: '1000' },
    seed: { value: 'n', help: 'The number that chance begins with', default: '42' },
    until: { value: 'date', help: 'The day before which all of it was made (default: today, UTC)' },
  },
  run,
}
