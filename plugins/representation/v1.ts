/** v1: the untyped envelope. Members sit beside the id, included relations among them. */
import { type TSchema, Type } from '@sinclair/typebox'
import { ErrorEnvelope, Meta, Pagination } from '../../schemas/envelope.ts'
import { readObject } from './body.ts'
import { relationSchemas, selectable } from './schema.ts'
import type { Entity, Representation, Shape } from './types.ts'
import { meta, writeRelations } from './write.ts'

const write = (entity: Entity): Record<string, unknown> =>
  entity.relations ? { ...entity.members, ...writeRelations(entity.relations, write) } : entity.members

const resource = (shape: Shape): TSchema => selectable(shape, relationSchemas(shape, resource))

export const v1: Representation = {
  version: 1,
  one: (entity, values) => ({ data: write(entity), meta: meta(values) }),
  many: (entities, pagination, values) => ({ data: entities.map(write), pagination, meta: meta(values) }),
  error: ({ violations, ...error }) => ({
    error: violations.length === 0 ? error : { ...error, details: violations },
  }),
  body: (sent) => ({ members: readObject(sent), prefix: '' }),
  schemas: {
    one: (shape) => Type.Object({ data: resource(shape), meta: Meta }),
    many: (shape) => Type.Object({ data: Type.Array(resource(shape)), pagination: Pagination, meta: Meta }),
    body: (members) => members,
    error: ErrorEnvelope('details'),
  },
}
