/** Applies drizzle-kit's migrations: in order, each once, by one process at a time. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import { queryRows } from './client/query-rows.ts'
import { DEFAULT_SCHEMA, getSearchPath } from './client/schema.ts'
import type { Connection, Database } from './client/types.ts'

interface MigrateOptions {
  /** A folder of drizzle-kit; by default the one of this package. */
  folder?: string
  /** Leaves out the migrations that were not created at one of these times (epoch milliseconds). */
  only?: ReadonlySet<number>
}

type MigratedDatabase = Pick<Database, 'run' | 'transaction' | 'schema'>

interface Migration {
  /** The name of its file. */
  tag: string
  hash: string
  /** Epoch milliseconds of its creation, by which drizzle-kit identifies an applied migration. */
  createdAt: number
  statements: string[]
}

/** Its sequence has a name that begins with that of the table. */
export const RECORD_TABLE = '__drizzle_migrations'

/** Returns the name of the table of drizzle-kit, so that its tools know the applied migrations too. */
export const getRecordTable = (schema: string): string =>
  schema === DEFAULT_SCHEMA ? `drizzle.${RECORD_TABLE}` : `"${schema}".${RECORD_TABLE}`

/** The key of the advisory lock, within one database. No other code uses it. */
const ADVISORY_LOCK_KEY = 1_835_624_306
/** Without a timeout: creating an index on a large table takes long, and so does waiting for a process that does so. */
const NO_TIMEOUT = { statementTimeout: 0 }

/**
 * Applies the missing migrations, each in a transaction of its own. Processes that start together wait for each other.
 * `create index concurrently` cannot be in a migration, because it cannot run in a transaction.
 * @returns the names of the migrations that this call applied
 * @throws Error with the name of the migration that failed. It is rolled back; those before it stay applied.
 */
export async function migrate(database: MigratedDatabase, options: MigrateOptions = {}): Promise<string[]> {
  const applied: string[] = []
  // If none is missing, nothing is changed: the server may run as a role that owns no table.
  if ((await countPendingMigrations(database, options)) === 0) return applied
  const { schema } = database
  await lockMigrations(database, (tx) => prepareSchema(tx, schema))
  for (const migration of loadMigrations(options)) {
    try {
      if (await lockMigrations(database, (tx) => apply(tx, schema, migration))) applied.push(migration.tag)
    } catch (cause) {
      throw new Error(
        `Migration ${migration.tag} failed and was rolled back; the migrations before it stay applied`,
        {
          cause,
        },
      )
    }
  }
  return applied
}

/**
 * Returns how many migrations of this release the database lacks. Further migrations in the database do not matter:
 * during a rollout the old release runs on the newer tables, and migrations are written so that it can.
 */
export async function countPendingMigrations(
  database: Pick<Database, 'run' | 'schema'>,
  options: MigrateOptions = {},
): Promise<number> {
  const applied = new Set(await readAppliedMigrations(database, database.schema))
  return loadMigrations(options).filter(({ createdAt }) => !applied.has(createdAt)).length
}

/** Returns the creation times of the migrations that were applied to the database, in epoch milliseconds, ascending. */
export async function readAppliedMigrations(database: Connection, schema: string): Promise<number[]> {
  const recordTable = getRecordTable(schema)
  const [table] = await queryRows<{ exists: boolean }>(
    database,
    `select to_regclass('${recordTable}') is not null as "exists"`,
  )
  if (!table?.exists) return []
  const rows = await queryRows<{ created_at: number }>(
    database,
    `select created_at from ${recordTable} order by created_at`,
  )
  return rows.map((row) => row.created_at)
}

/** Returns the creation times of this release's migrations, in epoch milliseconds, in their order. */
export const getMigrationTimes = (): number[] => loadMigrations({}).map(({ createdAt }) => createdAt)

/** Runs `work` in a transaction that holds the lock of all processes that migrate this database. */
function lockMigrations<T>(
  database: Pick<Database, 'transaction'>,
  work: (tx: Connection) => Promise<T>,
): Promise<T> {
  return database.transaction(async (tx) => {
    await tx.run('select pg_advisory_xact_lock($1)', [ADVISORY_LOCK_KEY])
    return work(tx)
  }, NO_TIMEOUT)
}

/** Creates the schema, the extension and the table of applied migrations, unless they exist. */
async function prepareSchema(tx: Connection, schema: string): Promise<void> {
  const recordSchema = schema === DEFAULT_SCHEMA ? 'drizzle' : `"${schema}"`
  // `if not exists` needs the privilege to create a schema, even if there is one.
  const [existing] = await tx.run('select to_regnamespace($1) as schema', [recordSchema])
  if (existing?.schema === null) await tx.run(`create schema ${recordSchema}`)
  // Not in the schema of one service: the others of the database use it too, and it would be dropped with the schema.
  if (schema !== DEFAULT_SCHEMA) await tx.run('create extension if not exists pg_trgm with schema public')
  await tx.run(
    `create table if not exists ${getRecordTable(schema)} (id serial primary key, hash text not null, created_at bigint)`,
  )
}

/** Adds the schema of the extension to the search path: migrations create indexes with its operator classes. */
const SET_SEARCH_PATH = `select set_config('search_path', $1 || ', ' || quote_ident(n.nspname), true)
  from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_trgm'`

/** @returns whether it was applied now; false if another process has applied it */
async function apply(
  tx: Connection,
  schema: string,
  { createdAt, hash, statements }: Migration,
): Promise<boolean> {
  const recordTable = getRecordTable(schema)
  const applied = await tx.run(`select id from ${recordTable} where created_at = $1`, [createdAt])
  if (applied.length > 0) return false
  const searchPath = getSearchPath(schema)
  if (searchPath !== undefined) await tx.run(SET_SEARCH_PATH, [searchPath])
  for (const statement of statements) await tx.run(statement)
  await tx.run(`insert into ${recordTable} (hash, created_at) values ($1, $2)`, [hash, createdAt])
  return true
}

function loadMigrations({ folder = getPackagedFolder(), only }: MigrateOptions): Migration[] {
  const journal: { entries: { tag: string }[] } = JSON.parse(
    readFileSync(join(folder, 'meta/_journal.json'), 'utf8'),
  )
  // Drizzle returns the migrations in the order of the journal, without their names.
  const migrations = readMigrationFiles({ migrationsFolder: folder }).map(
    ({ sql, hash, folderMillis }, index) => ({
      tag: journal.entries[index]?.tag ?? String(index),
      hash,
      createdAt: folderMillis,
      // drizzle-kit writes the default schema before the tables of foreign keys.
      statements: sql
        .filter((statement) => statement.trim() !== '')
        .map((statement) => statement.replaceAll(`"${DEFAULT_SCHEMA}".`, '')),
    }),
  )
  return only ? migrations.filter(({ createdAt }) => only.has(createdAt)) : migrations
}

/** Found through `imports` of package.json, which works both for the sources and for `dist`. */
function getPackagedFolder(): string {
  return fileURLToPath(new URL('..', import.meta.resolve('#migrations/meta/_journal.json')))
}
