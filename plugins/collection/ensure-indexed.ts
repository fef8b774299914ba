/** Checks that the filters and ranges of a resource have indexes, once at boot. */

import type { TSchema } from '@sinclair/typebox'
import type { ResolvedResource } from './resolve.ts'
import { getColumn } from './sql/conditions.ts'

const hasType = (schema: TSchema | undefined, types: readonly string[]) =>
  [schema?.type].flat().some((type) => types.includes(type))

const isTime = (schema: TSchema | undefined) => schema?.format === 'date' || schema?.format === 'date-time'

/**
 * Checks that an index begins with each filter and range of a resource, under a parent after the parent's column, except
 * those that the definition names in `unindexed`.
 * @throws Error that names the resource and the field
 */
export function ensureIndexed(resource: ResolvedResource): void {
  const { name, columns, indexes, filters, ranges = [], unindexed = [], parent } = resource
  const { properties } = resource.schemas.read
  const fields = [...filters, ...ranges]
  const parentColumns = parent ? [getColumn(columns, parent.member).name] : []
  for (const field of fields) {
    if (!properties[field])
      throw new Error(`${name}: "${field}" in filters or ranges is no field of schemas.read`)
    if (unindexed.includes(field)) continue
    const start = [...parentColumns, getColumn(columns, field).name]
    if (indexes.some((index) => start.every((column, i) => index[i] === column))) continue
    throw new Error(
      `${name}: no index begins with (${start.join(', ')}), and "${field}" is in filters or ranges. Add the index to the ` +
        `table, or add "${field}" to unindexed in the definition, with a comment that says why`,
    )
  }
  for (const field of filters) {
    if (
      isTime(properties[field]) ||
      !hasType(properties[field], ['string', 'integer', 'number', 'boolean'])
    ) {
      throw new Error(
        `${name}: "${field}" in filters must be a text, a number or a boolean; a time belongs in ranges`,
      )
    }
  }
  for (const field of ranges) {
    if (isTime(properties[field]) || hasType(properties[field], ['integer', 'number'])) continue
    throw new Error(`${name}: "${field}" in ranges must be an integer, a number, a date or a date-time`)
  }
  for (const field of unindexed) {
    if (!fields.includes(field))
      throw new Error(`${name}: "${field}" in unindexed is in neither filters nor ranges`)
  }
}
