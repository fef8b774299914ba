/**
 * A migrated database for each test file, within a second, so that files can run in parallel: a clone of
 * a template on the server at DATABASE_URL, or PGlite in memory, loaded from a dump created once per set of migrations.
 */

import { createHash, randomBytes } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PGlite, type Transaction } from '@electric-sql/pglite'
import { btree_gist } from '@electric-sql/pglite/contrib/btree_gist'
import { pg_trgm } from '@electric-sql/pglite/contrib/pg_trgm'
import { createDatabase as createDatabaseOf } from '../../drizzle/client/database.ts'
import { openEmbedded as openEmbeddedDatabase } from '../../drizzle/client/embedded/embedded.ts'
import {
  type Database,
  type DatabaseClient,
  openDatabase as openAnyDatabase,
  type Queryable,
} from '../../drizzle/client/index.ts'
import { DEFAULT_SCHEMA, getSearchPath } from '../../drizzle/client/schema.ts'
import { runTransactionBody } from '../../drizzle/client/transaction.ts'
import { migrate } from '../../drizzle/migrate.ts'
import { loadMigrations } from '../../drizzle/migration-files.ts'

/** The part of tap's `t` that helpers use. */
export interface Owner {
  teardown(undo: () => unknown): void
}

/** The address of a database on the coordinator of a Citus cluster, in which each test gets a distributed schema. */
export const CITUS = process.env.CITUS_URL || undefined

/** The address of the PostgreSQL server of the tests; undefined on PGlite. */
export const SERVER = CITUS ?? (process.env.DATABASE_URL || undefined)

/** The schema of the tables in the databases of the tests. */
const SCHEMA = process.env.DATABASE_SCHEMA || DEFAULT_SCHEMA

/** Returns the schema of a test database: the parameter `schema` of its address, which the service ignores. */
export const getSchema = (url: string | undefined): string =>
  (url !== undefined && URL.canParse(url) && new URL(url).searchParams.get('schema')) || SCHEMA

/** Adds the setting of the schema to those of a process or a command. */
export const withSchema = (settings: NodeJS.ProcessEnv): NodeJS.ProcessEnv => {
  const schema = getSchema(settings.DATABASE_URL)
  return schema === DEFAULT_SCHEMA ? settings : { DATABASE_SCHEMA: schema, ...settings }
}

/** As the function of the service, with the schema of the tests. */
export const openDatabase: typeof openAnyDatabase = (options) =>
  openAnyDatabase({ schema: getSchema(options.url), ...options })

const openEmbedded: typeof openEmbeddedDatabase = (options) =>
  openEmbeddedDatabase({ schema: SCHEMA, ...options })

const root = fileURLToPath(new URL('../..', import.meta.url))
const CACHE = join(root, 'node_modules/.cache/resource-api')
/** With the default, files of 16 MB, the write-ahead log would be two thirds of the dump that each test loads. */
const INITDB_ARGS = ['--wal-segsize=1']
/** Advisory lock of the test file that creates the template; others wait. */
const LOCK = 1_952_805_748

/** Statements of a test are not refused because the machine is busy. */
const ACQUIRE_TIMEOUT_MS = 60_000
const LOCK_TIMEOUT_MS = 60_000

/** Opens a migrated database, which is closed and removed after the test. */
export async function testDatabase(t: Owner, acquireTimeout = ACQUIRE_TIMEOUT_MS): Promise<Database> {
  const url = SERVER && (await cloneTemplate(t, SERVER))
  const database = url
    ? await openDatabase({ url, acquireTimeout, lockTimeout: LOCK_TIMEOUT_MS })
    : await openEmbedded({ loadFrom: await readDump(), acquireTimeout })
  t.teardown(() => database.close())
  return database
}

/** Opens a migrated embedded database, in memory or in a folder, also if the tests run on a server. */
export async function testEmbedded(t: Owner, dataDir?: string): Promise<Database> {
  if (dataDir) await prepareFolder(dataDir)
  const database = await openEmbedded(dataDir ? { dataDir } : { loadFrom: await readDump() })
  t.teardown(() => database.close())
  return database
}

/** Returns DATABASE_URL or DATA_DIR of a migrated database for a process that the test starts. */
export async function testDatabaseUrl(t: Owner): Promise<{ url?: string; dataDir?: string }> {
  if (SERVER) return { url: await cloneTemplate(t, SERVER) }
  const dataDir = testFolder(t)
  await prepareFolder(dataDir)
  return { dataDir }
}

