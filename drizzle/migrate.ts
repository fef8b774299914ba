/** Brings a database to the tables of this build: drizzle-kit's migrations, in order, once, whoever comes first. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readMigrationFiles } from 'drizzle-orm/migrator'

/** What migrations need of a database; the house's own offers it, and this room does not have to know it. */
export interface Runner {
  run(text: string, params?: readonly (string | number)[]): Promise<Record<string, unknown>[]>
}
export interface Migratable extends Runner {
  transaction<T>(work: (tx: Runner) => Promise<T>, limits?: { statementTimeout?: number }): Promise<T>
}

export interface MigrateOptions {
  /** Another folder of drizzle-kit's than the one of this package. */
  folder?: string
}

interface Migration {
  tag: string
  hash: string
  /** Epoch milliseconds of its making: drizzle's own key for "applied". */
  when: number
  statements: string[]
}

/** drizzle-kit's table, so that its tools agree with us on what has been done. */
const RECORD = 'drizzle.__drizzle_migrations'
/** For migrations alone; an advisory lock counts within one database. */
const LOCK = 1_835_624_306
/** An index over a large table takes its time, and so does waiting for the replica that builds it. */
const UNHURRIED = { statementTimeout: 0 }

/**
 * Applies what is missing, each migration in a transaction of its own; replicas that start together take turns.
 * (A `create index concurrently` therefore cannot be a migration.)
 * @returns the names of those this call applied
 * @throws Error naming the migration that failed, of which nothing remains; those before it stand
 */
export async function migrate(database: Migratable, options: MigrateOptions = {}): Promise<string[]> {
  const applied: string[] = []
  // Nothing missing, nothing touched: a server may run as a role that owns no table.
  if ((await pendingMigrations(database, options)) === 0) return applied
  await alone(database, async (tx) => {
    await tx.run('create schema if not exists drizzle')
    await tx.run(
      `create table if not exists ${RECORD} (id serial primary key, hash text not null, created_at bigint)`,
    )
  })
  for (const migration of load(options)) {
    try {
      if (await alone(database, (tx) => apply(tx, migration))) applied.push(migration.tag)
    } catch (cause) {
      throw new Error(`Migration ${migration.tag} failed; nothing of it remains, those before it stand`, {
        cause,
      })
    }
  }
  return applied
}

/**
 * How many migrations of this build the database lacks. What it has beyond them is no matter: while a new build
 * is rolled out, the old one goes on over the newer tables, and migrations are written so that it can.
 */
export async function pendingMigrations(database: Runner, options: MigrateOptions = {}): Promise<number> {
  const migrations = load(options)
  const [record] = await database.run(`select to_regclass('${RECORD}') is not null as "exists"`)
  if (!record?.exists) return migrations.length
  const rows = await database.run(`select created_at from ${RECORD}`)
  const known = new Set(rows.map((row) => Number(row.created_at)))
  return migrations.filter(({ when }) => !known.has(when)).length
}

/** One at a time among all replicas, until the transaction ends. */
function alone<T>(database: Migratable, work: (tx: Runner) => Promise<T>): Promise<T> {
  return database.transaction(async (tx) => {
    await tx.run('select pg_advisory_xact_lock($1)', [LOCK])
    return work(tx)
  }, UNHURRIED)
}

async function apply(tx: Runner, { when, hash, statements }: Migration): Promise<boolean> {
  const known = await tx.run(`select id from ${RECORD} where created_at = $1`, [when])
  if (known.length > 0) return false
  for (const statement of statements) await tx.run(statement)
  await tx.run(`insert into ${RECORD} (hash, created_at) values ($1, $2)`, [hash, when])
  return true
}

const loaded = new Map<string, Migration[]>()

/** The files, read once: they belong to the build, and readyz asks again and again. */
function load({ folder = packaged() }: MigrateOptions): Migration[] {
  const before = loaded.get(folder)
  if (before) return before
  const journal: { entries: { tag: string }[] } = JSON.parse(
    readFileSync(join(folder, 'meta/_journal.json'), 'utf8'),
  )
  // drizzle's reader gives them in the journal's order, without their names.
  const migrations = readMigrationFiles({ migrationsFolder: folder }).map(
    ({ sql, hash, folderMillis }, index) => ({
      tag: journal.entries[index]?.tag ?? String(index),
      hash,
      when: folderMillis,
      statements: sql.filter((statement) => statement.trim() !== ''),
    }),
  )
  loaded.set(folder, migrations)
  return migrations
}

/** Where the package's own stand, seen from the sources and from dist alike (`imports` in package.json). */
function packaged(): string {
  return fileURLToPath(new URL('..', import.meta.resolve('#migrations/meta/_journal.json')))
}
