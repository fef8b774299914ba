/** SQL expressions that Drizzle lacks. */
import { getTableName, is, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { type PgColumn, PgTable } from 'drizzle-orm/pg-core'

/** Returns the PostgreSQL type of a column, without its collation, and without a precision that limits its values. */
export const getColumnType = (column: PgColumn): string =>
  column
    .getSQLType()
    .replace(/ collate .*/i, '')
    .replace(/^numeric\(.*/, 'numeric')

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
