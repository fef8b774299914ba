/**
 * Migrated databases to copy: a template on the server at DATABASE_URL, a dump of PGlite, a data folder. Each is created
 * once per set of migrations.
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
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PGlite, type Transaction } from '@electric-sql/pglite'
import { btree_gist } from '@electric-sql/pglite/contrib/btree_gist'
import { pg_trgm } from '@electric-sql/pglite/contrib/pg_trgm'
import { type Database, identity, migrate, openDatabase as openAnyDatabase } from '@resource-api/database'
import { type DatabaseClient, type Queryable, runTransactionBody } from '@resource-api/database/client'
import { openEmbedded as openEmbeddedDatabase } from '@resource-api/database/embedded'
import {
  DEFAULT_SCHEMA,
  getSearchPath,
  listRecordTables,
  loadMigrations,
} from '@resource-api/database/migrations'

/** The part of tap's `t` that helpers use. */
export interface Owner {
  teardown(undo: () => unknown): void
}

/** The address of a database on the coordinator of a Citus cluster, in which each test gets a distributed schema. */
export const CITUS = process.env.CITUS_URL || undefined

/** The address of the PostgreSQL server of the tests; undefined on PGlite. */
export const SERVER = CITUS ?? (process.env.DATABASE_URL || undefined)

/** The schema of the tables in the databases of the tests. */
export const SCHEMA = process.env.DATABASE_SCHEMA || DEFAULT_SCHEMA

/** The parameter of an address by which tests know the schema of their tables. The service only passes it on. */
const SCHEMA_PARAMETER = 'application_name'

/** Returns the schema of a test database. */
export const getSchema = (url: string | undefined): string =>
  (url !== undefined && URL.canParse(url) && new URL(url).searchParams.get(SCHEMA_PARAMETER)) || SCHEMA

/** Adds the setting of the schema to those of a process or a command. */
export const withSchema = (settings: NodeJS.ProcessEnv): NodeJS.ProcessEnv => {
  const schema = getSchema(settings.DATABASE_URL)
  return schema === DEFAULT_SCHEMA ? settings : { DATABASE_SCHEMA: schema, ...settings }
}

/** As the function of the service, with the schema of the tests. */
export const openDatabase: typeof openAnyDatabase = (options) =>
  openAnyDatabase({ schema: getSchema(options.url), ...options })

export const openEmbedded: typeof openEmbeddedDatabase = (options) =>
  openEmbeddedDatabase({ schema: SCHEMA, ...options })

/** In the folder of the application. */
const CACHE = resolve('node_modules/.cache', identity.name)
/** With the default, files of 16 MB, the write-ahead log would be two thirds of the dump that each test loads. */
const INITDB_ARGS = ['--wal-segsize=1']
/** Advisory lock of the test file that creates the template; others wait. */
const LOCK = 1_952_805_748

/** Creates an empty folder, which is removed after the test. */
export function testFolder(t: Owner): string {
  const folder = mkdtempSync(join(tmpdir(), `${identity.name}-`))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export interface CreatedDatabase {
  url: string
  drop(): Promise<unknown>
}

/** Creates a database on `server` as a copy of `template` and returns its address; it is dropped after the test. */
export async function createDatabase(t: Owner, server: string, template = 'template0'): Promise<string> {
  const { url, drop } = await create(server, template)
  t.teardown(drop)
  return url
}

async function create(server: string, template: string): Promise<CreatedDatabase> {
  if (server === CITUS) return nameSchema(server)
  const name = `test_${process.pid}_${randomBytes(4).toString('hex')}`
  await onServer(server, (admin) => admin.run(`create database ${name} template ${template} encoding 'UTF8'`))
  return {
    url: getAddress(server, name),
    drop: () => onServer(server, (admin) => admin.run(`drop database if exists ${name} with (force)`)),
  }
}

/** Returns the address of a schema that does not exist yet. */
function nameSchema(server: string): CreatedDatabase {
  const url = new URL(server)
  const schema = `test_${process.pid}_${randomBytes(4).toString('hex')}`
  url.searchParams.set(SCHEMA_PARAMETER, schema)
  const drop = () => onServer(server, (admin) => admin.run(`drop schema if exists ${schema} cascade`))
  return { url: url.href, drop }
}

/** Creates a migrated database on a server. */
export async function createMigrated(server: string): Promise<CreatedDatabase> {
  if (server === CITUS) {
    const created = nameSchema(server)
    await onServer(created.url, migrate)
    return created
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
  return create(server, name)
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
  if (SCHEMA !== DEFAULT_SCHEMA) url.searchParams.set(SCHEMA_PARAMETER, SCHEMA)
  return url.href
}

/** Copies a migrated database into a folder, unless it has one. */
export async function prepareFolder(dataDir: string): Promise<void> {
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
export function readDump(): Promise<File> {
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

/** Returns a hash of what determines the dump: the migrations, their records, the PGlite version and the arguments of initdb. */
function getFingerprint(): string {
  if (known) return known
  const hash = createHash('sha256')
  for (const { tag, hash: contents } of loadMigrations({})) hash.update(tag).update(contents)
  hash.update(readFileSync(fileURLToPath(import.meta.resolve('@electric-sql/pglite'))))
  hash.update(INITDB_ARGS.join()).update(SCHEMA).update(listRecordTables(SCHEMA).join())
  known = hash.digest('hex').slice(0, 16)
  return known
}
