/** v2: the typed envelope. Attributes stand under `attributes`, included relations under `relationships`. */
import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { ErrorEnvelope, Meta, Pagination } from '../../schemas/envelope.ts'
import { Id } from '../../schemas/types.ts'
import { apiError, invalidBody } from '../errors.ts'
import { isObject, readObject } from './body.ts'
import { relationSchemas, selectable } from './schema.ts'
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
  ...(relations ? { relationships: writeRelations(relations, write) } : {}),
})

const withoutId = (members: TObject): TObject => {
  const { id: _, ...attributes } = members.properties
  return Type.Object(attributes, { title: `${members.title}Attributes` })
}

const resource = (shape: Shape): TSchema => {
  const relations = relationSchemas(shape, resource)
  const members = withoutId(shape.members)
  const relationships: TProperties =
    Object.keys(relations).length === 0 ? {} : { relationships: Type.Optional(Type.Object(relations)) }
  return Type.Object(
    {
      id: Id(),
      type: Type.Literal(shape.type),
      attributes: selectable({ ...shape, members }, {}),
      ...relationships,
    },
    { title: `${shape.members.title}${shape.selectable ? 'Selection' : ''}` },
  )
}

/** `{"data": {"type", "id"?, "attributes"}}`, or the members flat, as in v1. */
const body: Representation['body'] = (sent, type, id) => {
  const flat = readObject(sent)
  if (!isObject(flat.data) || Object.keys(flat).length > 1) return { members: flat, prefix: '' }
  const { data } = flat
  const unknown = Object.keys(data).filter((key) => !['type', 'id', 'attributes'].includes(key))
  const violations = [
    ...unknown.map((key) => ({
      field: `data.${key}`,
      message: 'is not a known member',
      code: 'UNKNOWN_FIELD' as const,
    })),
    ...(data.type === undefined
      ? [{ field: 'data.type', message: 'is required', code: 'REQUIRED' as const }]
      : []),
    ...(isObject(data.attributes)
      ? []
      : [
          data.attributes === undefined
            ? { field: 'data.attributes', message: 'is required', code: 'REQUIRED' as const }
            : { field: 'data.attributes', message: 'must be an object', code: 'INVALID_TYPE' as const },
        ]),
    ...(id === undefined && data.id !== undefined
      ? [{ field: 'data.id', message: 'is made by the server', code: 'READ_ONLY' as const }]
      : []),
  ]
  if (violations.length > 0) throw invalidBody(violations)
  if (data.type !== type) {
    throw apiError('RESOURCE_CONFLICT', {
      message: `The body's type is not "${type}"`,
      violations: [{ field: 'data.type', message: `must be "${type}"`, code: 'INVALID_VALUE' }],
    })
  }
  if (id !== undefined && data.id !== undefined && data.id !== id) {
    throw apiError('RESOURCE_CONFLICT', {
      message: "The body's id is not the addressed one",
      violations: [{ field: 'data.id', message: 'must be the id in the path', code: 'INVALID_VALUE' }],
    })
  }
  return { members: data.attributes, prefix: 'data.attributes.' }
}

export const v2: Representation = {
  version: 2,
  one: (entity, values) => ({ data: write(entity), meta: meta(values) }),
  many: (entities, pagination, values) => ({ data: entities.map(write), pagination, meta: meta(values) }),
  error: ({ violations, ...error }) => ({
    error: violations.length === 0 ? error : { ...error, errors: violations },
  }),
  body,
  schemas: {
    one: (shape) => Type.Object({ data: resource(shape), meta: Meta }),
    many: (shape) => Type.Object({ data: Type.Array(resource(shape)), pagination: Pagination, meta: Meta }),
    body: (members, type) =>
      Type.Union([
        Type.Object(
          {
            data: Type.Object(
              { type: Type.Literal(type), id: Type.Optional(Id('The addressed one')), attributes: members },
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
