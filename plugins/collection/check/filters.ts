/** Finds filters and ranges that have no index, or whose type cannot be compared. */
import type { TSchema } from '@sinclair/typebox'
import type { ResourceDefinition } from '../definition.ts'
import { getIndexes } from '../resolve.ts'

const hasType = (schema: TSchema | undefined, types: readonly string[]) =>
  [schema?.type].flat().some((type) => types.includes(type))

const isTime = (schema: TSchema | undefined) => schema?.format === 'date' || schema?.format === 'date-time'

/** Returns the filters and ranges that no index begins with, under a parent after the parent's column. */
function findUnindexed(definition: ResourceDefinition): string[] {
  const { table, schemas, filters, ranges = [], unindexed = [], parent } = definition
  // `names.ts` reports other names.
  const isField = (name: string) => name in table && name in schemas.read.properties
  if (parent && !isField(parent.member)) return []
  const indexes = getIndexes(table)
  const prefix = parent ? [parent.member] : []
  return [...filters.map((name) => ['filter', name]), ...ranges.map((name) => ['range', name])].flatMap(
    ([part = '', name = '']) => {
      const start = [...prefix, name]
      if (unindexed.includes(name) || !isField(name)) return []
      if (indexes.some((index) => start.every((column, i) => index[i] === column))) return []
      return [
        `${part} "${name}" has no index that begins with (${start.join(', ')}); add one, or name it in \`unindexed\` with a comment that says why`,
      ]
    },
  )
}

/** Returns the mistakes in the filters and ranges of a definition. */
export function findFilterMistakes(definition: ResourceDefinition): string[] {
  const { filters, ranges = [], schemas } = definition
  const { properties } = schemas.read
  const isFilterable = (name: string) =>
    !isTime(properties[name]) && hasType(properties[name], ['string', 'integer', 'number', 'boolean'])
  const isComparable = (name: string) =>
    isTime(properties[name]) || hasType(properties[name], ['integer', 'number'])
  return [
    ...filters
      .filter((name) => name in properties && !isFilterable(name))
      .map((name) => `filter "${name}" must be a text, a number or a boolean; a time belongs in \`ranges\``),
    ...ranges
      .filter((name) => name in properties && !isComparable(name))
      .map((name) => `range "${name}" must be a number, an integer, a date or a date-time`),
    ...findUnindexed(definition),
  ]
}
