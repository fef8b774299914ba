/** Finds filters, ranges and sorts that cannot be compared, that would lose rows, that have no index, or no name of their own. */
import type { TSchema } from '@sinclair/typebox'
import { getTableColumns, is, SQL } from 'drizzle-orm'
import { getTableConfig, PgDialect } from 'drizzle-orm/pg-core'
import type { ResourceDefinition } from '../definition.ts'
import { buildListParameters, listConditionParameters, listValues } from '../request/parameters.ts'
import type { ResourceTable } from '../resource-table.ts'
import { getFoldedField } from '../sql/conditions.ts'
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

const canBeNull = (schema: TSchema) => hasType(schema, ['null'])

const isLine = (schema: TSchema) => hasType(schema, ['string']) && !schema['x-multiline']

/** Returns the parameters of a list that are the names of two. */
export function listRepeatedParameters(definition: ResourceDefinition): string[] {
  const { filters, ranges = [], relations } = definition
  const without = { filters: [], ranges: [], negations: [], nullChecks: [], prefixes: [], relations: {} }
  const names = [
    ...Object.keys(buildListParameters({ ...definition, ...without }).properties),
    ...(Object.keys(relations).length > 0 ? ['include'] : []),
    ...new Set(filters),
    ...[...new Set(ranges)].flatMap((name) => [`${name}_min`, `${name}_max`]),
    ...new Set(listConditionParameters(definition).map(({ parameter }) => parameter)),
  ]
  return [...new Set(names.filter((name, i) => names.indexOf(name) !== i))]
}

/** Returns the mistakes in the filters and ranges of a definition. `names.ts` reports names that do not exist. */
export function findFilterMistakes(definition: ResourceDefinition): string[] {
  const { filters, ranges = [], negations = [], nullChecks = [], prefixes = [] } = definition
  const { search, schemas, table, parent, unindexed = [] } = definition
  const { mistakes, report } = createReport()
  const { properties } = schemas.read
  const indexes = getIndexes(table)
  const check = (
    part: string,
    name: string,
    isAccepted: (type: TSchema) => boolean,
    requirement: string,
    parameter = name,
  ) => {
    const type = properties[name]
    const isWrong = type !== undefined && !isAccepted(type)
    report(isWrong, `${part} ${requirement}`)
    // Under a parent, an index begins with the parent's column.
    const start = [...(parent ? [parent.member] : []), name]
    const hasIndex = indexes.some((index) => start.every((column, i) => index[i] === column))
    const isKnown = start.every((each) => each in properties && each in table)
    report(
      !isWrong && isKnown && !hasIndex && !unindexed.includes(parameter),
      `${part} has no index that begins with (${start.join(', ')}); add one, or name ${parameter === name ? 'it' : `"${parameter}"`} in \`unindexed\` with a comment that says why`,
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
  for (const name of negations) {
    const part = `negation "${name}"`
    report(!filters.includes(name), `${part} is not one of the filters`)
    const isIndexed = listValues(definition, name) !== undefined || unindexed.includes(name)
    report(
      filters.includes(name) && !isIndexed && !unindexed.includes(`${name}_not`),
      `${part} has no index, since it is no enum and no boolean; name "${name}_not" in \`unindexed\` with a comment that says why`,
    )
  }
  for (const name of nullChecks) {
    check(`null check "${name}"`, name, canBeNull, 'must be of a field that can be null', `${name}_null`)
  }
  const keys = getTableConfig(table).indexes.map(getOrderedKeys)
  for (const name of prefixes) {
    const part = `prefix "${name}"`
    const place = search.indexOf(name)
    const before = search.slice(0, Math.max(place, 0)).flatMap((each) => properties[each] ?? [])
    const type = properties[name]
    const isWrong = place === -1 || !type || !isLine(type)
    report(isWrong, `${part} must be a text of one line that is searched`)
    const isMoved = before.some((schema) => canBeNull(schema) || !isLine(schema))
    report(
      !isWrong && isMoved,
      `${part} must stand in \`search\` before texts that are null or have several lines`,
    )
    if (isWrong || isMoved || !('search' in table) || unindexed.includes(`${name}_prefix`)) continue
    const folded = formatExpression(getFoldedField({ columns: getTableColumns(table), search }, name))
    const wanted = [...(parent ? [parent.member] : []), folded].join(', ')
    const hasIndex = keys.some((each) => each === wanted || each?.startsWith(`${wanted}, `))
    const advice = `name "${name}_prefix" in \`unindexed\``
    report(
      !hasIndex,
      `${part} has no index that begins with (${wanted}); add one with \`foldedLine\`, or ${advice}`,
    )
  }
  for (const name of listRepeatedParameters(definition)) {
    report(true, `"${name}" cannot be the name of a filter: lists have a parameter with that name`)
  }
  return mistakes
}

/** Returns the mistakes in the filters of relations. Of a relation to a table without a resource there are none. */
export function findRelatedFilterMistakes(
  { relations, table, parent, unindexed = [] }: ResourceDefinition,
  byTable: ReadonlyMap<ResourceTable, ResourceDefinition>,
): string[] {
  const { mistakes, report } = createReport()
  const indexes = getIndexes(table)
  for (const [name, { to, local, many, through, filters = [] }] of Object.entries(relations)) {
    const target = byTable.get(to)
    if (!target || filters.length === 0) continue
    const part = `filters of relation "${name}"`
    report(many || through !== undefined, `${part} require a relation to one row, without a join table`)
    const start = [...new Set([...(parent ? [parent.member] : []), local])]
    const hasIndex = indexes.some((index) => start.every((column, i) => index[i] === column))
    for (const field of filters) {
      const known = target.filters.map((each) => `"${each}"`).join(', ')
      report(
        !target.filters.includes(field),
        `${part}: "${field}" is not a filter of ${target.name}; there are ${known}`,
      )
      report(
        !hasIndex && !unindexed.includes(`${name}.${field}`),
        `${part} have no index that begins with (${start.join(', ')}); add one, or name "${name}.${field}" in \`unindexed\` with a comment that says why`,
      )
    }
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
