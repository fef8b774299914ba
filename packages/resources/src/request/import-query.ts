/** The query string of an import. */
import { OneOf } from '@resource-api/api/schemas'
import type { FieldMappings } from '@resource-api/api/versions'
import { type TObject, Type } from '@sinclair/typebox'
import type { Resource } from '../definition/resource.ts'
import { dryRunParameter } from '../dry-run.ts'
import { getFieldNames } from './version-fields.ts'

/** Rows that count as one request. */
export const ROWS_PER_COST = 100

/** Returns the fields by which an import can find rows, unique ones that a creation sets. */
export const listConflictFields = ({ schemas, uniqueColumns, verbs }: Resource): string[] => {
  if (verbs && !verbs.includes('update')) return []
  return Object.keys(schemas.create.properties).filter((name) => uniqueColumns.has(name))
}

export function buildImportQuery(resource: Resource, mappings: FieldMappings): TObject {
  const { toVersion } = getFieldNames(resource, mappings)
  const fields = listConflictFields(resource).flatMap((name) => toVersion(name) ?? [])
  return Type.Object(
    {
      ...(fields.length > 0 && { on_conflict: Type.Optional({ ...OneOf(fields), 'x-documented': false }) }),
      ...dryRunParameter,
    },
    { additionalProperties: false },
  )
}
