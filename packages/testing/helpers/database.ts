/**
 * A migrated database for each test: a copy of a template on the server at DATABASE_URL, or PGlite in memory.
 * `kept-databases.ts` gives it to the next test.
 */
import '../../../drizzle/index.ts'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createDatabase as createDatabaseOf } from '../../database/src/client/database.ts'
import type { Database } from '../../database/src/client/index.ts'
import { DEFAULT_SCHEMA } from '../../database/src/client/schema.ts'
import { migrate } from '../../database/src/migrate.ts'
import { testDatabase } from '../src/database.ts'
import { borrowDatabase } from '../src/kept-databases.ts'
import {
  getSchema,
  type Owner,
  openDatabase,
  openEmbedded,
  prepareFolder,
  readDump,
  SERVER,
  testFolder,
} from '../src/templates.ts'

export { testDatabase } from '../src/database.ts'
export {
  CITUS,
  createDatabase,
  getSchema,
  type Owner,
  openDatabase,
  SERVER,
  testFolder,
  withSchema,
} from '../src/templates.ts'

/** Opens a migrated embedded database, in memory or in a folder, also if the tests run on a server. */
export async function testEmbedded(t: Owner, dataDir?: string): Promise<Database> {
  if (dataDir) await prepareFolder(dataDir)
  const database = await openEmbedded(dataDir ? { dataDir } : { loadFrom: await readDump() })
  t.teardown(() => database.close())
  return database
}

/** Returns DATABASE_URL or DATA_DIR of a migrated database for a process that the test starts. */
export async function testDatabaseUrl(t: Owner): Promise<{ url?: string; dataDir?: string }> {
  const { url } = SERVER ? await borrowDatabase(t) : {}
  if (url !== undefined) return { url }
  const dataDir = testFolder(t)
  await prepareFolder(dataDir)
  return { dataDir }
}

/** Returns a database whose close does nothing, because closing an app closes its database. */
export const keepOpen = (database: Database): Database =>
  createDatabaseOf({ ...database.$client, close: async () => {} })

export const createSharedDatabase = async (t: Owner): Promise<Database> => keepOpen(await testDatabase(t))

/** The time of the first migration of a folder. */
export const FIRST_TIME = 1_700_000_000_000

/** Creates a folder of these migrations, ten milliseconds apart, and returns its path. */
export function createMigrations(
  t: Owner,
  migrations: Record<string, string>,
  firstTime = FIRST_TIME,
): string {
  const folder = testFolder(t)
  mkdirSync(join(folder, 'meta'))
  const entries = Object.entries(migrations).map(([tag, sql], idx) => {
    writeFileSync(join(folder, `${tag}.sql`), sql)
    return { idx, version: '7', when: firstTime + 10 * idx, tag, breakpoints: true }
  })
  writeFileSync(
    join(folder, 'meta/_journal.json'),
    JSON.stringify({ version: '7', dialect: 'postgresql', entries }),
  )
  return folder
}

/** Runs the statements of drizzle-kit as one migration. */
export async function runMigration(
  t: Owner,
  database: Database,
  statements: readonly string[],
): Promise<void> {
  const folder = createMigrations(t, { '0000_test': statements.join('--> statement-breakpoint\n') })
  await migrate(database, { folders: [folder] })
}

/** Creates a role that may log in, with these rights, and returns its name. It is dropped after the test. */
export async function createRole(t: Owner, owner: Database, ...rights: string[]): Promise<string> {
  const role = `role_${process.pid}_${Date.now()}`
  await owner.run(`create role ${role} login`)
  for (const right of rights) await owner.run(`grant ${right} to ${role}`)
  t.teardown(async () => {
    await owner.run(`drop owned by ${role} cascade`)
    await owner.run(`drop role ${role}`)
  })
  return role
}

/** Statements that create functions which hide the server's own, by the search path. */
const DISGUISE = (primary: string) => [
  'create schema disguise',
  'create table disguise.state (standby bool not null, replayed pg_lsn, identity text not null)',
  `insert into disguise.state values (true, null, '${primary}')`,
  `create function disguise.pg_is_in_recovery() returns bool language sql
    as 'select standby from disguise.state'`,
  `create function disguise.pg_last_wal_replay_lsn() returns pg_lsn language sql
    as 'select coalesce(replayed, pg_current_wal_insert_lsn()) from disguise.state'`,
  `create function disguise.current_database() returns text language sql
    as 'select identity from disguise.state'`,
]

export interface Standby {
  url: string
  /** A connection that may change its rows. */
  database: Database
  /** Stops replaying. */
  freeze(): Promise<void>
  /** Replays everything. */
  thaw(): Promise<void>
  /** Changes a reported property: `standby = false`. */
  set(change: string): Promise<void>
}

/** Why a test with a fake standby cannot run, or false. */
export const skipStandby =
  SERVER && getSchema(undefined) === DEFAULT_SCHEMA
    ? false
    : 'needs a PostgreSQL server: set DATABASE_URL; the fake standby has the default schema'

export async function createFakeStandby(t: Owner, primary: string): Promise<Standby> {
  const { url = '' } = await testDatabaseUrl(t)
  const database = await openDatabase({ url, poolSize: 2, lockTimeout: 0 })
  t.teardown(() => database.close())
  const name = new URL(url).pathname.slice(1)
  for (const text of DISGUISE(new URL(primary).pathname.slice(1))) await database.run(text)
  await database.run(`alter database ${name} set search_path = disguise, pg_catalog, public`)
  const set = async (change: string) => {
    await database.run(`update disguise.state set ${change}`)
  }
  return {
    url,
    database,
    freeze: () => set('replayed = pg_current_wal_insert_lsn()'),
    thaw: () => set('replayed = null'),
    set,
  }
}
