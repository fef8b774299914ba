/** A resource's schema in a reply, as far as both versions write it alike. */
import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { Meta, Pagination } from '../../../schemas/envelope.ts'
import { OrNull } from '../../../schemas/types.ts'
import type { Shape } from './types.ts'

/** What a shape is called: where `fields` may narrow it, it is a selection of the resource. */
export const titleOf = (shape: Shape) => `${shape.members.title}${shape.selectable ? 'Selection' : ''}`

/** A default is for who writes; the serializer would put it in place of what `fields` left out. */
const withoutDefault = ({ default: _, ...schema }: TSchema) => schema as TSchema

/** The members: all of them, or, where `fields` may narrow them, the id at least. */
export function selectable(shape: Shape, relations: TProperties): TObject {
  const members = Object.entries(shape.members.properties).map(([name, schema]) => {
    const told = withoutDefault(schema)
    return [name, shape.selectable && name !== 'id' ? Type.Optional(told) : told]
  })
  return Type.Object({ ...Object.fromEntries(members), ...relations }, { title: titleOf(shape) })
}

/** The relations, each there only when it was included: an array, or one, or null. */
export const relationSchemas = (shape: Shape, resource: (shape: Shape) => TSchema): TProperties =>
  Object.fromEntries(
    Object.entries(shape.relations ?? {}).map(([name, { shape: related, many }]) => [
      name,
      Type.Optional(many ? Type.Array(resource(related)) : OrNull(resource(related))),
    ]),
  )

/** What stands around one resource and around many. */
export const envelopes = (resource: (shape: Shape) => TSchema) => ({
  one: (shape: Shape) =>
    Type.Object({ data: resource(shape), meta: Meta }, { title: `${titleOf(shape)}Reply` }),
  many: (shape: Shape) =>
    Type.Object(
      { data: Type.Array(resource(shape)), pagination: Pagination, meta: Meta },
      { title: `${shape.members.title}Page` },
    ),
})
