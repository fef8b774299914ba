/** Compares the tables and views that the code declares with those of the database. */
import { is, sql } from 'drizzle-orm'
import { getTableConfig, isPgSequence, PgTable } from 'drizzle-orm/pg-core'
import type { Connection } from './client/types.ts'
import { listDeclarations } from './table-list.ts'
import { getViewTable, isView } from './views.ts'

interface SchemaReport {
  /** Missing tables and columns, and columns of another type: the service cannot run. One sentence each. */
  errors: string[]
  /** Differences with which the service runs, but slower or with less protection. One sentence each. */
  warnings: string[]
}

/** A column of a relation. An index, or a table without columns, is one row without a column. */
type ColumnRow = {
  relation: string
  column: string | null
  type: string | null
  /** The OID; 0 for types that have no collation. */
  collation: number | null
  is_not_null: boolean | null
}

const listTables = (declarations = listDeclarations()) =>
  declarations.flatMap((value) => (is(value, PgTable) ? [getTableConfig(value)] : []))

const listSequences = (declarations: readonly unknown[]) =>
  declarations.flatMap((value) => (isPgSequence(value) ? [value.seqName ?? ''] : []))

/** Returns the views, whose columns PostgreSQL does not know to be NOT NULL. */
const listViews = (declarations: readonly unknown[]) =>
  declarations.flatMap((value) => (isView(value) ? [getTableConfig(getViewTable(value))] : []))

/** Returns the names of all tables of this release. */
export const listTableNames = (): readonly string[] => listTables().map(({ name }) => name)

/**
 * Only catalogs that every role may read, because the role may own no table. Finds relations by the search path, as the
 * statements of the service do. Plain rows without subqueries: PGlite compiles the code of PostgreSQL when it is first
 * used, which JSON aggregates would make it do.
 */
const selectColumns = (names: string) => sql`select c.relname as relation, a.attname as column,
    format_type(a.atttypid, a.atttypmod) as type, a.attcollation::int4 as collation, a.attnotnull as is_not_null
  from pg_class c left join pg_attribute a
    on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and c.relkind <> 'i'
  where c.relname = any(string_to_array(${names}, ',')) and pg_table_is_visible(c.oid)`

/** The collation "C" has this OID in every database. */
const C_COLLATION = 950

/** Returns the type of a column of the database, with its collation. With `quote_all_identifiers`, PostgreSQL quotes names. */
const getType = ({ type, collation }: ColumnRow): string => {
  const name = `${type}`.replaceAll('"', '')
  return collation === C_COLLATION ? `${name} COLLATE "C"` : name
}

/** Returns a type that Drizzle declares as `format_type` of PostgreSQL writes it. */
export const toCatalogType = (declared: string): string =>
  declared
    .replace(', ', ',')
    .replace(/^numeric\((\d+)\)/, 'numeric($1,0)')
    .replace(/^(time|timestamp) ?(\(\d\))?(?=\[|$)/, '$1$2 without time zone')
    .replace(/^varchar/, 'character varying')
    .replace(/^char(\(\d+\))?(?=\[|$)/, (_, length = '(1)') => `character${length}`)
    .replace('bigserial', 'bigint')
    .replace('serial', 'integer')

/** Returns a type without the precision, which the columns of views often have not. */
const withoutPrecision = (type: string): string => type.replace(/\(\d+(?:,\d+)?\)/, '')

type DeclaredTable = ReturnType<typeof listTables>[number]

/** Returns the names of the indexes, those of the primary key included. */
const listIndexes = ({ name, columns, indexes, primaryKeys }: DeclaredTable): string[] => [
  ...(columns.some(({ primary }) => primary) ? [`${name}_pkey`] : []),
  ...primaryKeys.map((key) => key.getName()),
  ...indexes.flatMap(({ config }) => config.name ?? []),
]

/**
 * Compares tables, views, columns, indexes and sequences with one query. Further ones in the database do not matter: during a
 * rolling release the previous release runs on the newer tables. A different nullability is only a warning for the same
 * reason.
 */
export async function inspectSchema(
  database: Connection,
  declarations = listDeclarations(),
): Promise<SchemaReport> {
  const tables = listTables(declarations)
  const views = listViews(declarations)
  const sequences = listSequences(declarations)
  const relationNames = [...tables, ...views].map(({ name }) => name)
  const names = [...relationNames, ...sequences, ...tables.flatMap(listIndexes)]
  const rows = await database.execute<ColumnRow>(selectColumns(names.join(',')))
  const relations = new Set(rows.map(({ relation }) => relation))
  const errors: string[] = []
  const warnings: string[] = []
  for (const table of [...tables, ...views]) {
    const { name } = table
    const [kind, normalize] = views.includes(table)
      ? ['view', withoutPrecision]
      : ['table', (type: string) => type]
    if (!relations.has(name)) {
      errors.push(`The ${kind} ${name} is missing`)
      continue
    }
    for (const column of table.columns) {
      const row = rows.find((each) => each.relation === name && each.column === column.name)
      const expected = toCatalogType(column.getSQLType())
      if (!row) errors.push(`The ${kind} ${name} lacks the column ${column.name} (${expected})`)
      else if (normalize(getType(row)) !== normalize(expected))
        errors.push(`The column ${name}.${column.name} has the type ${getType(row)} instead of ${expected}`)
      else if (kind === 'table' && row.is_not_null !== column.notNull)
        warnings.push(
          `The column ${name}.${column.name} ${row.is_not_null ? 'is' : 'is not'} declared NOT NULL`,
        )
    }
    for (const index of listIndexes(table)) {
      if (!relations.has(index)) warnings.push(`The table ${name} lacks the index ${index}`)
    }
  }
  for (const sequence of sequences) {
    if (!relations.has(sequence)) errors.push(`The sequence ${sequence} is missing`)
  }
  return { errors, warnings }
}

/** What to do about the errors of a report. */
export const SCHEMA_ADVICE =
  'All migrations are recorded as applied. If a table was changed in the code, the migration is missing:' +
  " 'npm run migrations -- --name what-changes' writes it. If the database was changed, create the difference" +
  ' as the files in drizzle/migrations and in the folder migrations of the package database do, or restore a backup. Then start again.'

/**
 * Checks that the database has the tables and columns that the code uses.
 * @returns the warnings
 * @throws Error with all errors and what to do
 */
export async function ensureSchema(database: Connection): Promise<string[]> {
  const { errors, warnings } = await inspectSchema(database)
  if (errors.length === 0) return warnings
  const lines = errors.map((line) => `  ${line}`).join('\n')
  throw new Error(`The database differs from this release:\n${lines}\n${SCHEMA_ADVICE}`)
}
