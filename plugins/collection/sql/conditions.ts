/** Builds SQL conditions from access rules. */
import { and, eq, gt, or, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import { CALLER, type Rule } from '../../access/index.ts'

/** Builds the condition that a column equals a value. */
export type Equality = (column: PgColumn, wanted: unknown) => SQL

/**
 * Builds an access rule as a condition on rows.
 * @returns SQL with the parameter `caller`; undefined if the rule allows all rows
 */
export function buildRuleCondition(
  columns: Record<string, PgColumn>,
  rule: Rule,
  equals: Equality = eq,
): SQL | undefined {
  if (rule === true) return undefined
  if (rule === false) return sql`false`
  return or(
    ...rule.map((condition) =>
      and(
        ...Object.entries(condition).map(([name, wanted]) =>
          equals(getColumn(columns, name), wanted === CALLER ? sql.placeholder('caller') : wanted),
        ),
      ),
    ),
  )
}

/** Builds the condition that a row has not expired; undefined if the rows of the resource do not expire. */
export const buildExpiryCondition = ({ expiry }: { expiry?: PgColumn }): SQL | undefined =>
  expiry && gt(expiry, sql`now()`)

/** @throws Error if the table has no such column */
export function getColumn(columns: Record<string, PgColumn>, name: string): PgColumn {
  const column = columns[name]
  if (!column) throw new Error(`There is no column ${name}`)
  return column
}
