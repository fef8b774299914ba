/**
 * Reads a list by the relations of its rule. The rows of a caller are found from the caller: first the keys, such as those
 * of the organizations, then the first rows of each in the order of the list. Walking the order instead, PostgreSQL would
 * skip the rows of all other callers.
 */
import { type SQL, sql } from 'drizzle-orm'
import type { Condition, Rule } from '../../access/rules.ts'
import type { ListFilters } from '../query.ts'
import type { ListScope, Resource } from '../resource.ts'
import { buildRuleCondition, getCallerParameter, getColumn } from './conditions.ts'
import { findCallerKeys } from './rule-paths.ts'

/** A part of the rows of a list. No two parts have a row in common. */
export interface CallerRead {
  /** The rule whose rows are all rows of the part. */
  rule: Rule
  /** The condition that no earlier part has the row. */
  isNew: SQL | undefined
  /** A query for the keys in the column `key`, the condition that a row has the key `own.key`, and what else holds. */
  byKeys: { keys: SQL; hasKey: SQL; rule: Rule } | undefined
}

/** Returns the parts of a list; undefined if its rule is to be checked for each row. */
export function listCallerReads(
  resource: Resource,
  { filters }: ListFilters,
  { rule, parent }: ListScope,
): CallerRead[] | undefined {
  // A parent, or a filter by the key, leaves few rows.
  if (typeof rule === 'boolean' || parent !== undefined) return undefined
  const others: Condition[] = []
  const byKeys: { condition: Condition; found: NonNullable<CallerRead['byKeys']> }[] = []
  for (const condition of rule) {
    const found = findCallerKeys(resource, condition, { getCaller: getCallerParameter })
    if (!found || found.local in filters) {
      others.push(condition)
      continue
    }
    const { keys, local } = found
    const hasKey = sql`${getColumn(resource.columns, local)} = own.key`
    byKeys.push({ condition, found: { keys, hasKey, rule: [found.others] } })
  }
  if (byKeys.length === 0) return undefined
  const isNone = (earlier: readonly Condition[]) => {
    const condition = earlier.length > 0 ? buildRuleCondition(resource, earlier) : undefined
    return condition && sql`(${condition}) is not true`
  }
  return [
    ...(others.length > 0 ? [{ rule: others, isNew: undefined, byKeys: undefined }] : []),
    ...byKeys.map(({ condition, found }, i) => ({
      rule: [condition],
      isNew: isNone([...others, ...byKeys.slice(0, i).map((each) => each.condition)]),
      byKeys: found,
    })),
  ]
}
