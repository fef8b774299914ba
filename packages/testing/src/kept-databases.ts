/**
 * Databases that a process gives from one test to the next, emptied in between: a new one costs 0.3 s of CPU, and the
 * tests use hundreds. A database that a test has changed in any other way is given to no other test.
 */

import type { Database } from '@resource-api/database'
import { createEmbedded, startMemory } from '@resource-api/database/embedded'
import { CasingCache } from 'drizzle-orm/casing'
import { PgDialect } from 'drizzle-orm/pg-core'
import { type MigratedState, readMigratedState, resetDatabase, type Statements } from './reset-database.ts'
import { CITUS, createMigrated, type Owner, openDatabase, readDump, SCHEMA, SERVER } from './templates.ts'

interface KeptDatabase {
  /** Its address; undefined if it is embedded. */
  url?: string
  open(options: { acquireTimeout: number }): Promise<Database>
  /** @returns whether the next test can have it */
  reset(): Promise<boolean>
  end(): Promise<unknown>
}

const idle: KeptDatabase[] = []
/** What a new database has; every database that a test gives back is compared with it. */
let migratedState: MigratedState | undefined

let keepsDatabases = false

/**
 * Keeps the databases of tests that have ended for the next ones. Without, each test creates its own.
 * @returns a function that closes those that are kept
 */
export function keepDatabases(): () => Promise<void> {
  const before = keepsDatabases
  keepsDatabases = true
  return async () => {
    keepsDatabases = before
    if (keepsDatabases) return
    for (const database of idle.splice(0)) await database.end()
  }
}

/** Makes Drizzle forget the columns of tables, which it keeps by the names of tables: tests have others of the same name. */
function forgetColumns(database: Database): void {
  const dialect: unknown = Reflect.get(database, 'dialect')
  const casing: unknown = dialect instanceof PgDialect && Reflect.get(dialect, 'casing')
  if (casing instanceof CasingCache) casing.clearCache()
  else throw new Error('Drizzle has no cache of columns where it was')
}

/** Returns a migrated database without rows, for this test alone. */
export async function borrowDatabase(t: Owner): Promise<Pick<KeptDatabase, 'url' | 'open'>> {
  const database = idle.pop() ?? (await (SERVER === undefined ? startEngine() : copyTemplate(SERVER)))
  t.teardown(async () => {
    const isEmpty = keepsDatabases && (await database.reset().catch(() => false))
    if (isEmpty) idle.push(database)
    else await database.end()
  })
  const open: KeptDatabase['open'] = async (options) => {
    const opened = await database.open(options)
    forgetColumns(opened)
    return opened
  }
  return { ...(database.url !== undefined && { url: database.url }), open }
}

async function startEngine(): Promise<KeptDatabase> {
  const engine = await startMemory({ schema: SCHEMA, loadFrom: await readDump() })
  const { pg } = engine
  const statements: Statements = {
    schema: SCHEMA,
    run: async (text, params = []) => (await pg.query<Record<string, unknown>>(text, [...params])).rows,
  }
  migratedState ??= await readMigratedState(statements, true)
  const state = migratedState
  const end = pg.close.bind(pg)
  // A test closes its connection, and the engine stays.
  pg.close = async () => undefined
  return {
    open: async (options) => createEmbedded(engine, SCHEMA, { ...options, onClose: () => undefined }),
    async reset() {
      await pg.exec('discard all')
      const isEmpty = await resetDatabase(statements, state, true)
      // PGlite writes no checkpoint by itself, and keeps the files of truncated tables until the next one.
      if (isEmpty) await pg.exec('checkpoint')
      return isEmpty
    },
    end,
  }
}

async function copyTemplate(server: string): Promise<KeptDatabase> {
  const { url, drop } = await createMigrated(server)
  // A schema on Citus is dropped: its tables have shards.
  if (server === CITUS)
    return { url, open: (options) => openDatabase({ url, ...options }), reset: async () => false, end: drop }
  const work = async <T>(run: (database: Database) => Promise<T>): Promise<T> => {
    const database = await openDatabase({ url, poolSize: 1, statementTimeout: 0 })
    try {
      return await run(database)
    } finally {
      await database.close()
    }
  }
  migratedState ??= await work((database) => readMigratedState(database, false))
  const state = migratedState
  return {
    url,
    open: (options) => openDatabase({ url, lockTimeout: options.acquireTimeout, ...options }),
    reset: () =>
      work(async (database) => {
        await database.run(
          'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
        )
        return resetDatabase(database, state, false)
      }),
    end: drop,
  }
}
