/** Where a row stands in a sort, and the condition for the rows after it: what pages of any depth cost the same by. */
import { and, or, type SQL, type SQLWrapper, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Row, SortKey } from '../definition.ts'
import type { Sort } from '../request/list-query.ts'
import type { ResolvedResource } from '../resolve.ts'
import { value } from './statement-cache.ts'

const isColumn = (key: SortKey): key is PgColumn => !('ascending' in key)

const sortExpression = (key: SortKey, descending: boolean): SQLWrapper =>
  isColumn(key) ? key : descending ? key.descending : key.ascending

/** The type that a column's value is read as from text. */
export const typeOf = (column: PgColumn): string => column.getSQLType().replace(/ collate .*/i, '')

/** What the sort compares, as a cursor says it; the id ends it, unless no two rows can be alike by then. */
export interface Term {
  name: string
  expression: SQLWrapper
  descending: boolean
  /** In place of NULL. */
  ofNull: string
  /** Before any other value. */
  prefix: string
  /** The PostgreSQL type to read a cursor's text as. */
  type: string
}

export function termsOf(resource: ResolvedResource, sorts: readonly Sort[]): Term[] {
  const terms = sorts.map(({ name, descending }): Term => {
    const key = resource.sorts[name]
    if (!key) throw new Error(`${resource.name} cannot be sorted by ${name}`)
    const column = isColumn(key) ? key : key.column
    const nulls = isColumn(key) ? '' : descending ? key.nulls.descending : key.nulls.ascending
    const prefix = isColumn(key) || descending ? '' : (key.prefix ?? '')
    return {
      name,
      expression: sortExpression(key, descending),
      descending,
      ofNull: nulls,
      prefix,
      type: typeOf(column),
    }
  })
  const decided = sorts.findIndex(({ name }) => {
    const key = resource.sorts[name]
    return key !== undefined && isColumn(key) && resource.uniqueColumns.has(key.name)
  })
  if (decided >= 0) return terms.slice(0, decided + 1)
  const last = terms.at(-1)
  return [
    ...terms,
    {
      name: 'id',
      expression: resource.table.id,
      descending: last?.descending ?? true,
      ofNull: '',
      prefix: '',
      type: 'uuid',
    },
  ]
}

const cursorValue = (i: number, term: Term) => sql`${value(`at${i}`)}::${sql.raw(term.type)}`

/** Rows after a position, whose values are `at0`, `at1`, .... Where all go one way, a comparison of rows, which an index walks to at once. */
export function after(terms: readonly Term[]): SQL | undefined {
  const down = terms[0]?.descending ?? false
  if (terms.every(({ descending }) => descending === down)) {
    const keys = sql.join(
      terms.map(({ expression }) => expression),
      sql`, `,
    )
    const values = sql.join(
      terms.map((term, i) => cursorValue(i, term)),
      sql`, `,
    )
    return sql`(${keys}) ${sql.raw(down ? '<' : '>')} (${values})`
  }
  // Mixed directions: equal in the first ones and beyond in the next. The bound on the first alone lets its index help.
  const beyond = (term: Term, i: number) =>
    sql`${term.expression} ${sql.raw(term.descending ? '<' : '>')} ${cursorValue(i, term)}`
  const cases = terms.map((term, i) =>
    and(
      ...terms.slice(0, i).map((before, j) => sql`${before.expression} = ${cursorValue(j, before)}`),
      beyond(term, i),
    ),
  )
  const first = terms[0]
  if (!first) return undefined
  return and(
    sql`${first.expression} ${sql.raw(first.descending ? '<=' : '>=')} ${cursorValue(0, first)}`,
    or(...cases),
  )
}

/** A row's position: what its terms compare, as the database wrote them. */
export const positionOf = (row: Row, terms: readonly Term[]): string[] =>
  terms.map(({ name, ofNull, prefix }) => (row[name] === null ? ofNull : `${prefix}${row[name]}`))

/** A position as the values of the condition. */
export const positionValues = (position: readonly string[] | undefined): Record<string, string> =>
  Object.fromEntries((position ?? []).map((text, i) => [`at${i}`, text]))
