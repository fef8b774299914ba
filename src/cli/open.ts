/** The database of the settings for a command's own use: no statement of it is cut short, nobody else waits for it. */

import { type Database, openDatabase } from '../../drizzle/client/index.ts'
import { migrate } from '../../drizzle/migrate.ts'
import type { Config } from '../config.ts'

/** Long beyond any batch: a command is alone on its connections, and waits for its own work. */
const HOUR = 3_600_000

/**
 * Opens the database, brings it to the tables of this build and closes it after `work`.
 * @throws FolderInUse where a server has the embedded one
 */
export async function withDatabase<T>(
  config: Config,
  work: (database: Database, applied: readonly string[]) => Promise<T>,
): Promise<T> {
  const { DATABASE_URL: url, POOL_SIZE: poolSize, DATA_DIR: dataDir } = config
  const database = await openDatabase({ url, poolSize, dataDir, statementTimeout: 0, acquireTimeout: HOUR })
  try {
    return await work(database, await migrate(database))
  } finally {
    await database.close()
  }
}
