/**
 * Chooses the index for a list in which a filter or an access rule fixes a column: an index that begins with that column
 * and continues with the sort column. Where most rows have the value, PostgreSQL prefers the index of the sort column
 * alone, and may skip many rows at its beginning: the newest orders, for example, are never completed. The index alone
 * does not give the plan: without the choice, a page of `status=active` of 60 users skips 40 rows, and one of
 * `status=active,suspended` reads users_created_at (test/lists/query-plans.isolated.test.ts).
 */
import { is, type SQL, sql } from 'drizzle-orm'
import { PgColumn } from 'drizzle-orm/pg-core'
import { getColumnType } from '../../../drizzle/expressions.ts'
import type { ListFilters, SortTerm } from '../query.ts'
import type { ListScope, Resource } from '../resource.ts'
import { getColumn, getFixedColumns } from './conditions.ts'

export interface IndexChoice {
  /** The column that the index begins with, if there is only one. ORDER BY keeps it: see `equalsAnyOf`. */
  leading?: PgColumn | undefined
  /** The filter with several values that is read value by value: the index has the rows of each in the sort's order. */
  each?: string | undefined
}

/** Returns whether an index begins with the column, after that of the parent, and continues with the first sort column. */
function hasIndex({ columns, indexes, parent }: Resource, column: PgColumn, terms: readonly SortTerm[]) {
  const [first] = terms
  const sortColumn = first && is(first.expression, PgColumn) ? first.expression.name : undefined
  const wanted = [...(parent ? [getColumn(columns, parent.member).name] : []), column.name, sortColumn]
  return sortColumn !== undefined && indexes.some((index) => wanted.every((name, i) => index[i] === name))
}

/** Returns whether few rows share a value: each of an enum or a boolean may be that of most rows. */
function isSelective({ schemas }: Resource, { name }: PgColumn): boolean {
  const schema = schemas.read.properties[name]
  return !schema?.enum && schema?.type !== 'boolean'
}

/**
 * Chooses the index for the rows of a list. With several filters either index may be better, and PostgreSQL chooses
 * between them, or by the limits of other fields than that of the sort.
 */
export function chooseIndex(
  resource: Resource,
  query: ListFilters,
  terms: readonly SortTerm[],
  { rule, parent }: ListScope,
): IndexChoice {
  const { columns, uniqueColumns } = resource
  const fixed = getFixedColumns(resource, query, rule)
  const lists = Object.entries(query.filters).flatMap(([name, { length }]) =>
    length > 1 ? [{ name, column: getColumn(columns, name) }] : [],
  )
  const hasOtherBounds = query.bounds.some(({ field }) => field !== terms[0]?.name)
  const [only, another] = [...fixed, ...lists.map(({ column }) => column)]
  // Under a parent, each index begins with the parent's column, and PostgreSQL chooses well.
  const isAlone = only !== undefined && another === undefined && !hasOtherBounds && parent === undefined
  if (lists.length === 0) return { leading: isAlone && hasIndex(resource, only, terms) ? only : undefined }
  // A unique column has a row for each value at most, which needs no order.
  const indexed = lists.filter(
    ({ column }) => !uniqueColumns.has(column.name) && hasIndex(resource, column, terms),
  )
  const found = indexed.find(({ column }) => isSelective(resource, column)) ?? indexed[0]
  if (!found) return {}
  // The rows of a user, for example, are read once, and not for each of several states.
  const others = [...fixed, ...lists.filter(({ name }) => name !== found.name).map(({ column }) => column)]
  if (!isSelective(resource, found.column) && others.some((column) => isSelective(resource, column)))
    return {}
  return { leading: isAlone ? found.column : undefined, each: found.name }
}

/**
 * Builds the condition that a column equals a value, in a form that keeps the column in ORDER BY. With `=`, PostgreSQL
 * drops the column from the order, since all rows have the same value, and other indexes then match the order too.
 */
export const equalsAnyOf = (column: PgColumn, wanted: unknown): SQL =>
  sql`${column} = any(array[${wanted}]::${sql.raw(getColumnType(column))}[])`
