/** The tables in which applied migrations are recorded: those of the application apart from those of the packages. */
import { DEFAULT_SCHEMA } from './client/schema.ts'
import type { Queryable } from './client/types.ts'

/** Whose tables a migration changes. */
const ORIGINS = ['application', 'packages'] as const
export type Origin = (typeof ORIGINS)[number]

/** The names of all tables of records, and of their sequences, begin with it. */
export const RECORD_PREFIX = '__drizzle_migrations'

/**
 * The first one is that of drizzle-kit, so that its tools know the migrations of the application too. They apply only what is
 * newer than the newest record: with those of the packages in it, they would skip migrations of the application.
 */
const RECORD_TABLES: Readonly<Record<Origin, string>> = {
  application: RECORD_PREFIX,
  packages: `${RECORD_PREFIX}_packages`,
}

/** Returns the schema of the records, in which drizzle-kit looks for its own, as it is written in statements. */
const getRecordSchema = (schema: string): string => (schema === DEFAULT_SCHEMA ? 'drizzle' : `"${schema}"`)

export const getRecordTable = (schema: string, origin: Origin): string =>
  `${getRecordSchema(schema)}.${RECORD_TABLES[origin]}`

/** Returns the names of all tables of records of a schema. */
export const listRecordTables = (schema: string): readonly string[] =>
  ORIGINS.map((origin) => getRecordTable(schema, origin))

/** Creates the schema and the tables of the records, unless they exist. */
export async function createRecordTables(tx: Queryable, schema: string): Promise<void> {
  const recordSchema = getRecordSchema(schema)
  // `if not exists` needs the privilege to create a schema, even if there is one.
  const [existing] = await tx.run('select to_regnamespace($1) as schema', [recordSchema])
  if (existing?.schema === null) await tx.run(`create schema ${recordSchema}`)
  for (const table of listRecordTables(schema))
    await tx.run(
      `create table if not exists ${table} (id serial primary key, hash text not null, created_at bigint)`,
    )
}

/** Returns the creation times of the migrations that a record has, in epoch milliseconds, ascending. */
export async function readRecord(database: Queryable, schema: string, origin: Origin): Promise<number[]> {
  const recordTable = getRecordTable(schema, origin)
  const [table] = await database.run(`select to_regclass('${recordTable}') is not null as "exists"`)
  if (table?.exists !== true) return []
  const rows = await database.run(`select created_at from ${recordTable} order by created_at`)
  return rows.map((row) => Number(row.created_at))
}

/** Returns the creation times of all migrations that were applied to a schema, in epoch milliseconds, ascending. */
export async function readAppliedMigrations(database: Queryable, schema: string): Promise<number[]> {
  const times: number[] = []
  for (const origin of ORIGINS) times.push(...(await readRecord(database, schema, origin)))
  return times.sort((a, b) => a - b)
}
