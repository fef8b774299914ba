/** Creates the first admin and fills a database with rows, as `npm run bench:seed` does. */
import '../../drizzle/index.ts'
import { createFirstAdmin } from '@resource-api/accounts'
import { withDatabase } from '@resource-api/cli'
import type { Config } from '@resource-api/http/config'
import { seedDatabase } from './seed-database.ts'
import type { SeedContext } from './step.ts'

/** Batches written concurrently; with more, PostgreSQL only waits for its own locks. */
const MAX_CONCURRENCY = 4
/** The number of users from which all rows are written in one transaction. Fewer take a minute or two either way. */
const MIN_BULK_USERS = 20_000

/** @returns a sentence with the numbers of rows */
export const runSeed = (config: Config, context: SeedContext): Promise<string> =>
  withDatabase(config, async (database) => {
    // The server creates it only in an empty database.
    await createFirstAdmin(config, database)
    const startedAt = performance.now()
    const isServer = database.kind === 'server'
    const added = await seedDatabase(database, {
      ...context,
      concurrency: isServer ? Math.min(MAX_CONCURRENCY, config.POOL_SIZE) : 1,
      bulk: isServer && context.users >= MIN_BULK_USERS,
    })
    const seconds = (performance.now() - startedAt) / 1000
    const rows = Object.values(added).reduce((sum, count) => sum + count, 0)
    const amounts = Object.entries(added).map(([label, count]) => `${count.toLocaleString('en')} ${label}`)
    const rate = Math.round(rows / seconds).toLocaleString('en')
    return `Added ${amounts.join(', ')}: ${rows.toLocaleString('en')} rows in ${seconds.toFixed(1)} s, ${rate} a second`
  })
