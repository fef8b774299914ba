/** The parts of a response's schema that both versions share. */
import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { Meta, Pagination } from '../../../schemas/envelope.ts'
import { OrNull } from '../../../schemas/types.ts'
import type { Shape } from './types.ts'

/** Returns the title of a resource's schema; with `fields`, the schema is that of a selection of its members. */
export const getTitle = ({ members, selectable }: Shape) => `${members.title}${selectable ? 'Selection' : ''}`

/** Removes a default, which applies to requests only: the serializer would add it for a member that `fields` omits. */
const withoutDefault = ({ default: _, ...schema }: TSchema): TSchema => schema

/** Returns the schema of a resource's members. If `fields` may select them, only the id is required. */
export function buildMembers(shape: Shape, relations: TProperties): TObject {
  const members = Object.entries(shape.members.properties).map(([name, schema]) => {
    const member = withoutDefault(schema)
    return [name, shape.selectable && name !== 'id' ? Type.Optional(member) : member]
  })
  return Type.Object({ ...Object.fromEntries(members), ...relations }, { title: getTitle(shape) })
}

/** Returns the schemas of the relations. Each is present only if it was included: an array, one resource, or null. */
export const buildRelations = (shape: Shape, resource: (shape: Shape) => TSchema): TProperties =>
  Object.fromEntries(
    Object.entries(shape.relations ?? {}).map(([name, { shape: related, many }]) => [
      name,
      Type.Optional(many ? Type.Array(resource(related)) : OrNull(resource(related))),
    ]),
  )

/** Creates the schemas of a response with one resource and of a page. */
export const createEnvelopes = (resource: (shape: Shape) => TSchema) => ({
  one: (shape: Shape) =>
    Type.Object({ data: resource(shape), meta: Meta }, { title: `${getTitle(shape)}Reply` }),
  many: (shape: Shape) =>
    Type.Object(
      { data: Type.Array(resource(shape)), pagination: Pagination, meta: Meta },
      { title: `${shape.members.title}Page` },
    ),
})
