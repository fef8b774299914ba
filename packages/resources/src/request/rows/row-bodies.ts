/** Reads the rows of an import as bodies of creations and changes, in one version. */

import {
  compileBody,
  compileValue,
  type Fields,
  getEnvelope,
  type OpenedBody,
  openBody,
  type Validated,
} from '@resource-api/api/validation'
import type { ResourceWriter } from '@resource-api/api/versions'
import type { RowId } from '@resource-api/database/key'
import { isObject } from '@resource-api/database/values'
import { type TSchema, Type } from '@sinclair/typebox'
import type { FilterValue } from '../../definition/query.ts'
import type { Resource } from '../../definition/resource.ts'
import { buildRowSchema } from '../body-schema.ts'
import { listConflictFields } from '../import-query.ts'

const DATA = 'data.'

const isFilterValue = (value: unknown): value is FilterValue =>
  ['string', 'number', 'boolean'].includes(typeof value)

/**
 * A row may have the form that a resource has in an NDJSON export: `{"id", "type", "attributes"}` in v2. A body has that
 * inside of `data`.
 */
export function createRowBodies(resource: Resource, { buildRow, mappings }: ResourceWriter) {
  const isMapped = resource.name in mappings
  const build = (mode: 'create' | 'update') =>
    buildRow(
      { title: resource.singular, ...buildRowSchema(resource, mode) },
      resource.name,
      isMapped ? mode : undefined,
    )
  const [create, update] = [build('create'), build('update')]
  const hasEnvelope = getEnvelope(create) !== undefined
  const isResource = (row: Fields = {}) => hasEnvelope && 'type' in row && 'attributes' in row
  const toSchema = (name: string): TSchema => {
    const properties = { [name]: resource.schemas.create.properties[name] }
    return Type.Unsafe({ type: 'object', required: [name], properties })
  }
  const readers = new Map(listConflictFields(resource).map((name) => [name, compileValue(toSchema(name))]))
  const validate = { create: compileBody(create), update: compileBody(update) }
  return {
    /** Validates a body as that of a row that does not exist, or that exists. */
    validate,
    /** Returns a body with the fields of the collection, by which it identifies a row. */
    toCollection: (body: Fields): Validated => (isMapped ? validate.update(body) : { value: body }),
    /** Normalizes and validates the field that identifies a row. The value is undefined if it is wrong. */
    readConflict(name: string, members: Fields) {
      const sent = name in members ? { [name]: members[name] } : {}
      const { value, violations = [] } = readers.get(name)?.(sent) ?? {}
      const found = isObject(value) && violations.length === 0 ? value[name] : undefined
      // A field that identifies rows has no other type, and is not null.
      return { value: isFilterValue(found) ? found : undefined, violations }
    },
    /** Returns the body that a row means. */
    toBody(row: Fields): Fields {
      if (!isResource(row)) return row
      // The id is read-only.
      const { id: _, ...data } = row
      return { data }
    },
    /** Returns the fields of a body. @throws ApiError 409 if it has another id */
    open: (body: Fields, id?: RowId): OpenedBody => openBody(create, body, id),
    /** Returns a field of a row, from that of its body. */
    toRowField: (field: string, row: Fields | undefined) =>
      isResource(row) && field.startsWith(DATA) ? field.slice(DATA.length) : field,
  }
}

export type RowBodies = ReturnType<typeof createRowBodies>
