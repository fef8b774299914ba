/** Keyset pagination: the position of a row in a sort, and the condition for the rows after it. */
import { and, or, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import { getColumnType } from '../../../drizzle/expressions.ts'
import type { Sort, SortTerm } from '../query.ts'
import type { Resource } from '../resource.ts'
import type { SortKey } from '../resource-table.ts'
import type { Row } from '../store.ts'

export const isColumn = (key: SortKey): key is PgColumn => !('ascending' in key)

function toSortTerm(name: string, key: SortKey, descending: boolean): SortTerm {
  if (isColumn(key)) {
    return { name, expression: key, descending, nullText: '', prefix: '', type: getColumnType(key) }
  }
  const { nulls, prefix = '' } = key
  return {
    name,
    expression: descending ? key.descending : key.ascending,
    descending,
    nullText: descending ? nulls.descending : nulls.ascending,
    prefix: descending ? '' : prefix,
    type: getColumnType(key.column),
  }
}

/** Creates a function that returns the terms of a total order: they end with a unique column, or else with the id. */
export function createSortTerms({ name: resource, sorts: keys, table, uniqueColumns }: Resource) {
  // The default sort, also of a resource that clients cannot sort by it.
  const known: Readonly<Record<string, SortKey>> = { created_at: table.created_at, ...keys }
  return (sorts: readonly Sort[]): SortTerm[] => {
    const terms: SortTerm[] = []
    for (const { name, descending } of sorts) {
      const key = known[name]
      if (!key) throw new Error(`${resource} cannot be sorted by ${name}`)
      terms.push(toSortTerm(name, key, descending))
      if (isColumn(key) && uniqueColumns.has(key.name)) return terms
    }
    return [...terms, toSortTerm('id', table.id, terms.at(-1)?.descending ?? true)]
  }
}

const toCursorParam = (i: number, { type }: SortTerm) => sql`${sql.placeholder(`at${i}`)}::${sql.raw(type)}`

/** Compares whole rows, which PostgreSQL turns into one index condition. */
const compareRows = (terms: readonly SortTerm[], descending: boolean): SQL => {
  const expressions = terms.map(({ expression }) => expression)
  const values = terms.map((term, i) => toCursorParam(i, term))
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
      ...terms.slice(0, i).map((before, j) => sql`${before.expression} = ${toCursorParam(j, before)}`),
      sql`${term.expression} ${sql.raw(term.descending ? '<' : '>')} ${toCursorParam(i, term)}`,
    ),
  )
  return and(
    // Implied by the cases; PostgreSQL can use an index of the first term with it.
    sql`${first.expression} ${sql.raw(first.descending ? '<=' : '>=')} ${toCursorParam(0, first)}`,
    or(...cases),
  )
}

/** Returns the values of the terms in a row, as the database wrote them. */
export const readPosition = (row: Row, terms: readonly SortTerm[]): string[] =>
  terms.map(({ name, nullText, prefix }) => (row[name] === null ? nullText : `${prefix}${row[name]}`))

export function toPositionValues(position: readonly string[] = []): Record<string, string> {
  const values: Record<string, string> = {}
  for (const [i, text] of position.entries()) values[`at${i}`] = text
  return values
}
