/** Compares the tables that the code declares with those of the database. */
import { is } from 'drizzle-orm'
import { getTableConfig, isPgSequence, PgTable } from 'drizzle-orm/pg-core'
import { queryRows } from './client/query-rows.ts'
import type { Connection } from './client/types.ts'
import * as credentialTables from './credential-tables.ts'
import * as idempotencyTables from './idempotency-tables.ts'
import * as tables from './tables.ts'

interface SchemaReport {
  /** Missing tables and columns, and columns of another type: the service cannot run. One sentence each. */
  errors: string[]
  /** Differences with which the service runs, but slower or with less protection. One sentence each. */
  warnings: string[]
}

interface TableRow {
  name: string
  is_missing: boolean
  /** Type and nullability by column; null if there are no columns. */
  columns: Record<string, [type: string, isNotNull: boolean]> | null
  /** The names of the valid indexes; null if there are none. */
  indexes: string[] | null
}

const declared: readonly unknown[] = [tables, credentialTables, idempotencyTables].flatMap(Object.values)
const declaredTables = declared.flatMap((value) => (is(value, PgTable) ? [getTableConfig(value)] : []))
const declaredSequences = declared.flatMap((value) => (isPgSequence(value) ? [value.seqName ?? ''] : []))

/** The names of all tables of this release. */
export const tableNames: readonly string[] = declaredTables.map(({ name }) => name)

/**
 * One row for each name. Only catalogs that every role may read, because the role may own no table. `to_regclass` finds
 * a table as the statements of the service do, by the search path. Types are written as Drizzle writes them.
 */
const SELECT_RELATIONS = `select t.name, c.oid is null as is_missing,
  (select json_object_agg(a.attname, json_build_array(format_type(a.atttypid, a.atttypmod) ||
      coalesce(' COLLATE ' || quote_ident(nullif(l.collname, 'default')), ''), a.attnotnull))
    from pg_attribute a left join pg_collation l on l.oid = a.attcollation
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
  (select json_agg(n.relname) from pg_index i join pg_class n on n.oid = i.indexrelid
    where i.indrelid = c.oid and i.indisvalid) as indexes
  from unnest(string_to_array($1, ',')) as t(name)
  left join pg_class c on c.oid = to_regclass(quote_ident(t.name))`

type DeclaredTable = (typeof declaredTables)[number]

function compareColumns({ name, columns }: DeclaredTable, found: TableRow, report: SchemaReport): void {
  for (const column of columns) {
    const [type, isNotNull] = found.columns?.[column.name] ?? []
    const expected = column.getSQLType()
    if (type === undefined)
      report.errors.push(`The table ${name} lacks the column ${column.name} (${expected})`)
    else if (type !== expected)
      report.errors.push(`The column ${name}.${column.name} has the type ${type} instead of ${expected}`)
    else if (isNotNull !== column.notNull)
      report.warnings.push(
        `The column ${name}.${column.name} ${isNotNull ? 'is' : 'is not'} declared NOT NULL`,
      )
  }
}

/** Returns the names of the indexes, those of the primary key included. */
function listIndexes({ name, columns, indexes, primaryKeys }: DeclaredTable): string[] {
  return [
    ...(columns.some(({ primary }) => primary) ? [`${name}_pkey`] : []),
    ...primaryKeys.map((key) => key.getName()),
    ...indexes.flatMap(({ config }) => config.name ?? []),
  ]
}

/**
 * Compares tables, columns, indexes and sequences with one query. Further ones in the database do not matter: during a
 * rolling release the previous release runs on the newer tables. A different nullability is only a warning for the same
 * reason.
 */
export async function inspectSchema(database: Connection): Promise<SchemaReport> {
  const report: SchemaReport = { errors: [], warnings: [] }
  const names = [...tableNames, ...declaredSequences].join(',')
  const rows = await queryRows<TableRow>(database, SELECT_RELATIONS, [names])
  const found = new Map(rows.map((row) => [row.name, row]))
  for (const table of declaredTables) {
    const row = found.get(table.name)
    if (!row || row.is_missing) {
      report.errors.push(`The table ${table.name} is missing`)
      continue
    }
    compareColumns(table, row, report)
    for (const index of listIndexes(table)) {
      if (row.indexes?.includes(index)) continue
      report.warnings.push(`The table ${table.name} lacks the index ${index}`)
    }
  }
  for (const sequence of declaredSequences) {
    if (found.get(sequence)?.is_missing) report.errors.push(`The sequence ${sequence} is missing`)
  }
  return report
}

/** What to do about the errors of a report. */
export const SCHEMA_ADVICE =
  'All migrations are recorded as applied, so the server does not create this again.' +
  ' Create it as the files in drizzle/migrations do, or restore a backup; then start again.'

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
