/** Applies drizzle-kit's migrations: in order, each once, by one process at a time. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isLockTimeout, SqlError } from './client/errors.ts'
import { DEFAULT_SCHEMA, getSearchPath } from './client/schema.ts'
import type { DatabaseClient, Queryable } from './client/types.ts'
import { identity } from './identity.ts'
import {
  CREATE_CONCURRENTLY,
  loadMigrations,
  type Migration,
  type MigrationFilter,
} from './migration-files.ts'
import { createRecordTables, getRecordTable, readRecord } from './migration-records.ts'

interface MigrateOptions extends MigrationFilter {
  /** Milliseconds that each migration waits for locks: of its tables, and of another process that migrates. */
  lockWaitMs?: number
}

type MigratedDatabase = Pick<DatabaseClient, 'run' | 'transaction' | 'schema' | 'runAlone'>

/** The key of the advisory lock, within one database. No other code uses it. */
const ADVISORY_LOCK_KEY = 1_835_624_306
const DEFAULT_LOCK_WAIT_MS = 600_000
/**
 * The time that one transaction waits for the locks of all its tables. Requests queue behind a lock that is waited for.
 * After 1.5 s, admission control of a service with 30 clients refused requests at times; after 3 s, 22 of 1,400 got no
 * connection within 2 s.
 */
const LOCK_TIMEOUT_MS = 500
/** For a lock after that time, such as behind a long UPDATE of the same migration. */
const MIN_LOCK_TIMEOUT_MS = 100
/** The pause after `lock_timeout`, in which requests run; it doubles up to the longest one. */
const FIRST_PAUSE_MS = 1_000
const MAX_PAUSE_MS = 15_000
/** The interval at which a process asks whether another one has finished its migration. */
const POLL_INTERVAL_MS = 100

/**
 * Applies the missing migrations, each in a transaction of its own, or, if it consists of `create index concurrently`,
 * statement by statement without one. Processes that start together wait for each other.
 * @returns the names of the migrations that this call applied
 * @throws Error with the name of the migration that failed, and the reason. It is rolled back; those before it stay applied.
 */
export async function migrate(database: MigratedDatabase, options: MigrateOptions = {}): Promise<string[]> {
  const applied: string[] = []
  // If none is missing, nothing is changed: the server may run as a role that owns no table.
  if ((await countPendingMigrations(database, options)) === 0) return applied
  const { lockWaitMs = DEFAULT_LOCK_WAIT_MS } = options
  await lockMigrations(database, lockWaitMs, (tx) => prepareSchema(tx, database.schema))
  for (const migration of loadMigrations(options)) {
    try {
      if (await lockMigrations(database, lockWaitMs, (tx) => apply(tx, database, migration)))
        applied.push(migration.tag)
    } catch (cause) {
      const outcome = migration.isConcurrent ? '' : ' and was rolled back'
      throw new Error(
        `Migration ${migration.tag} failed${outcome}: ${getReason(cause)}; the migrations before it stay applied`,
        { cause },
      )
    }
  }
  return applied
}

/** Returns the message of PostgreSQL, which names a relation or a column of the migration, or that of another error. */
function getReason(error: unknown): string {
  const reason = error instanceof SqlError ? error.cause : error
  return reason instanceof Error ? reason.message : String(reason)
}

/** @throws Error if a migration is missing */
export async function ensureMigrated(database: Pick<DatabaseClient, 'run' | 'schema'>): Promise<void> {
  const pending = await countPendingMigrations(database)
  if (pending > 0)
    throw new Error(
      `The database lacks ${pending} migration${pending === 1 ? '' : 's'} of this release: run '${identity.program} migrate'`,
    )
}

/**
 * Returns how many migrations of this release the database lacks. Further migrations in the database do not matter:
 * during a rollout the old release runs on the newer tables, and migrations are written so that it can.
 */
export async function countPendingMigrations(
  database: Pick<DatabaseClient, 'run' | 'schema'>,
  options: MigrateOptions = {},
): Promise<number> {
  const applied = {
    application: await readRecord(database, database.schema, 'application'),
    packages: await readRecord(database, database.schema, 'packages'),
  }
  return loadMigrations(options).filter(({ origin, createdAt }) => !applied[origin].includes(createdAt))
    .length
}

/** Returns the creation times of this release's migrations, in epoch milliseconds, in their order. */
export const getMigrationTimes = (): number[] => loadMigrations({}).map(({ createdAt }) => createdAt)

/**
 * Runs `work` in a transaction that holds the lock of all processes that migrate this database. Repeats it while another
 * process holds that lock, or `work` has not got the lock of a table in time.
 * @throws Error after `lockWaitMs`
 */
