/** One database for several apps of a test file: what takes the time is made once. */
import type { Database } from '../../drizzle/client/index.ts'
import { type Owner, testDatabase } from './database.ts'

/** A database that outlives the apps over it, since closing an app closes what it was handed. */
export const keptOpen = (database: Database): Database => ({ ...database, close: async () => {} })

export const sharedDatabase = async (t: Owner): Promise<Database> => keptOpen(await testDatabase(t))
