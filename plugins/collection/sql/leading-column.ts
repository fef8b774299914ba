/**
 * Chooses the index for a list in which all rows have one value of a column: an index that begins with that column and
 * continues with the sort column. Where most rows have the value, PostgreSQL prefers the index of the sort column alone,
 * and may skip many rows at its beginning: the newest orders, for example, are never completed.
 */
import { is, type SQL, sql } from 'drizzle-orm'
import { PgColumn } from 'drizzle-orm/pg-core'
import type { ResolvedResource } from '../resolve.ts'
import { getColumnType, type SortTerm } from './keyset.ts'

/** Returns whether an index begins with the column and the first sort column. */
function hasIndex({ indexes }: ResolvedResource, column: PgColumn, [first]: readonly SortTerm[]): boolean {
  const sortColumn = first && is(first.expression, PgColumn) ? first.expression.name : undefined
  return sortColumn !== undefined && indexes.some(([one, next]) => one === column.name && next === sortColumn)
}

/**
 * Returns the column that the index for a list begins with, if there is one.
 * @param fixed the columns with one value in all rows of the list; with two, either index may be better, and PostgreSQL
 * chooses
 */
export function findLeadingColumn(
  resource: ResolvedResource,
  fixed: readonly PgColumn[],
  terms: readonly SortTerm[],
): PgColumn | undefined {
  const [column, another] = fixed
  return column && !another && hasIndex(resource, column, terms) ? column : undefined
}

/**
 * Builds the condition that a column equals a value, in a form that keeps the column in ORDER BY. With `=`, PostgreSQL
 * drops the column from the order, since all rows have the same value, and other indexes then match the order too.
 */
export const equalsAnyOf = (column: PgColumn, wanted: unknown): SQL =>
  sql`${column} = any(array[${wanted}]::${sql.raw(getColumnType(column))}[])`
