/** Checks lists: parameters with one meaning, prefixes that are found, and an index for each filter, range and sort. */
import { isExisting } from '@resource-api/database/key'
import { type TSchema, Type } from '@sinclair/typebox'
import { getTableColumns } from 'drizzle-orm'
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core'
import type { ResourceDefinition } from '../definition/definition.ts'
import {
  buildListParameters,
  listConditionParameters,
  listValues,
  type QueriedResource,
} from '../request/parameters.ts'
import { getFoldedField } from '../sql/conditions.ts'
import { isColumn } from '../sql/keyset.ts'
import { formatExpression, hasIndex, listIndexes } from './indexes.ts'
import { quoteAll } from './names.ts'

const hasType = ({ type }: TSchema, wanted: string) => [type].flat().includes(wanted)

const isLine = (schema: TSchema) => hasType(schema, 'string') && !schema['x-multiline']

/** A definition, whose relations are only asked for their filters. */
type Listed = Omit<QueriedResource, 'relations'> &
  Pick<ResourceDefinition, 'aggregates'> & {
    relations: Readonly<Record<string, { filters?: readonly string[] }>>
  }

/** Returns the parameters of a list, or of its aggregates, that are the names of two. */
export function* findRepeatedParameters(definition: Listed): Generator<string> {
  const { aggregates, filters, ranges = [], relations } = definition
  const without = { filters: [], ranges: [], negations: [], nullChecks: [], prefixes: [], relations: {} }
  const names = [
    ...Object.keys(buildListParameters({ ...definition, ...without }).properties),
    ...(Object.keys(relations).length > 0 ? ['include'] : []),
    // Aggregates have the filters of the list.
    ...(aggregates ? ['measures', 'group_by'] : []),
    ...filters,
    ...ranges.flatMap((name) => [`${name}_min`, `${name}_max`]),
    ...listConditionParameters(definition).map(({ parameter }) => parameter),
  ]
  for (const [i, name] of names.entries())
    if (names.indexOf(name) !== i)
      yield `"${name}" cannot be the name of a filter: lists have a parameter with that name`
}

/** @param byTable all definitions */
export function* findListMistakes(
  definition: ResourceDefinition,
  byTable: ReadonlyMap<PgTable, ResourceDefinition>,
): Generator<string> {
  const { filters, ranges = [], negations = [], nullChecks = [], prefixes = [] } = definition
  const { isView, search, sorts, relations, schemas, table, parent, unindexed = [] } = definition
  const getSchema = (name: string): TSchema => schemas.read.properties[name] ?? Type.Never()
  // PostgreSQL refuses some times that the format accepts; those of `ranges` are checked.
  const isTime = (name: string) => ['date', 'date-time'].includes(getSchema(name).format ?? '')
  // While no resource is stored in the table of a relation, there is no such relation.
  const related = Object.entries(relations).flatMap(([name, { to, filters: fields = [], ...relation }]) => {
    const target = byTable.get(to)
    return target ? fields.map((field) => ({ ...relation, name, field, target })) : []
  })

  for (const name of filters.filter((each) => each !== 'id' && isTime(each)))
    yield `filter "${name}" must be a text, a number or a boolean; a time belongs in \`ranges\``
  for (const name of negations) {
    const isUnindexed = [name, `${name}_not`].some((each) => unindexed.includes(each))
    if (!filters.includes(name)) yield `negation "${name}" is not one of the filters`
    else if (!isUnindexed && !listValues(definition, name))
      yield `negation "${name}" has no index, since it is no enum and no boolean; name "${name}_not" in \`unindexed\` with a comment that says why`
  }
  for (const { name, field, target, many, through } of related) {
    const part = `filters of relation "${name}"`
    if (many || through) yield `${part} require a relation to one row, without a join table`
    if (!target.filters.includes(field))
      yield `${part}: "${field}" is not a filter of ${target.name}; there are ${quoteAll(target.filters)}`
  }
  yield* findRepeatedParameters(definition)

  const indexes = listIndexes(table)
  /** Returns how an index has to begin, unless there is one. Below a parent, it begins with the parent's column. */
  const findMissing = (parameter: string, keys: readonly string[]): string | undefined => {
    const start = [...new Set([...(parent ? [parent.member] : []), ...keys])]
    // Which indexes a view reads, and which a table of others has, only the database knows.
    return isView || isExisting(table) || unindexed.includes(parameter) || hasIndex(indexes, start)
      ? undefined
      : start.join(', ')
  }
  for (const [part, parameter, column] of [
    ...filters.filter((name) => !isTime(name)).map((name) => [`filter "${name}" has`, name, name] as const),
    ...ranges.map((name) => [`range "${name}" has`, name, name] as const),
    ...nullChecks.map((name) => [`null check "${name}" has`, `${name}_null`, name] as const),
    ...related.map(
      ({ name, field, local }) => [`filters of relation "${name}" have`, `${name}.${field}`, local] as const,
    ),
  ]) {
    const missing = findMissing(parameter, [column])
    const named = parameter === column ? 'it' : `"${parameter}"`
    if (missing)
      yield `${part} no index that begins with (${missing}); add one, or name ${named} in \`unindexed\` with a comment that says why`
  }
  for (const [name, key] of Object.entries(sorts)) {
    const orders = isColumn(key) ? [key.name] : [key.ascending, key.descending].map(formatExpression)
    for (const order of orders) {
      const missing = findMissing(name, [order, 'id'])
      if (missing)
        yield `sort "${name}" has no index on (${missing}); add one, or name the sort in \`unindexed\``
    }
  }
  const columns: Readonly<Record<string, PgColumn>> = getTableColumns(table)
  for (const name of prefixes) {
    const before = search.slice(0, search.indexOf(name)).map(getSchema)
    if (!search.includes(name) || !isLine(getSchema(name)))
      yield `prefix "${name}" must be a text of one line that is searched`
    else if (before.some((schema) => !isLine(schema) || hasType(schema, 'null')))
      yield `prefix "${name}" must stand in \`search\` before texts that are null or have several lines`
    else if (columns.search) {
      const folded = getFoldedField({ columns, search }, name)
      const missing = findMissing(`${name}_prefix`, [formatExpression(folded)])
      if (missing)
        yield `prefix "${name}" has no index that begins with (${missing}); add one with \`foldedLine\`, or name "${name}_prefix" in \`unindexed\``
    }
  }
}
