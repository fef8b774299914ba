/** Reads the rows of an import as bodies of creations and changes, in one version. */
import { compileBody, type Validated } from '../../../validation/body.ts'
import { type Fields, getEnvelope } from '../../../validation/schema-functions.ts'
import type { Representation } from '../../../versioning/representation/types.ts'
import type { Resource } from '../../resource.ts'
import { buildRowSchema } from '../body-schema.ts'

/** What a row does: a new one creates, one that exists changes. */
export type Mode = 'create' | 'update'

const DATA = 'data.'

export interface RowBodies {
  read: Record<Mode, (sent: unknown) => Validated>
  /** Returns the body that a row means. */
  toBody(row: Fields): Fields
  /** Returns a field of a row, from that of its body. */
  toRowField(field: string, row: unknown): string
}

/**
 * A row may have the form that a resource has in an NDJSON export: `{"id", "type", "attributes"}` in v2. A body has that
 * inside of `data`.
 */
export function createRowBodies(resource: Resource, representation: Representation): RowBodies {
  const compile = (mode: Mode) => {
    const fields = buildRowSchema(resource.published, mode)
    return representation.schemas.body({ title: resource.singular, ...fields }, resource.name, true)
  }
  const schemas = { create: compile('create'), update: compile('update') }
  const hasEnvelope = getEnvelope(schemas.create) !== undefined
  const isResource = (row: unknown) =>
    hasEnvelope && typeof row === 'object' && row !== null && 'type' in row && 'attributes' in row
  return {
    read: { create: compileBody(schemas.create), update: compileBody(schemas.update) },
    toBody(row) {
      if (!isResource(row)) return row
      // The id is read-only.
      const { id: _, ...data } = row
      return { data }
    },
    toRowField: (field, row) =>
      isResource(row) && field.startsWith(DATA) ? field.slice(DATA.length) : field,
  }
}
