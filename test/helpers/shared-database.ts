/** A database that several apps of a test file share. */
import { createDatabase } from '../../drizzle/client/database.ts'
import type { Database } from '../../drizzle/client/index.ts'
import { type Owner, testDatabase } from './database.ts'

/** Returns a database whose close does nothing, because closing an app closes its database. */
export const keepOpen = (database: Database): Database =>
  createDatabase({ ...database.$client, close: async () => {} })

export const createSharedDatabase = async (t: Owner): Promise<Database> => keepOpen(await testDatabase(t))
