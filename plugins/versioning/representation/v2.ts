/** v2: the typed envelope. Attributes stand under `attributes`, included relations under `relationships`. */
import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { ErrorEnvelope } from '../../../schemas/envelope.ts'
import { Id } from '../../../schemas/types.ts'
import { envelopes, relationSchemas, selectable, titleOf } from './schema.ts'
import { readTyped } from './typed.ts'
import type { Entity, Representation, Shape } from './types.ts'
import { meta, writeRelations } from './write.ts'

interface Typed {
  id: string
  type: string
  attributes: Record<string, unknown>
  relationships?: Record<string, unknown>
}

const write = ({ type, members, relations }: Entity): Typed => ({
  id: members.id,
  type,
  attributes: members,
  ...(relations ? { relationships: writeRelations({}, relations, write) } : {}),
})

const withoutId = (members: TObject): TObject => {
  const { id: _, ...attributes } = members.properties
  return Type.Object(attributes, { title: `${members.title}Attributes` })
}

const resource = (shape: Shape): TSchema => {
  const relations = relationSchemas(shape, resource)
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
      attributes: selectable({ ...shape, members }, {}),
      ...relationships,
    },
    { title: titleOf(shape) },
  )
}

export const v2: Representation = {
  version: 2,
  about:
    'A resource is `{"id", "type", "attributes"}` under `data`, with the included ones in `relationships` beside them. Bodies may be typed alike, or flat. The details of an error stand in `error.errors`.',
  one: (entity, values) => ({ data: write(entity), meta: meta(values) }),
  many: (entities, pagination, values) => ({ data: entities.map(write), pagination, meta: meta(values) }),
  error: ({ violations, ...error }) => ({
    error: violations.length === 0 ? error : { ...error, errors: violations },
  }),
  body: readTyped,
  schemas: {
    ...envelopes(resource),
    body: (members, type, addressed) =>
      Type.Union([
        Type.Object(
          {
            data: Type.Object(
              {
                type: Type.Literal(type),
                ...(addressed ? { id: Type.Optional(Id('The addressed one')) } : {}),
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
