/** What rows must meet, as SQL. */
import { and, eq, or, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import { CALLER, type Rule } from '../../access/index.ts'
import { value } from './statement-cache.ts'

/** How it is said that a column has a value. */
export type Equality = (column: PgColumn, wanted: unknown) => SQL

const wantedOf = (wanted: string | typeof CALLER) => (wanted === CALLER ? value('caller') : wanted)

/** A rule as a condition on rows, whose `caller` is a value; undefined where it lets all through. */
export function ruleCondition(
  columns: Record<string, PgColumn>,
  rule: Rule,
  equals: Equality = eq,
): SQL | undefined {
  if (rule === true) return undefined
  if (rule === false) return sql`false`
  return or(
    ...rule.map((condition) =>
      and(
        ...Object.entries(condition).map(([member, wanted]) =>
          equals(columnOf(columns, member), wantedOf(wanted)),
        ),
      ),
    ),
  )
}

export function columnOf(columns: Record<string, PgColumn>, name: string): PgColumn {
  const column = columns[name]
  if (!column) throw new Error(`There is no column ${name}`)
  return column
}
