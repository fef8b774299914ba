/** Finds sorts that would lose rows, or that have no index. */
import { is, SQL } from 'drizzle-orm'
import { getTableConfig, type PgColumn, PgDialect } from 'drizzle-orm/pg-core'
import type { ResourceDefinition } from '../definition.ts'
import type { SortKey } from '../resource-table.ts'
import { isColumn } from '../sql/keyset.ts'

const dialect = new PgDialect()

/** Returns an expression as text, without the parentheses that an index needs around it. */
function formatExpression(expression: SQL): string {
  const text = dialect.sqlToQuery(expression).sql
  return text.startsWith('(') && text.endsWith(')') ? text.slice(1, -1) : text
}

type Index = ReturnType<typeof getTableConfig>['indexes'][number]

/** Returns the columns and expressions of an index over all rows that has an order; undefined for another. */
function getOrderedKeys({ config }: Index): string[] | undefined {
  if (config.where || (config.method ?? 'btree') !== 'btree') return undefined
  return config.columns.flatMap((column) => {
    if (is(column, SQL)) return formatExpression(column)
    return 'name' in column ? String(column.name) : []
  })
}

const getColumn = (key: SortKey): PgColumn => (isColumn(key) ? key : key.column)

/** Returns the column or the expressions that rows are ordered by. */
const getOrders = (key: SortKey): string[] =>
  isColumn(key) ? [key.name] : [key.ascending, key.descending].map(formatExpression)

/** Returns the mistakes in the sorts of a definition. */
export function findSortMistakes({ table, sorts, unindexed = [], parent }: ResourceDefinition): string[] {
  const { indexes, columns } = getTableConfig(table)
  const indexKeys = indexes.map((index) => ({
    isUnique: index.config.unique,
    keys: getOrderedKeys(index)?.join(', '),
  }))
  const prefix = parent ? [parent.member] : []
  const hasIndex = (order: string) => {
    const wanted = [...prefix, order].join(', ')
    // The id breaks ties. A unique column has none.
    return indexKeys.some(({ isUnique, keys }) => keys === `${wanted}, id` || (isUnique && keys === wanted))
  }
  return Object.entries(sorts).flatMap(([name, key]) => {
    const part = `sort "${name}"`
    const own = columns.find((column) => column.name === name)
    // `names.ts` reports other names.
    if (!own) return []
    if (own !== getColumn(key)) return [`${part} is not by the column "${name}" of the table`]
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
