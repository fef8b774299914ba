/** `seed`: fills the registered collections with demo data. */
import { Command, InvalidArgumentError } from '@commander-js/extra-typings'
import { type Database, users as usersTable } from '@resource-api/database'
import { jsonOption, printResult, wholeNumber, withDatabase } from '@resource-api/http/commands'
import { type Config, readConfig } from '@resource-api/http/config'
import type { ResourcePlugin } from '@resource-api/resources'
import { createFirstAdmin } from '../first-admin.ts'
import { seedDatabase } from '../seed/seed-database.ts'

const MAX_USERS = 10_000_000
const MAX_SEED = 999_999
/** Batches written concurrently; with more, PostgreSQL only waits for its own locks. */
const MAX_CONCURRENCY = 4
/** The number of users from which all rows are written in one transaction. Fewer take a minute or two either way. */
const MIN_BULK_USERS = 20_000

/** Reads the date before which all rows are dated, as epoch milliseconds. */
function readDate(text: string): number {
  const date = /^\d{4}-\d\d-\d\d$/.test(text) ? new Date(text) : undefined
  if (date && date.getTime() >= 0 && date.toISOString().startsWith(text)) return date.getTime()
  throw new InvalidArgumentError('It must be a date such as 2026-11-21.')
}

/** Returns the start of the day, so that all runs of a day write the same data. */
const getToday = () => readDate(new Date().toISOString().slice(0, 10))

/** Creates the first admin before the demo data, because the server does so only in an empty database. */
async function ensureFirstAdmin(config: Config, database: Database): Promise<void> {
  await createFirstAdmin(config, database)
  const [user] = await database.select({ id: usersTable.id }).from(usersTable).limit(1)
  if (user) return
  throw new Error(
    'There is no admin yet, and none can be created after the demo data: set ADMIN_PASSWORD or ADMIN_API_KEY',
  )
}

const formatCount = (count: number, what: string) => `${count.toLocaleString('en')} ${what}`

interface Options {
  users: number
  seed: number
  until?: number
  json?: true
}

interface DemoSource {
  /** The folder with the demo rows of the resources: a file for each, with the export `demoRows`. */
  folder: URL
  loadResources(): Promise<readonly ResourcePlugin[]>
}

async function run(
  { folder, loadResources }: DemoSource,
  { users, seed: seedNumber, until = getToday(), json }: Options,
): Promise<void> {
  const config = readConfig()
  const resources = await loadResources()
  await withDatabase(config, async (database) => {
    await ensureFirstAdmin(config, database)
    const startedAt = performance.now()
    const isServer = database.kind === 'server'
    const added = await seedDatabase(database, {
      users,
      seed: seedNumber,
      until,
      folder,
      definitions: resources.map(({ collection }) => collection),
      concurrency: isServer ? Math.min(MAX_CONCURRENCY, config.POOL_SIZE) : 1,
      bulk: isServer && users >= MIN_BULK_USERS,
    })
    const seconds = (performance.now() - startedAt) / 1000
    const rows = Object.values(added).reduce((sum, count) => sum + count, 0)
    const amounts = Object.entries(added).map(([label, count]) => formatCount(count, label))
    const rate = formatCount(Math.round(rows / seconds), 'a second')
    printResult(
      json,
      { added, seconds },
      `Added ${amounts.join(', ')}: ${formatCount(rows, 'rows')} in ${seconds.toFixed(1)} s, ${rate}`,
    )
  })
}

export const createSeedCommand = (application: DemoSource) =>
  new Command('seed')
    .description('Fill the database with demo data')
    .option(
      '--users <n>',
      `The number of users, up to ${MAX_USERS.toLocaleString('en')}`,
      wholeNumber(1, MAX_USERS),
      1000,
    )
    .option('--seed <n>', 'The seed of the random numbers', wholeNumber(0, MAX_SEED), 42)
    .option('--until <date>', 'The day before which all rows are dated (default: today, UTC)', readDate)
    .addOption(jsonOption)
    .addHelpText(
      'after',
      `
How many rows the other collections get follows from --users. All rows are dated within the two years before
--until. The same --seed, --users and --until create the same data, except that numbers of a sequence continue after
the existing ones. If the database already contains data of a seed, that seed adds nothing;
another --seed adds more. The demo users have no passwords, and none is an admin. If the database has no user yet,
the first admin is created as the server would do it.

Writes to DATABASE_URL, or without it to the embedded database in DATA_DIR; servers may run at the same time.
From ${formatCount(MIN_BULK_USERS, 'users')} on, empty tables of a PostgreSQL server are filled in one transaction, and the
indexes are created afterwards: requests to running servers wait for its end or are answered with 503. Such a run
first locks the tables, and fails with 55P03 if it has to wait 10 s for them. If it is stopped, none of its rows remain.`,
    )
    .action((options) => run(application, options))
