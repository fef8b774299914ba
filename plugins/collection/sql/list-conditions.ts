/** The conditions that the rows of a list meet: filters, dates, search words, parent and access rule. */
import { eq, gte, lt, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import { type Actor, getRuleFields, type Rule } from '../../access/index.ts'
import type { ResolvedResource } from '../resolve.ts'
import { toLikePatterns } from './case-folding.ts'
import { buildRuleCondition, type Equality, getColumn } from './conditions.ts'
import { param, type Values } from './statements.ts'

/** The conditions of a query string. */
export interface ListFilters {
  filters: Readonly<Record<string, string>>
  createdAfter: string | undefined
  createdBefore: string | undefined
  words: readonly string[]
}

/** The rows that a list may contain: those under a parent, and those that a rule lets the caller read. */
export interface ListScope {
  rule: Rule
  actor: Actor
  /** The id of the parent in the path; undefined if the resource has no parent. */
  parent: string | undefined
}

/** Dates of `created_after` and `created_before` begin at midnight UTC. */
const MIDNIGHT = 'T00:00:00Z'

/** Returns the text that is the same for all queries with the same conditions, whatever their values. */
export const getFilterShape = (query: ListFilters): string =>
  [
    Object.keys(query.filters).join(),
    query.createdAfter === undefined ? '' : 'a',
    query.createdBefore === undefined ? '' : 'b',
    query.words.length,
  ].join('|')

/** @param equals builds the condition that a column has a value */
export function buildListConditions(
  { columns, parent, table }: ResolvedResource,
  query: ListFilters,
  scope: ListScope,
  equals: Equality = eq,
): (SQL | undefined)[] {
  return [
    scope.parent !== undefined && parent ? eq(getColumn(columns, parent.member), param('parent')) : undefined,
    ...Object.keys(query.filters).map((name) => equals(getColumn(columns, name), param(`filter_${name}`))),
    query.createdAfter === undefined ? undefined : gte(table.created_at, param('after')),
    query.createdBefore === undefined ? undefined : lt(table.created_at, param('before')),
    ...query.words.map((_, i) => sql`${getColumn(columns, 'search')} like ${param(`word${i}`)}`),
    buildRuleCondition(columns, scope.rule, equals),
  ]
}

/** Returns the values of the parameters that depend on the query string. */
export const getFilterValues = (query: ListFilters): Values => ({
  ...Object.fromEntries(Object.entries(query.filters).map(([name, wanted]) => [`filter_${name}`, wanted])),
  ...(query.createdAfter === undefined ? {} : { after: query.createdAfter + MIDNIGHT }),
  ...(query.createdBefore === undefined ? {} : { before: query.createdBefore + MIDNIGHT }),
  ...Object.fromEntries(toLikePatterns(query.words).map((pattern, i) => [`word${i}`, pattern])),
})

/** Returns the columns that have one value in all rows of a list. A rule with alternatives fixes no column. */
export function getFixedColumns({ columns }: ResolvedResource, query: ListFilters, rule: Rule): PgColumn[] {
  const ruleFields = typeof rule !== 'boolean' && rule.length === 1 ? getRuleFields(rule) : []
  return [...Object.keys(query.filters), ...ruleFields].map((name) => getColumn(columns, name))
}
