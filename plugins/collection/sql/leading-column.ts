/**
 * What leads to a page where rows must have one value of a column, and an index has that column before the order: the
 * index. Left to choose, PostgreSQL walks the order's own wherever most rows have the value, and does not know that
 * the first of them may not: of orders that are completed the newest never are.
 */
import { is, type SQL, sql } from 'drizzle-orm'
import { PgColumn } from 'drizzle-orm/pg-core'
import type { ResolvedResource } from '../resolve.ts'
import { type Term, typeOf } from './keyset.ts'

/** Whether an index has a table's rows by that column, and those that are alike in it in the order. */
function leads({ indexes }: ResolvedResource, column: PgColumn, [first]: readonly Term[]): boolean {
  const by = first && is(first.expression, PgColumn) ? first.expression.name : undefined
  return by !== undefined && indexes.some(([one, next]) => one === column.name && next === by)
}

/**
 * @param alike the columns in which all rows of the list are alike: of two, either may be the better way
 * @returns the one that leads to its pages, if any does
 */
export function leadOf(
  resource: ResolvedResource,
  [column, another]: readonly PgColumn[],
  terms: readonly Term[],
): PgColumn | undefined {
  return column && !another && leads(resource, column, terms) ? column : undefined
}

/**
 * That a column has a value, so that an order that begins with the column is still one by it: with a plain `=`
 * PostgreSQL leaves it out of the order, as all rows are alike in it, and then other indexes have that order as well.
 */
export const isOneOf = (column: PgColumn, wanted: unknown): SQL =>
  sql`${column} = any(array[${wanted}]::${sql.raw(typeOf(column))}[])`