async function lockMigrations<T>(
  database: MigratedDatabase,
  lockWaitMs: number,
  work: (tx: Queryable) => Promise<T>,
): Promise<T> {
  const deadline = performance.now() + lockWaitMs
  let nextPauseMs = FIRST_PAUSE_MS
  for (;;) {
    let cause: unknown
    const lockAndWork = async (tx: Queryable) => {
      // Not `pg_advisory_xact_lock`: a statement that waits has a snapshot, and `create index concurrently` of the process
      // that holds the lock waits for the end of all snapshots.
      const [row] = await tx.run('select pg_try_advisory_xact_lock($1) as is_held', [ADVISORY_LOCK_KEY])
      return row?.is_held === true ? { result: await work(tx) } : undefined
    }
    const done = await database.transaction(lockAndWork, { statementTimeout: 0 }).catch((error: unknown) => {
      if (!isLockTimeout(error)) throw error
      cause = error
    })
    if (done) return done.result
    if (performance.now() >= deadline) {
      const holder = cause
        ? 'A transaction holds a lock on one of its tables'
        : 'Another process applies migrations'
      throw new Error(
        `${holder} for longer than MIGRATION_TIMEOUT (${lockWaitMs / 1000} s). The view pg_stat_activity shows its process`,
        { cause },
      )
    }
    await sleep(cause ? nextPauseMs * (1 + Math.random()) : POLL_INTERVAL_MS)
    if (cause) nextPauseMs = Math.min(2 * nextPauseMs, MAX_PAUSE_MS)
  }
}

/** Creates the schema, the extension and the tables of applied migrations, unless they exist. */
async function prepareSchema(tx: Queryable, schema: string): Promise<void> {
  await createRecordTables(tx, schema)
  // Not in the schema of one service: the others of the database use it too, and it would be dropped with the schema.
  if (schema !== DEFAULT_SCHEMA) await tx.run('create extension if not exists pg_trgm with schema public')
}

/**
 * Selects the schema with the tables of the service, if the search path of the role begins with another one. Before the
 * first migration, a table of this name is that of another service.
 */
const SELECT_LATER_SCHEMA = `select quote_ident(n.nspname) as schema, current_setting('search_path') as path
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.oid = to_regclass('users') and n.nspname is distinct from current_schema()
    and exists (select from ${getRecordTable(DEFAULT_SCHEMA, 'packages')})`

/**
 * Returns the search path of migrations: with the schema of the extension, whose operator classes their indexes have. In
 * the default schema, new tables are created where those before them are, also if the search path has changed since.
 * Undefined if connections have it already.
 */
async function readSearchPath(tx: Queryable, schema: string): Promise<string | undefined> {
  const searchPath = getSearchPath(schema)
  if (searchPath === undefined) {
    const [later] = await tx.run(SELECT_LATER_SCHEMA)
    return later && `${later.schema}, ${later.path}`
  }
  const [extension] = await tx.run(
    "select quote_ident(n.nspname) as schema from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_trgm'",
  )
  return extension && `${searchPath}, ${extension.schema}`
}

/**
 * Applies a migration unless another process has done so, without a timeout: an index of a large table takes long.
 * @returns whether it was applied now
 */
async function apply(tx: Queryable, database: MigratedDatabase, migration: Migration): Promise<boolean> {
  const { origin, createdAt, hash, statements, isConcurrent } = migration
  const recordTable = getRecordTable(database.schema, origin)
  const applied = await tx.run(`select id from ${recordTable} where created_at = $1`, [createdAt])
  if (applied.length > 0) return false
  const path = await readSearchPath(tx, database.schema)
  const { runAlone } = database
  if (isConcurrent && runAlone) {
    const missing = await listMissingIndexes(tx, statements)
    // After the queries: the snapshot of a query lasts until the next statement of the transaction, and the creation of
    // the index would wait for its end.
    await tx.run('set local idle_in_transaction_session_timeout = 0')
    for (const statement of missing) await runAlone(statement, path)
  } else await runStatements(tx, statements, path)
  await tx.run(`insert into ${recordTable} (hash, created_at) values ($1, $2)`, [hash, createdAt])
  return true
}

async function runStatements(
  tx: Queryable,
  statements: readonly string[],
  searchPath: string | undefined,
): Promise<void> {
  if (searchPath !== undefined) await tx.run("select set_config('search_path', $1, true)", [searchPath])
  const startedAt = performance.now()
  for (const statement of statements) {
    // The locks so far are held while the next one is waited for.
    const remaining = Math.max(LOCK_TIMEOUT_MS - (performance.now() - startedAt), MIN_LOCK_TIMEOUT_MS)
    await tx.run("select set_config('lock_timeout', $1, true)", [`${Math.ceil(remaining)}ms`])
    await tx.run(statement.replace(CREATE_CONCURRENTLY, '$1$2'))
  }
}

const SELECT_INDEX =
  'select indisvalid as is_valid from pg_index where indexrelid = to_regclass(quote_ident($1))'

/**
 * Returns the statements whose indexes do not exist. An index that an earlier attempt did not complete is invalid, and is
 * removed before.
 */
async function listMissingIndexes(tx: Queryable, statements: readonly string[]): Promise<string[]> {
  const missing: string[] = []
  for (const statement of statements) {
    const name = CREATE_CONCURRENTLY.exec(statement)?.[3] ?? ''
    const [index] = await tx.run(SELECT_INDEX, [name])
    if (index?.is_valid === true) continue
    if (index) missing.push(`drop index concurrently "${name}"`)
    missing.push(statement)
  }
  return missing
}
