/** A migrated database for each test, which `kept-databases.ts` gives to the next one. */
import type { Database } from '@resource-api/database'
import { borrowDatabase } from './kept-databases.ts'
import type { Owner } from './templates.ts'

/** Statements of a test are not refused because the machine is busy. */
const ACQUIRE_TIMEOUT_MS = 60_000

/** Opens a migrated database without rows, which is closed after the test. */
export async function testDatabase(t: Owner, acquireTimeout = ACQUIRE_TIMEOUT_MS): Promise<Database> {
  const { open } = await borrowDatabase(t)
  const database = await open({ acquireTimeout })
  t.teardown(() => database.close())
  return database
}
