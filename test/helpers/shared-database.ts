/** One database for several apps of a test file: what takes the time is made once. */
import type { Database } from '../../drizzle/client/index.ts'
import { type Owner, testDatabase } from './database.ts'

/** A database that outlives the apps over it, since closing an app closes what it was handed. */
export const keepOpen = (database: Database): Database => ({ ...database, close: async () => {} })

export const createSharedDatabase = async (t: Owner): Promise<Database> => keepOpen(await testDatabase(t))
