/** Finds filters, ranges and sorts that cannot be compared, that would lose rows, or that have no index. */
import type { TSchema } from '@sinclair/typebox'
import { is, SQL } from 'drizzle-orm'
import { getTableConfig, PgDialect } from 'drizzle-orm/pg-core'
import type { ResourceDefinition } from '../definition.ts'
import type { SortKey } from '../resource-table.ts'
import { isColumn } from '../sql/keyset.ts'
import { getIndexes } from '../sql/table-facts.ts'

const dialect = new PgDialect()

const isTime = (schema: TSchema | undefined) => schema?.format === 'date' || schema?.format === 'date-time'

const hasType = (schema: TSchema | undefined, types: readonly string[]) =>
  [schema?.type].flat().some((type) => types.includes(type))

/** Returns the mistakes in the filters and ranges of a definition. `names.ts` reports names that do not exist. */
export function findFilterMistakes(definition: ResourceDefinition): string[] {
  const { filters, ranges = [], schemas, table, parent, unindexed = [] } = definition
  const { properties } = schemas.read
  const prefix = parent ? [parent.member] : []
  const isField = (name: string) => name in properties && name in table
  /** Returns a mistake if no index begins with the field, under a parent after the parent's column. */
  const findUnindexed = (part: string, name: string): string[] => {
    const start = [...prefix, name]
    const hasIndex = getIndexes(table).some((index) => start.every((column, i) => index[i] === column))
    if (hasIndex || unindexed.includes(name) || !start.every(isField)) return []
    return [
      `${part} has no index that begins with (${start.join(', ')}); add one, or name it in \`unindexed\` with a comment that says why`,
    ]
  }
  return [
    ...filters.flatMap((name) => {
      const part = `filter "${name}"`
      const type = properties[name]
      const isFilterable = !isTime(type) && hasType(type, ['string', 'integer', 'number', 'boolean'])
      return !type || isFilterable
        ? findUnindexed(part, name)
        : [`${part} must be a text, a number or a boolean; a time belongs in \`ranges\``]
    }),
    ...ranges.flatMap((name) => {
      const part = `range "${name}"`
      const type = properties[name]
      return !type || isTime(type) || hasType(type, ['integer', 'number'])
        ? findUnindexed(part, name)
        : [`${part} must be a number, an integer, a date or a date-time`]
    }),
  ]
}

/** Returns an expression as text, without the parentheses that an index needs around it. */
function formatExpression(expression: SQL): string {
  const text = dialect.sqlToQuery(expression).sql
  return text.startsWith('(') && text.endsWith(')') ? text.slice(1, -1) : text
}

type Index = ReturnType<typeof getTableConfig>['indexes'][number]

/** Returns the columns and expressions of an index over all rows that has an order; undefined for another. */
function getOrderedKeys({ config }: Index): string | undefined {
  if (config.where || (config.method ?? 'btree') !== 'btree') return undefined
  const keys = config.columns.flatMap((column) => {
    if (is(column, SQL)) return formatExpression(column)
    return 'name' in column ? String(column.name) : []
  })
  return keys.join(', ')
}

/** Returns the column or the expressions that rows are ordered by. */
const getOrders = (key: SortKey): string[] =>
  isColumn(key) ? [key.name] : [key.ascending, key.descending].map(formatExpression)

/** Returns the mistakes in the sorts of a definition. `names.ts` reports names that do not exist. */
export function findSortMistakes({ table, sorts, unindexed = [], parent }: ResourceDefinition): string[] {
  const { indexes, columns } = getTableConfig(table)
  const prefix = parent ? [parent.member] : []
  // The id breaks ties. A unique column has none.
  const hasIndex = (order: string) => {
    const wanted = [...prefix, order].join(', ')
    return indexes.some((index) => {
      const keys = getOrderedKeys(index)
      return keys === `${wanted}, id` || (index.config.unique && keys === wanted)
    })
  }
  return Object.entries(sorts).flatMap(([name, key]) => {
    const part = `sort "${name}"`
    const own = columns.find((column) => column.name === name)
    if (!own) return []
    if (own !== (isColumn(key) ? key : key.column)) {
      return [`${part} is not by the column "${name}" of the table`]
    }
    if (isColumn(key) && !own.notNull) {
      return [`${part} is by a nullable column; it needs an expression without NULL for each direction`]
    }
    // Constraints have indexes of their own, which begin with no parent.
    const hasConstraint = !parent && (own.primary || own.isUnique)
    if (hasConstraint || unindexed.includes(name)) return []
    const missing = getOrders(key).filter((order) => !hasIndex(order))
    return missing.map(
      (order) =>
        `${part} has no index on (${[...prefix, order, 'id'].join(', ')}); add one, or name the sort in \`unindexed\``,
    )
  })
}
