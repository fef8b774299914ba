/** SQL expressions that Drizzle lacks. */
import { getTableName, is, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { type PgColumn, PgEnumColumn, PgTable } from 'drizzle-orm/pg-core'

/** Types that are none of values, and the type that has no length: `'ab'::char` is 'a'. */
const VALUE_TYPES: Readonly<Record<string, string>> = {
  smallserial: 'smallint',
  serial: 'integer',
  bigserial: 'bigint',
  char: 'bpchar',
}

/**
 * Returns the PostgreSQL type of the values of a column: without its collation, and without a precision or a length, by which a
 * cast would round or cut a value.
 */
export function getColumnType(column: PgColumn): string {
  // Its SQL type is a name without quotes and schema.
  if (is(column, PgEnumColumn)) {
    const { enumName, schema } = column.enum
    return [...(schema === undefined ? [] : [schema]), enumName].map((name) => `"${name}"`).join('.')
  }
  const type = column
    .getSQLType()
    .replace(/ collate .*/i, '')
    .replace(/^(numeric|varchar|char)\(.*/, '$1')
  return VALUE_TYPES[type] ?? type
}

/**
 * Returns the expression of a hash for an advisory lock that concerns a table. Not of `current_schema()`: the roles of the
 * server and of a command may find one table by different search paths. That of another schema has another OID.
 * @param seed what the lock is for
 */
export const hashForLock = (table: PgTable | Placeholder, seed: Placeholder | number): SQL => {
  const name = is(table, PgTable) ? sql.raw(`'${getTableName(table)}'`) : sql`${table}::text`
  const extension = typeof seed === 'number' ? sql.raw(`${seed}`) : seed
  return sql`hashtextextended(quote_ident(${name})::regclass::oid::text, ${extension}::bigint)`
}

/**
 * Returns the condition that a column has one of the values, which are one parameter: an array. The text of `inArray`
 * depends on their number.
 */
export const isAnyOf = (column: PgColumn, values: Placeholder | readonly (string | number)[]): SQL =>
  sql`${column} = any(${Array.isArray(values) ? sql.param(values) : values}::${sql.raw(getColumnType(column))}[])`

/**
 * Returns the expression of the time of an update: later than that of the update before, also if the clock is set back.
 * In an UPDATE, Citus accepts no volatile function (`clock_timestamp()`), and no stable one that has a column as argument
 * (`timestamptz + interval`): `at time zone 'UTC'` makes the addition immutable.
 */
export const nextUpdatedAt = ({ updated_at }: { updated_at: PgColumn }): SQL =>
  sql`greatest(statement_timestamp(), (${updated_at} at time zone 'UTC' + interval '1 microsecond') at time zone 'UTC')`

/** Returns the names of columns, as SET and the list of columns of an INSERT have them: without their table. */
export const toNames = (...columns: PgColumn[]): SQL =>
  sql.join(
    columns.map(({ name }) => sql.identifier(name)),
    sql`, `,
  )
