/** Loads rows into an empty database, compares what it then contains, and commits only if that is equal. */
import { sql } from 'drizzle-orm'
import type { Connection, Database } from '../client/types.ts'
import { getMigrationTimes, migrate } from '../migrate.ts'
import { readAppliedMigrations } from '../migration-records.ts'
import { listTableNames } from '../schema-check.ts'
import { type Checksums, findDifferences, readChecksums } from './checksums.ts'
import { type Contents, readSequences, readTables, type Sequence, type Table } from './contents.ts'
import { type Batch, insertRows, readRows } from './rows.ts'

/** What is loaded: the contents of a backup or of another database. */
interface Source extends Pick<Contents, 'migrations' | 'sequences'> {
  /** With the names of the columns, in the order of the values in a row. */
  tables: readonly { name: string; columns: readonly string[] }[]
  /** The rows, in the order of the tables. May be called again if the transaction is repeated. */
  readRows(): AsyncIterable<Batch>
}

interface Loaded {
  /** Of the loaded rows. */
  checksums: Checksums
  /** The tables of the source that are none of this service. */
  skipped: string[]
  /** The names of the migrations that the source lacked. */
  applied: string[]
}

interface LoadOptions {
  onRows?: (count: number) => void
  /** Called before the commit, in the transaction. If it throws, nothing is loaded. */
  beforeCommit?: (tx: Connection) => Promise<void>
}

/** Checks that this release knows the migrations of the source. @throws Error if it does not */
export function checkMigrations(migrations: readonly number[], what: string): void {
  const known = getMigrationTimes()
  if (!migrations.every((time) => known.includes(time)))
    throw new Error(`${what} is of a newer release than this one: use that release, or a newer one`)
}

/**
 * Loads the source in one transaction. The migrations of the source are applied before, and those that it lacks
 * afterwards, so that they change its rows as they do in an upgrade.
 * @throws Error if the database is not empty, or what it contains afterwards differs from the source
 */
export async function loadDatabase(
  database: Database,
  source: Source,
  options: LoadOptions = {},
): Promise<Loaded> {
  await checkTarget(database, source)
  await migrate(database, { only: new Set(source.migrations) })
  const loaded = await database.transaction((tx) => load(tx, source, options), { statementTimeout: 0 })
  return { ...loaded, applied: await migrate(database) }
}

async function load(tx: Connection, source: Source, options: LoadOptions): Promise<Omit<Loaded, 'applied'>> {
  // The server otherwise closes a connection whose transaction waits for the source.
  await tx.run('set local idle_in_transaction_session_timeout = 0')
  // A policy must not make the tables look empty.
  await tx.run('set local row_security = off')
  const existing = await readSequences(tx)
  const tables = selectTables(await readTables(tx), source.tables)
  const byName = new Map(tables.map((table) => [table.name, table]))
  const known = listTableNames()
  const missing = source.tables.filter(({ name }) => known.includes(name) && !byName.has(name))
  if (missing.length > 0)
    throw new Error(
      `The database lacks tables of this service (${missing.map(({ name }) => name).join(', ')}): check the search_path of the role`,
    )
  const sequences = source.sequences.filter(({ name }) => existing.some((sequence) => sequence.name === name))
  for (const { name } of tables) await tx.execute(sql`lock table ${sql.identifier(name)} in exclusive mode`)
  await checkEmpty(tx, tables)
  const expected = await readChecksums(selectRows(source.readRows(), byName), async ({ table, lines }) => {
    const target = byName.get(table)
    if (target) await insertRows(tx, target, lines)
    options.onRows?.(lines.length)
  })
  await restartSequences(tx, sequences)
  await compare(tx, tables, expected, sequences)
  for (const { name } of tables) await tx.execute(sql`analyze ${sql.identifier(name)}`)
  await options.beforeCommit?.(tx)
  return {
    checksums: expected,
    skipped: source.tables.map(({ name }) => name).filter((name) => !byName.has(name)),
  }
}

async function* selectRows(batches: AsyncIterable<Batch>, tables: ReadonlyMap<string, Table>) {
  for await (const batch of batches) if (tables.has(batch.table)) yield batch
}

/** @throws Error if the database has rows, or is further migrated than the source */
async function checkTarget(database: Database, source: Source): Promise<void> {
  const names = new Set(source.tables.map(({ name }) => name))
  await checkEmpty(
    database,
    (await readTables(database)).filter(({ name }) => names.has(name)),
  )
  const applied = await readAppliedMigrations(database, database.schema)
  if (!applied.every((time) => source.migrations.includes(time)))
    throw new Error(
      'The database has the tables of a newer release than the data: use a database without tables; the missing migrations are applied after the data is loaded',
    )
}

async function checkEmpty(connection: Connection, tables: readonly Table[]): Promise<void> {
  for (const { name } of tables) {
    const rows = await connection.execute(sql`select 1 from ${sql.identifier(name)} limit 1`)
    if (rows.length > 0)
      throw new Error(
        `The database is not empty (the table ${name} has rows), and nothing is overwritten: use a new database or another DATA_DIR`,
      )
  }
}

/**
 * Returns the tables of the service that the source has, with their columns in the order of the source.
 * @throws Error if the columns differ: the source was changed by hand
 */
function selectTables(tables: readonly Table[], sources: Source['tables']): Table[] {
  return tables.flatMap((table) => {
    const source = sources.find(({ name }) => name === table.name)
    if (!source) return []
    const columns = source.columns.flatMap((name) => table.columns.filter((column) => column.name === name))
    if (columns.length !== table.columns.length || columns.length !== source.columns.length)
      throw new Error(`The table ${table.name} has other columns in the data than its migrations create`)
    return { ...table, columns }
  })
}

/**
 * `setval`, because Citus cannot alter the sequence of a distributed table. It is not rolled back: if the load fails, the
 * tables are empty, and their sequences go on from these numbers.
 */
async function restartSequences(tx: Connection, sequences: readonly Sequence[]): Promise<void> {
  for (const { name, next } of sequences)
    await tx.execute(sql`select setval(quote_ident(${name})::regclass, ${next}::bigint, false)`)
}

/** Reads everything back. @throws Error if it differs from what was read from the source */
async function compare(
  tx: Connection,
  tables: readonly Table[],
  expected: Checksums,
  sequences: readonly Sequence[],
): Promise<void> {
  const differing = findDifferences(expected, await readChecksums(readRows(tx, tables)))
  const actual = await readSequences(tx)
  for (const { name, next } of sequences) {
    if (actual.find((sequence) => sequence.name === name)?.next !== next) differing.push(name)
  }
  if (differing.length > 0)
    throw new Error(
      `The database differs from the data after loading it (${differing.join(', ')}); nothing was kept`,
    )
}
