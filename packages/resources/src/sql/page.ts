/** Reads rows of a list: the values of a query string become a statement. */
import { formatRule, getRuleFields, type Rule } from '@resource-api/api/rules'
import type { Connection } from '@resource-api/database'
import type { StatementsByShape } from '@resource-api/database/client'
import { isExisting } from '@resource-api/database/key'
import { getColumnType } from '@resource-api/database/tables'
import { and, asc, desc, eq, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { ListQuery } from '../definition/query.ts'
import type { ListScope, PageScope, Resource, Select } from '../definition/resource.ts'
import type { Row } from '../definition/store.ts'
import { type ListPart, listCallerParts } from './caller-reads.ts'
import {
  buildExpiryCondition,
  buildRuleCondition,
  type Equality,
  getColumn,
  type ListCondition,
  listConditions,
} from './conditions.ts'
import { invalidCursor } from './cursors.ts'
import { buildAfterCondition, type SortTerm, toSortTerms } from './keyset.ts'
import { DEFAULT_LIMIT } from './reply-size.ts'

type CountedRow = Row & { total_count?: number }

/** Rows read for a page of the default length: one more row shows whether another page follows. */
const DEFAULT_SIZE = DEFAULT_LIMIT + 1

const toOrder = ({ expression, descending }: Pick<SortTerm, 'expression' | 'descending'>) =>
  descending ? desc(expression) : asc(expression)

/** Returns the name of a value by which the parts of a list are merged. No field has a space in its name. */
const toSortKeyName = (i: number) => `sort ${i}`

/** The condition that a column equals a value, with which ORDER BY keeps the column: `=` would drop it. */
const equalsInOrder: Equality = (column, value) =>
  sql`${column} = any(array[${value}]::${sql.raw(getColumnType(column))}[])`

/**
 * Returns the field of the only equality of a list, by a filter or a rule, if an index has the rows of each value in the
 * order of the list. The order then begins with that column, so that PostgreSQL reads this index: it prefers the one of the
 * order where most rows have the value, and reads 3,063 rows instead of 21 where the 3,000 newest ones do not
 * (packages/resources/test/lists/query-plans.isolated.test.ts).
 */
function findLeadingField(
  { columns, indexes, parent }: Resource,
  { filters, bounds }: ListQuery,
  [first]: readonly SortTerm[],
  { rule }: ListScope,
): string | undefined {
  const ruleFields = typeof rule !== 'boolean' && rule.length === 1 ? getRuleFields(rule) : []
  const [field, another] = [...Object.keys(filters), ...ruleFields]
  // A parent leaves few rows.
  if (!first || field === undefined || another !== undefined || parent) return undefined
  if (first.expression !== first.column || bounds.some((bound) => bound.field !== first.name))
    return undefined
  const start = columns[field]?.name
  const hasIndex = indexes.some((index) => index[0] === start && index[1] === first.column.name)
  return hasIndex ? field : undefined
}

/**
 * Returns whether an index has exactly the rows of a page: with one sort and no equality, or the default sort and one. For
 * more, PostgreSQL may have to skip any number of rows. Without batching of such lists, W2 of `bench/` takes 1.6 times the
 * CPU.
 */
function isShort(
  { isView, parent, rowParts, table, unindexed = [] }: Resource,
  { filters, page, sorts }: ListQuery,
  rule: Rule,
): boolean {
  const [sort, another] = sorts
  // The indexes of others are not declared.
  if (rule !== true || isView || isExisting(table) || page !== undefined || !sort || another) return false
  const equalities = [...Object.keys(filters), ...(parent ? [parent.member] : [])]
  if ([sort.name, ...equalities].some((name) => unindexed.includes(name))) return false
  if (Object.values(filters).some((values) => values.length !== 1)) return false
  return equalities.length === 0 || (equalities.length === 1 && sort.name === rowParts.created)
}

/**
 * Adds the number of all rows to those of a page, in one statement and so in one snapshot. The left side has one row, so a
 * nested loop is the only join, and it keeps the order. A page without rows has one of nulls.
 * @param counted the rows to count
 */
const addTotal = (page: SQL, counted: readonly SQL[]): SQL =>
  sql`select total.count as total_count, page.* from (select count(*) from (${sql.join([...counted], sql` union all `)}) as counted) as total
    left join (${page}) as page on true`

/**
 * Creates the function that reads rows of a list.
 * @param selectColumns returns the columns that a response needs
 */
export function createPageReader(
  resource: Resource,
  statements: StatementsByShape,
  selectColumns: (query: ListQuery) => Record<string, PgColumn | SQL.Aliased>,
): Select['page'] {
  const { columns, parent, table } = resource

  const buildPage = (
    db: Connection,
    query: ListQuery,
    scope: PageScope,
    conditions: readonly ListCondition[],
  ): SQL => {
    const terms = toSortTerms(resource, query.sorts)
    const callerParts = listCallerParts(resource, query, scope)
    const leadingField = callerParts ? undefined : findLeadingField(resource, query, terms, scope)
    const leading = leadingField === undefined ? undefined : getColumn(columns, leadingField)
    const equals = leading ? equalsInOrder : eq
    const build = (condition: ListCondition) => condition.build(sql.placeholder(condition.name), equals)

    // The conditions on all rows. Those of each of several values are read in the order of the list, and then merged.
    const several = leading && conditions.find(({ name }) => name === `${leadingField} in`)
    const where = [
      parent && scope.parent !== undefined
        ? eq(getColumn(columns, parent.member), sql.placeholder('parent'))
        : undefined,
      ...conditions.filter((each) => each !== several).map(build),
      buildExpiryCondition(resource),
    ]
    const isAllowed = buildRuleCondition(resource, scope.rule, { equals })
    const values = several && sql`${sql.placeholder(several.name)}::${sql.raw(getColumnType(leading))}[]`
    const parts: readonly ListPart[] | undefined =
      callerParts ??
      (values && [
        { keys: sql`select unnest(${values}) as key`, where: and(isAllowed, equals(leading, sql`own.key`)) },
      ])

    const after = scope.position && buildAfterCondition(terms)
    const [first] = terms
    const order = leading && first ? [{ ...first, expression: leading }, ...terms] : terms
    const selected = selectColumns(query)
    const buildRead = (isPart: SQL | undefined, keys: Record<string, SQL.Aliased> = {}) =>
      db
        .select({ ...selected, ...keys })
        .from(table)
        .where(and(...where, isPart, after))
        .orderBy(...order.map(toOrder))
        .getSQL()

    // PostgreSQL keeps the plan of a statement with a literal limit. With a parameter, it plans each execution, which takes
    // longer than to read 20 rows.
    const isDefaultSize = scope.size === DEFAULT_SIZE
    const limit = isDefaultSize ? sql.raw(String(DEFAULT_SIZE)) : sql.placeholder('limit')
    const hasTotal = query.page !== undefined && !scope.position
    const reach = hasTotal ? sql.placeholder('reach') : limit
    const merge = (merged: readonly ListPart[]) => {
      // The parts have the names of fields, which those of columns, in the expressions of the order, may not be.
      const sortKeys = Object.fromEntries(
        terms.map(({ expression }, i) => [toSortKeyName(i), sql`${expression}`.as(toSortKeyName(i))]),
      )
      const reads = merged.map(({ keys, where: isPart }) => {
        const read = sql`${buildRead(isPart, sortKeys)} limit ${reach}`
        return keys
          ? sql`(select part.* from (${keys}) as own cross join lateral (${read}) as part)`
          : sql`(${read})`
      })
      const names = Object.keys(selected).map((name) => sql.identifier(name))
      const mergedOrder = terms.map((term, i) =>
        toOrder({ ...term, expression: sql.identifier(toSortKeyName(i)) }),
      )
      return sql`select ${sql.join(names, sql`, `)} from (${sql.join(reads, sql` union all `)}) as merged order by ${sql.join(mergedOrder, sql`, `)}`
    }
    const page = sql`${parts ? merge(parts) : buildRead(isAllowed)} limit ${limit}`
    if (!hasTotal) return page

    const whole = callerParts ?? [{ where: and(isAllowed, several && build(several)) }]
    const counted = whole.map(({ keys, where: isPart }: ListPart) => {
      const from = keys ? sql`(${keys}) as own, ${table}` : table
      return sql`select from ${from} where ${and(...where, isPart) ?? sql`true`}`
    })
    return addTotal(sql`${page} offset ${sql.placeholder('offset')}`, counted)
  }

  return async function readPage(connection, query, scope) {
    const { actor, parent: parentId, position, rule, size } = scope
    if (position && position.length < toSortTerms(resource, query.sorts).length) throw invalidCursor()
    const conditions = listConditions(resource, query, actor)
    const hasTotal = query.page !== undefined && !position
    const offset = query.page === undefined ? 0 : (query.page - 1) * query.limit
    const key = JSON.stringify([
      [actor.role, formatRule(rule), parentId === undefined, conditions.map(({ name }) => name), query.sorts],
      [query.fields, query.include, !position, hasTotal, size === DEFAULT_SIZE],
    ])
    // Kept, because Drizzle takes about a third of the CPU of a list to build a statement.
    const build = (db: Connection) => db.execute(buildPage(db, query, scope, conditions))
    // The best index depends on the words and limits: by one plan for all, `price_amount_max=2` reads 7,000 rows instead of 60.
    const customPlan = query.words.length + query.bounds.length + query.conditions.length > 0
    const canBatch = !customPlan && size === DEFAULT_SIZE && isShort(resource, query, rule)
    const statement = statements.get<CountedRow>(key, build, { customPlan, canBatch })
    const rows = await statement(connection, {
      caller: actor.userId,
      parent: parentId,
      limit: size,
      offset,
      reach: offset + size,
      ...Object.fromEntries(conditions.map(({ name, value }) => [name, value])),
      ...Object.fromEntries((position ?? []).map((text, i) => [`at${i}`, text])),
    })
    return hasTotal
      ? { rows: rows.filter(({ id }) => id !== null), total: rows[0]?.total_count }
      : { rows, total: undefined }
  }
}