/** Creates an empty folder, which is removed after the test. */
export function testFolder(t: Owner): string {
  const folder = mkdtempSync(join(tmpdir(), 'resource-api-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Creates a database on `server` as a copy of `template` and returns its address; it is dropped after the test. */
export async function createDatabase(t: Owner, server: string, template = 'template0'): Promise<string> {
  if (server === CITUS) return nameSchema(t, server)
  const name = `test_${process.pid}_${randomBytes(4).toString('hex')}`
  await onServer(server, (admin) => admin.run(`create database ${name} template ${template} encoding 'UTF8'`))
  t.teardown(() => onServer(server, (admin) => admin.run(`drop database if exists ${name} with (force)`)))
  return getAddress(server, name)
}

/** Returns the address of a schema that does not exist yet; it is dropped after the test. */
function nameSchema(t: Owner, server: string): string {
  const url = new URL(server)
  const schema = `test_${process.pid}_${randomBytes(4).toString('hex')}`
  url.searchParams.set('schema', schema)
  t.teardown(() => onServer(server, (admin) => admin.run(`drop schema if exists ${schema} cascade`)))
  return url.href
}

async function cloneTemplate(t: Owner, server: string): Promise<string> {
  if (server === CITUS) {
    const url = nameSchema(t, server)
    await onServer(url, migrate)
    return url
  }
  // Kept between runs, a few megabytes per set of migrations. To remove one, set `is_template false` and drop it.
  const name = `template_${getFingerprint()}`
  await onServer(server, async (admin) => {
    const isMade = async () =>
      (await admin.run('select 1 from pg_database where datname = $1 and datistemplate', [name])).length > 0
    if (await isMade()) return
    await admin.run('select pg_advisory_lock($1)', [LOCK])
    if (await isMade()) return
    await admin.run(`drop database if exists ${name} with (force)`)
    await admin.run(`create database ${name} template template0 encoding 'UTF8'`)
    await onServer(getAddress(server, name), migrate)
    // A template that has connections cannot be copied.
    await admin.run(`alter database ${name} with is_template true allow_connections false`)
  })
  return createDatabase(t, server, name)
}

/** Runs `work` on one connection, so that its advisory lock lasts until the end, without a timeout. */
async function onServer<T>(url: string, work: (admin: Database) => Promise<T>): Promise<T> {
  const admin = await openDatabase({ url, poolSize: 1, statementTimeout: 0 })
  try {
    return await work(admin)
  } finally {
    await admin.close()
  }
}

function getAddress(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = name
  if (SCHEMA !== DEFAULT_SCHEMA) url.searchParams.set('schema', SCHEMA)
  return url.href
}

/** Copies a migrated database into a folder, unless it has one. */
async function prepareFolder(dataDir: string): Promise<void> {
  const kept = join(CACHE, `folder-${getFingerprint()}`)
  if (!existsSync(kept)) {
    const draft = `${kept}.${process.pid}`
    const database = await openEmbedded({ dataDir: draft, loadFrom: await readDump() })
    await database.close()
    try {
      renameSync(draft, kept)
    } catch {
      // Another process created it first.
      rmSync(draft, { recursive: true, force: true })
    }
  }
  if (!existsSync(join(dataDir, 'postgres'))) cpSync(kept, dataDir, { recursive: true })
}

let dump: Promise<File> | undefined

/** Returns the dump, which is read once per process. */
function readDump(): Promise<File> {
  dump ??= readOrMakeDump()
  return dump
}

async function readOrMakeDump(): Promise<File> {
  const file = join(CACHE, `pglite-${getFingerprint()}.tar`)
  try {
    return new File([readFileSync(file)], 'dump.tar')
  } catch {
    const made = await makeDump()
    mkdirSync(CACHE, { recursive: true })
    // Concurrent processes each write a file of their own; the last rename wins.
    const draft = `${file}.${process.pid}`
    writeFileSync(draft, Buffer.from(await made.arrayBuffer()))
    renameSync(draft, file)
    return new File([made], 'dump.tar')
  }
}

async function makeDump(): Promise<Blob> {
  const pg = await PGlite.create({ extensions: { pg_trgm, btree_gist }, initDbStartParams: INITDB_ARGS })
  const searchPath = getSearchPath(SCHEMA)
  if (searchPath !== undefined) await pg.exec(`set search_path = ${searchPath}`)
  const runner = (on: PGlite | Transaction): Queryable => ({
    run: async (text, params = []) => (await on.query<Record<string, unknown>>(text, [...params])).rows,
  })
  const transaction: DatabaseClient['transaction'] = (work) =>
    pg.transaction((tx) => runTransactionBody(runner(tx).run, work))
  await migrate({ ...runner(pg), transaction, schema: SCHEMA })
  // Tests need neither of these, and they are two thirds of the files that each test would load.
  for (const template of ['template0', 'template1']) {
    await pg.query('update pg_database set datistemplate = false where datname = $1', [template])
    await pg.exec(`drop database ${template}`)
  }
  await pg.exec('checkpoint')
  const made = await pg.dumpDataDir('none')
  await pg.close()
  return made
}

let known: string | undefined

/** Returns a hash of what determines the dump: the migrations, the PGlite version and the arguments of initdb. */
function getFingerprint(): string {
  if (known) return known
  const hash = createHash('sha256')
  for (const { tag, hash: contents } of loadMigrations({})) hash.update(tag).update(contents)
  hash.update(readFileSync(join(root, 'node_modules/@electric-sql/pglite/package.json')))
  hash.update(INITDB_ARGS.join()).update(SCHEMA)
  known = hash.digest('hex').slice(0, 16)
  return known
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
  const database = await openDatabase({ url, poolSize: 2 })
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
