/**
 * The parts of a list whose rule has relations. The rows of a caller are found from the caller: first the keys, such as those
 * of the organizations, then the first rows of each. Without, PostgreSQL reads all rows of these organizations for a page: 4
 * times as many where each has 100 rows (packages/resources/test/lists/relation-plans.isolated.test.ts).
 */
import type { Condition } from '@resource-api/api/rules'
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type { ListFilters } from '../definition/query.ts'
import type { ListScope, Resource } from '../definition/resource.ts'
import { buildRuleCondition, getCallerParameter, getColumn } from './conditions.ts'
import { type CallerKeys, findCallerKeys } from './rule-paths.ts'

/** Rows of a list that are read together. No two parts of a list have a row in common. */
export interface ListPart {
  /** A query for keys in the column `key`, for each of which rows are read. */
  keys?: SQL | undefined
  /** Which rows of the list are in the part, with `own.key` as the key. */
  where: SQL | undefined
}

/** Returns the parts of a list; undefined if its rule is to be checked for each row. */
export function listCallerParts(
  resource: Resource,
  { filters }: ListFilters,
  { rule, parent }: ListScope,
): ListPart[] | undefined {
  // A parent, or a filter by the key, leaves few rows.
  if (typeof rule === 'boolean' || parent !== undefined) return undefined
  const others: Condition[] = []
  const found: { condition: Condition; callerKeys: CallerKeys }[] = []
  for (const condition of rule) {
    const callerKeys = findCallerKeys(resource, condition, { getCaller: getCallerParameter })
    if (callerKeys && !(callerKeys.local in filters)) found.push({ condition, callerKeys })
    else others.push(condition)
  }
  if (found.length === 0) return undefined
  const parts: ListPart[] = others.length > 0 ? [{ where: buildRuleCondition(resource, others) }] : []
  for (const { condition, callerKeys } of found) {
    const { keys, local, others: rest } = callerKeys
    const isEarlier = others.length > 0 ? buildRuleCondition(resource, others) : undefined
    const hasKey = eq(getColumn(resource.columns, local), sql`own.key`)
    const isNew = isEarlier && sql`(${isEarlier}) is not true`
    parts.push({ keys, where: and(hasKey, buildRuleCondition(resource, [rest]), isNew) })
    others.push(condition)
  }
  return parts
}
