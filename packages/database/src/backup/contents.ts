/** Describes what a database contains: its tables in the order of their foreign keys, its sequences and migrations. */
import { type SQL, sql } from 'drizzle-orm'
import type { Connection } from '../client/types.ts'
import { identity } from '../identity.ts'
import { getMigrationTimes } from '../migrate.ts'
import { RECORD_PREFIX, readAppliedMigrations } from '../migration-records.ts'
import { listTableNames } from '../schema-check.ts'

export interface Table {
  name: string
  /** The types are those that PostgreSQL prints, such as `timestamp(6) with time zone`. */
  columns: { name: string; type: string; hasCollation: boolean }[]
  /** The expressions that order the rows, the same on every server. */
  order: SQL[]
}

export interface Sequence {
  name: string
  /** The number that the sequence gives next, as text: it may be greater than 2^53. */
  next: string
}

export interface Contents {
  /** The creation times of the applied migrations, in epoch milliseconds. */
  migrations: number[]
  /** A table comes after those that it references. */
  tables: Table[]
  sequences: Sequence[]
  /** Without the rows to which they refer, the tables cannot be loaded. */
  references: OuterReference[]
}

/** A foreign key of a table to one that is not among the contents. */
export type OuterReference = {
  /** The name of the constraint. */
  name: string
  table: string
  /** The other table, with its schema. */
  to: string
}

type TableRow = {
  name: string
  columns: Table['columns']
  /** Null if the table has no primary key. */
  primaryKey: string[] | null
  /** The tables that it references; null if there are none. */
  references: string[] | null
}

/**
 * Objects that the statements of the service find by the search path, in the schemas that have its tables: a schema before
 * them may have none. In a schema other than the default one, the tables of applied migrations are among them.
 */
const isServiceObject = () => sql`pg_table_is_visible(c.oid)
  and c.relnamespace in (select t.relnamespace from pg_class t
    where t.relname = any(string_to_array(${listTableNames().join()}, ',')) and pg_table_is_visible(t.oid))
  and not starts_with(c.relname, ${RECORD_PREFIX})
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')`

const isTable = () => sql`c.relkind in ('r', 'p') and not c.relispartition and ${isServiceObject()}`

/** Generated columns are left out: PostgreSQL computes them again. */
const selectTables = () => sql`
  select c.relname::text as name,
    (select coalesce(json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
        'hasCollation', a.attcollation <> 0) order by a.attnum), '[]')
      from pg_attribute a
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns,
    (select json_agg(a.attname order by k.position)
      from pg_index i cross join unnest(i.indkey) with ordinality k (attnum, position)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
      where i.indrelid = c.oid and i.indisprimary) as "primaryKey",
    (select json_agg(distinct r.relname)
      from pg_constraint f join pg_class r on r.oid = f.confrelid
      where f.conrelid = c.oid and f.contype = 'f' and r.oid <> c.oid) as references
  from pg_class c
  where ${isTable()}
  order by c.relname`

/** The rows of a partition are among those of its table. */
const selectReferences = () => sql`
  select f.conname::text as name, t.relname::text as table, n.nspname || '.' || r.relname as to
  from pg_constraint f join pg_class t on t.oid = f.conrelid
    join pg_class r on r.oid = coalesce(pg_partition_root(f.confrelid), f.confrelid)
    join pg_namespace n on n.oid = r.relnamespace
  where f.contype = 'f' and t.oid in (select c.oid from pg_class c where ${isTable()})
    and r.oid not in (select c.oid from pg_class c where ${isTable()})
  order by t.relname, f.conname`

const selectSequences = () => sql`
  select c.relname::text as name, s.seqincrement::text as increment
  from pg_class c join pg_sequence s on s.seqrelid = c.oid
  where ${isServiceObject()}
  order by c.relname`

/** Reads the contents of a schema. Within a snapshot, after its first statement: a sequence is never behind the rows then. */
export async function readContents(connection: Connection, schema: string): Promise<Contents> {
  const migrations = await readAppliedMigrations(connection, schema)
  const tables = await readTables(connection)
  const references = await readOuterReferences(connection)
  return { migrations, tables, references, sequences: await readSequences(connection) }
}

export const readOuterReferences = (connection: Connection): Promise<OuterReference[]> =>
  connection.execute<OuterReference>(selectReferences())

export const describeReference = ({ name, table, to }: OuterReference): string =>
  `${name} of the table ${table} refers to ${to}`

/**
 * @throws Error if the database has no tables of the service, or lacks one although it has the migrations of this release:
 * that of an older or a newer release has others
 */
export function checkContents({ migrations, tables }: Contents): void {
  const known = listTableNames()
  const missing = known.filter((name) => !tables.some((table) => table.name === name))
  if (migrations.length === 0 || missing.length === known.length)
    throw new Error(
      'The database has no tables of this service: check DATABASE_URL, DATABASE_SCHEMA, DATA_DIR and the search_path of the role',
    )
  if (missing.length > 0 && `${migrations}` === `${getMigrationTimes()}`)
    throw new Error(
      `The database lacks tables of this service (${missing.join(', ')}): check the search_path of the role, and run '${identity.program} doctor'`,
    )
}

/** Returns the tables, each after those that it references. */
export async function readTables(connection: Connection): Promise<Table[]> {
  return sortByReferences(await connection.execute<TableRow>(selectTables())).map(toTable)
}

/** @returns the rows of each table */
export async function countRows(
  connection: Connection,
  tables: readonly Table[],
): Promise<Map<string, number>> {
  const counts = new Map<string, number>()
  for (const { name } of tables) {
    const count = sql`select count(*) as count from ${sql.identifier(name)}`
    const [row] = await connection.execute<{ count: number }>(count)
    counts.set(name, row?.count ?? 0)
  }
  return counts
}

/** Orders by the primary key: text by code point, because the locale of a database determines its order otherwise. */
function toTable({ name, columns, primaryKey }: TableRow): Table {
  const keys = primaryKey ?? columns.map((column) => column.name)
  const order = keys.map((key) => {
    if (primaryKey === null) return sql`${sql.identifier(key)}::text collate "C"`
    const column = columns.find((candidate) => candidate.name === key)
    return column?.hasCollation ? sql`${sql.identifier(key)} collate "C"` : sql`${sql.identifier(key)}`
  })
  return { name, columns, order }
}

/** @throws Error if tables reference each other in a cycle */
function sortByReferences(rows: readonly TableRow[]): TableRow[] {
  const sorted: TableRow[] = []
  let remaining = [...rows]
  while (remaining.length > 0) {
    const names = new Set(remaining.map(({ name }) => name))
    const next = remaining.filter(({ references }) => !references?.some((name) => names.has(name)))
    if (next.length === 0) throw new Error(`The tables ${[...names].join(', ')} reference each other`)
    sorted.push(...next)
    remaining = remaining.filter((row) => !next.includes(row))
  }
  return sorted
}

export async function readSequences(connection: Connection): Promise<Sequence[]> {
  const sequences: Sequence[] = []
  const found = await connection.execute<{ name: string; increment: string }>(selectSequences())
  for (const { name, increment } of found) {
    const [row] = await connection.execute<{ next: string }>(
      sql`select (case when is_called then last_value + ${increment}::bigint else last_value end)::text as next from ${sql.identifier(name)}`,
    )
    if (row) sequences.push({ name, next: row.next })
  }
  return sequences
}
