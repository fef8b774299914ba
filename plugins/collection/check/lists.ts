/** Finds filters, ranges and sorts that cannot be compared, that would lose rows, or that have no index. */
import type { TSchema } from '@sinclair/typebox'
import { is, SQL } from 'drizzle-orm'
import { getTableConfig, PgDialect } from 'drizzle-orm/pg-core'
import type { ResourceDefinition } from '../definition.ts'
import { isColumn } from '../sql/keyset.ts'
import { getIndexes } from '../sql/table-facts.ts'
import { createReport } from './names.ts'

const dialect = new PgDialect()

const isTime = (schema: TSchema) => schema.format === 'date' || schema.format === 'date-time'

const hasType = (schema: TSchema, types: readonly string[]) =>
  [schema.type].flat().some((type) => types.includes(type))

const isFilterable = (schema: TSchema) =>
  !isTime(schema) && hasType(schema, ['string', 'integer', 'number', 'boolean'])

const isRangeable = (schema: TSchema) =>
  isTime(schema) ||
  schema.format === 'decimal' ||
  schema.format === 'time-of-day' ||
  hasType(schema, ['integer', 'number'])

/** Returns the mistakes in the filters and ranges of a definition. `names.ts` reports names that do not exist. */
export function findFilterMistakes(definition: ResourceDefinition): string[] {
  const { filters, ranges = [], schemas, table, parent, unindexed = [] } = definition
  const { mistakes, report } = createReport()
  const { properties } = schemas.read
  const indexes = getIndexes(table)
  const check = (part: string, name: string, isAccepted: (type: TSchema) => boolean, requirement: string) => {
    const type = properties[name]
    const isWrong = type !== undefined && !isAccepted(type)
    report(isWrong, `${part} ${requirement}`)
    // Under a parent, an index begins with the parent's column.
    const start = [...(parent ? [parent.member] : []), name]
    const hasIndex = indexes.some((index) => start.every((column, i) => index[i] === column))
    const isKnown = start.every((each) => each in properties && each in table)
    report(
      !isWrong && isKnown && !hasIndex && !unindexed.includes(name),
      `${part} has no index that begins with (${start.join(', ')}); add one, or name it in \`unindexed\` with a comment that says why`,
    )
  }
  for (const name of filters) {
    const requirement = 'must be a text, a number or a boolean; a time belongs in `ranges`'
    check(`filter "${name}"`, name, isFilterable, requirement)
  }
  for (const name of ranges) {
    check(
      `range "${name}"`,
      name,
      isRangeable,
      'must be a number, an integer, a decimal, a date, a date-time or a time of day',
    )
  }
  return mistakes
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

/** Returns the mistakes in the sorts of a definition. `names.ts` reports names that do not exist. */
export function findSortMistakes({ table, sorts, unindexed = [], parent }: ResourceDefinition): string[] {
  const { indexes, columns } = getTableConfig(table)
  const { mistakes, report } = createReport()
  for (const [name, key] of Object.entries(sorts)) {
    const part = `sort "${name}"`
    const own = columns.find((column) => column.name === name)
    if (!own) continue
    const isOther = own !== (isColumn(key) ? key : key.column)
    report(isOther, `${part} is not by the column "${name}" of the table`)
    const isNullable = !isOther && isColumn(key) && !own.notNull
    report(
      isNullable,
      `${part} is by a nullable column; it needs an expression without NULL for each direction`,
    )
    // Constraints have indexes of their own, which begin with no parent.
    const hasConstraint = !parent && (own.primary || own.isUnique)
    if (isOther || isNullable || hasConstraint || unindexed.includes(name)) continue
    for (const order of isColumn(key) ? [key.name] : [key.ascending, key.descending].map(formatExpression)) {
      const wanted = [...(parent ? [parent.member] : []), order].join(', ')
      // The id breaks ties. A unique column has none.
      const hasIndex = indexes.some((index) => {
        const keys = getOrderedKeys(index)
        return keys === `${wanted}, id` || (index.config.unique && keys === wanted)
      })
      const advice = 'add one, or name the sort in `unindexed`'
      report(!hasIndex, `${part} has no index on (${wanted}, id); ${advice}`)
    }
  }
  return mistakes
}
