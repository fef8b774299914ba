/** Keyset pagination: the position of a row in a sort, and the condition for the rows after it. */
import { getColumnType } from '@resource-api/database/tables'
import { and, or, type SQL, type SQLWrapper, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Sort } from '../definition/query.ts'
import type { Resource } from '../definition/resource.ts'
import type { SortKey } from '../definition/resource-table.ts'
import type { Row } from '../definition/store.ts'

/** One expression of ORDER BY, and how a cursor writes its value. */
export interface SortTerm {
  name: string
  column: PgColumn
  /** The column, or what puts its nulls last. */
  expression: SQLWrapper
  descending: boolean
  /** The text that stands for NULL in a cursor. */
  nullText: string
  /** The text before any other value in a cursor. */
  prefix: string
}

export const isColumn = (key: SortKey): key is PgColumn => !('ascending' in key)

function toSortTerm({ name, descending }: Sort, key: SortKey): SortTerm {
  if (isColumn(key)) return { name, column: key, expression: key, descending, nullText: '', prefix: '' }
  const { column, nulls, prefix = '' } = key
  return descending
    ? { name, column, expression: key.descending, descending, nullText: nulls.descending, prefix: '' }
    : { name, column, expression: key.ascending, descending, nullText: nulls.ascending, prefix }
}

/** Returns the terms of a total order: they end with a unique column, or else with the key. */
export function toSortTerms(
  { name: resource, sorts: keys, columns, rowParts, uniqueColumns }: Resource,
  sorts: readonly Sort[],
): SortTerm[] {
  const terms: SortTerm[] = []
  for (const sort of sorts) {
    if (sort.name === 'id') break
    // The default sort, also of a resource that clients cannot sort by it.
    const key = keys[sort.name] ?? (sort.name === rowParts.created ? columns[sort.name] : undefined)
    if (!key) throw new Error(`${resource} cannot be sorted by ${sort.name}`)
    terms.push(toSortTerm(sort, key))
    if (isColumn(key) && uniqueColumns.has(sort.name)) return terms
  }
  const descending = (sorts[terms.length] ?? sorts.at(-1))?.descending ?? true
  for (const { member, column } of rowParts.key.parts) {
    let isNamed = false
    for (const { name } of terms) isNamed ||= name === member
    if (!isNamed) terms.push(toSortTerm({ name: member, descending }, column))
  }
  return terms
}

const toParameter = (i: number, { column }: SortTerm) =>
  sql`${sql.placeholder(`at${i}`)}::${sql.raw(getColumnType(column))}`

/** Compares whole rows, which PostgreSQL turns into one index condition. */
const compareRows = (terms: readonly SortTerm[], descending: boolean): SQL => {
  const expressions = terms.map(({ expression }) => expression)
  const values = terms.map((term, i) => toParameter(i, term))
  return sql`(${sql.join(expressions, sql`, `)}) ${sql.raw(descending ? '<' : '>')} (${sql.join(values, sql`, `)})`
}

/**
 * Builds the condition for the rows after a position.
 * @returns SQL with the parameters `at0`, `at1`, ...; undefined if there are no terms
 */
export function buildAfterCondition(terms: readonly SortTerm[]): SQL | undefined {
  const [first] = terms
  if (!first) return undefined
  if (terms.every(({ descending }) => descending === first.descending)) {
    return compareRows(terms, first.descending)
  }
  // Mixed directions: the first terms are equal and the next one is beyond.
  const cases = terms.map((term, i) =>
    and(
      ...terms.slice(0, i).map((before, j) => sql`${before.expression} = ${toParameter(j, before)}`),
      sql`${term.expression} ${sql.raw(term.descending ? '<' : '>')} ${toParameter(i, term)}`,
    ),
  )
  return and(
    // Implied by the cases; PostgreSQL can use an index of the first term with it.
    sql`${first.expression} ${sql.raw(first.descending ? '<=' : '>=')} ${toParameter(0, first)}`,
    or(...cases),
  )
}

/** Returns the position of a row: the values of the sort's terms, as the database wrote them. */
export const readPosition = (resource: Resource, sorts: readonly Sort[], row: Row): string[] =>
  toSortTerms(resource, sorts).map(({ name, nullText, prefix }) =>
    row[name] === null ? nullText : `${prefix}${row[name]}`,
  )
