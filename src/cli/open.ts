/** Opens the configured database for a command, without the short timeouts that the server needs for its clients. */
import { type Database, openDatabase } from '../../drizzle/client/index.ts'
import { migrate } from '../../drizzle/migrate.ts'
import type { Config } from '../config.ts'

/** The time to wait for a connection. A command shares its connections with no client; it waits only for its own work. */
const CONNECTION_WAIT_MS = 3_600_000

/** Opens the database, applies pending migrations, runs `work` and closes the database. @throws as `withOpenDatabase` */
export const withDatabase = <T>(
  config: Config,
  work: (database: Database, applied: readonly string[]) => Promise<T>,
): Promise<T> => withOpenDatabase(config, async (database) => work(database, await migrate(database)))

/**
 * Opens the database as it is, runs `work` and closes the database.
 * @throws FolderInUse if another process has the embedded database open
 */
export async function withOpenDatabase<T>(
  config: Config,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const { DATABASE_URL: url, DATABASE_SCHEMA: schema, POOL_SIZE: poolSize, DATA_DIR: dataDir } = config
  const database = await openDatabase({
    url,
    schema,
    poolSize,
    dataDir,
    statementTimeout: 0,
    acquireTimeout: CONNECTION_WAIT_MS,
  })
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}
