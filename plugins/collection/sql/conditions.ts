/** Builds the conditions on rows: access rules, expiry, and filters, limits and search words of lists. */
import { and, eq, gt, gte, lt, lte, or, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Values } from '../../../drizzle/client/prepare.ts'
import { getColumnType, isAnyOf } from '../../../drizzle/expressions.ts'
import { CALLER, getRuleFields, type Rule } from '../../access/index.ts'
import type { Bound, FilterValue, ListFilters } from '../query.ts'
import type { ListScope, Resource } from '../resource.ts'
import { toLikePatterns } from './case-folding.ts'

type Equality = (column: PgColumn, wanted: unknown) => SQL

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

export function getColumn(columns: Record<string, PgColumn>, name: string): PgColumn {
  const column = columns[name]
  if (!column) throw new Error(`There is no column ${name}`)
  return column
}

export const getBoundName = ({ field, operator }: Bound) => `${field} ${operator}`

const comparisons = { '>=': gte, '<=': lte, '<': lt }

/** Returns the text that is the same for all queries with the same conditions, whatever their values. */
export const getFilterShape = ({ filters, bounds, words }: ListFilters): string =>
  [
    Object.entries(filters)
      .map(([name, { length }]) => (length > 1 ? `${name}*` : name))
      .join(),
    bounds.map(getBoundName).join(),
    words.map((word) => hasTrigram(word)).join(),
  ].join('|')

/** Returns whether a word has a trigram for the index: three letters or digits in a row. */
const hasTrigram = (word: string) => /[\p{L}\p{N}]{3}/u.test(word)

/**
 * Without a trigram, PostgreSQL might read the whole trigram index and then all rows: 1.8 s for the total of a million orders,
 * instead of 0.3 s without the index, which does not match this expression.
 */
const buildSearchExpression = (column: PgColumn, word: string) =>
  hasTrigram(word) ? column : sql`${column} || ''`

const EACH_VALUE = sql`v.value`

/** Returns the values of a filter with several as rows `v`. */
export const unnestValues = (name: string, column: PgColumn): SQL =>
  sql`unnest(${sql.placeholder(`filter_${name}`)}::${sql.raw(getColumnType(column))}[]) as v(value)`

interface ConditionOptions {
  equals?: Equality
  /** The filter whose value is that of `unnestValues`. */
  each?: string | undefined
}

export function buildListConditions(
  resource: Resource,
  query: ListFilters,
  scope: ListScope,
  { equals = eq, each }: ConditionOptions = {},
): (SQL | undefined)[] {
  const { columns, parent } = resource
  const buildFilter = ([name, values]: [string, readonly FilterValue[]]) => {
    const column = getColumn(columns, name)
    const wanted = sql.placeholder(`filter_${name}`)
    if (values.length === 1) return equals(column, wanted)
    if (name === each) return equals(column, EACH_VALUE)
    return isAnyOf(column, wanted)
  }
  return [
    scope.parent !== undefined && parent
      ? eq(getColumn(columns, parent.member), sql.placeholder('parent'))
      : undefined,
    ...Object.entries(query.filters).map(buildFilter),
    ...query.bounds.map((bound) =>
      comparisons[bound.operator](getColumn(columns, bound.field), sql.placeholder(getBoundName(bound))),
    ),
    ...query.words.map(
      (word, i) =>
        sql`${buildSearchExpression(getColumn(columns, 'search'), word)} like ${sql.placeholder(`word${i}`)}`,
    ),
    buildRuleCondition(columns, scope.rule, equals),
    buildExpiryCondition(resource),
  ]
}

export function getFilterValues({ filters, bounds, words }: ListFilters): Values {
  const values: Record<string, unknown> = {}
  for (const [name, wanted] of Object.entries(filters)) {
    values[`filter_${name}`] = wanted.length === 1 ? wanted[0] : wanted
  }
  for (const bound of bounds) values[getBoundName(bound)] = bound.value
  for (const [i, pattern] of toLikePatterns(words).entries()) values[`word${i}`] = pattern
  return values
}

/** Returns the columns that have one value in all rows of a list. A rule with alternatives fixes no column. */
export function getFixedColumns({ columns }: Resource, query: ListFilters, rule: Rule): PgColumn[] {
  const ruleFields = typeof rule !== 'boolean' && rule.length === 1 ? getRuleFields(rule) : []
  const filters = Object.entries(query.filters).flatMap(([name, { length }]) => (length === 1 ? [name] : []))
  return [...filters, ...ruleFields].map((name) => getColumn(columns, name))
}
