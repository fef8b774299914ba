/** v1: the untyped envelope. Members sit beside the id, included relations among them. */
import type { TSchema } from '@sinclair/typebox'
import { ErrorEnvelope } from '../../../schemas/envelope.ts'
import { envelopes, relationSchemas, selectable } from './schema.ts'
import type { Entity, Representation, Shape } from './types.ts'
import { meta, writeRelations } from './write.ts'

// Not copied: an object that is, is read ten times as slowly when it is put into text.
const write = ({ members, relations }: Entity): Record<string, unknown> =>
  relations ? writeRelations(members, relations, write) : members

const resource = (shape: Shape): TSchema => selectable(shape, relationSchemas(shape, resource))

export const v1: Representation = {
  version: 1,
  about:
    'A resource is a flat object under `data`, with the included ones as members of it. The details of an error stand in `error.details`.',
  one: (entity, values) => ({ data: write(entity), meta: meta(values) }),
  many: (entities, pagination, values) => ({ data: entities.map(write), pagination, meta: meta(values) }),
  error: ({ violations, ...error }) => ({
    error: violations.length === 0 ? error : { ...error, details: violations },
  }),
  body: (sent) => ({ members: sent, prefix: '', violations: [] }),
  schemas: {
    ...envelopes(resource),
    body: (members) => members,
    error: ErrorEnvelope('details'),
  },
}
