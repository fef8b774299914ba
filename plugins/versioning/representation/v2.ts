/** v2, the typed envelope: a resource is an object of `id`, `type`, `attributes` and `relationships`. */
import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { ErrorEnvelope } from '../../../schemas/envelope.ts'
import { Id } from '../../../schemas/types.ts'
import { buildMembers, buildRelations, createEnvelopes, getTitle } from './schema.ts'
import { readTyped } from './typed.ts'
import type { Entity, Representation, Shape } from './types.ts'
import { createWriters, writeRelations } from './write.ts'

interface TypedResource {
  id: string
  type: string
  attributes: Record<string, unknown>
  relationships?: Record<string, unknown>
}

const writeResource = ({ type, members, relations }: Entity): TypedResource => ({
  id: members.id,
  type,
  attributes: members,
  ...(relations ? { relationships: writeRelations({}, relations, writeResource) } : {}),
})

const withoutId = (members: TObject): TObject => {
  const { id: _, ...attributes } = members.properties
  return Type.Object(attributes, { title: `${members.title}Attributes` })
}

const buildResource = (shape: Shape): TSchema => {
  const relations = buildRelations(shape, buildResource)
  const members = withoutId(shape.members)
  const relationships: TProperties =
    Object.keys(relations).length === 0
      ? {}
      : {
          relationships: Type.Optional(
            Type.Object(relations, { title: `${shape.members.title}Relationships` }),
          ),
        }
  return Type.Object(
    {
      id: Id(),
      type: Type.Literal(shape.type),
      attributes: buildMembers({ ...shape, members }, {}),
      ...relationships,
    },
    { title: getTitle(shape) },
  )
}

export const v2: Representation = {
  version: 2,
  about:
    'A resource is `{"id", "type", "attributes"}` under `data`, with included resources in `relationships`. A request body may have the same form, or be flat as in v1. The details of an error are in `error.errors`.',
  ...createWriters(writeResource),
  error: ({ violations, ...error }) => ({
    error: violations.length === 0 ? error : { ...error, errors: violations },
  }),
  body: readTyped,
  schemas: {
    ...createEnvelopes(buildResource),
    body: (members, type, addressed) =>
      Type.Union([
        Type.Object(
          {
            data: Type.Object(
              {
                type: Type.Literal(type),
                ...(addressed ? { id: Type.Optional(Id('Must be the id in the path')) } : {}),
                attributes: members,
              },
              { additionalProperties: false },
            ),
          },
          { title: `${members.title}Document`, additionalProperties: false },
        ),
        members,
      ]),
    error: ErrorEnvelope('errors'),
  },
}
