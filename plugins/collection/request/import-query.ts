/** The query string of an import. */
import { type TObject, type TProperties, Type } from '@sinclair/typebox'
import { OneOf } from '../../../schemas/types.ts'
import type { Resource } from '../resource.ts'

/** Rows that count as one request. */
export const ROWS_PER_COST = 100

/** Returns the members by which an import can find rows: unique ones that a creation sets. */
const listConflictMembers = ({ names, schemas, uniqueColumns, verbs }: Resource): string[] =>
  verbs && !verbs.includes('update')
    ? []
    : Object.keys(schemas.create.properties).filter(
        (name) => uniqueColumns.has(name) && !names?.isHidden(name),
      )

/** Returns the name of a member in the version. */
export const toPublicName = ({ names }: Resource, name: string): string => names?.toPublic(name) ?? name

export function buildImportQuery(resource: Resource): TObject {
  const members = listConflictMembers(resource).map((name) => toPublicName(resource, name))
  const onConflict: TProperties =
    members.length === 0
      ? {}
      : {
          on_conflict: Type.Optional({
            ...OneOf(members),
            'x-documented': false,
          }),
        }
  return Type.Object(
    {
      ...onConflict,
      dry_run: Type.Optional(Type.Boolean({ 'x-documented': false })),
    },
    { additionalProperties: false },
  )
}
