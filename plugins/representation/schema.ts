/** A resource's schema in a reply, as far as both versions write it alike. */
import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import type { Shape } from './types.ts'

/** The members: all of them, or, where `fields` may narrow them, the id at least. */
export function selectable(shape: Shape, relations: TProperties): TObject {
  const { members } = shape
  const title = shape.selectable ? `${members.title}Selection` : `${members.title}`
  const properties = shape.selectable
    ? Object.fromEntries(
        Object.entries(members.properties).map(([name, schema]) => [
          name,
          name === 'id' ? schema : Type.Optional(schema),
        ]),
      )
    : members.properties
  return Type.Object({ ...properties, ...relations }, { title })
}

/** The relations, each there only when it was included: an array, or one, or null. */
export const relationSchemas = (shape: Shape, resource: (shape: Shape) => TSchema): TProperties =>
  Object.fromEntries(
    Object.entries(shape.relations ?? {}).map(([name, { shape: related, many }]) => [
      name,
      Type.Optional(many ? Type.Array(resource(related)) : Type.Union([resource(related), Type.Null()])),
    ]),
  )
