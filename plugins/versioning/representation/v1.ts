/** v1, the untyped envelope: a resource is a flat object of its id, its fields and the included relations. */
import { type TSchema, Type } from '@sinclair/typebox'
import { ErrorEnvelope } from '../../../schemas/envelope.ts'
import { buildMembers, buildRelations, createEnvelopes, documentWhole } from './schema.ts'
import type { Entity, Representation, SentBody, Shape } from './types.ts'
import { createWriters, writeRelations } from './write.ts'

// Returns the fields without a copy: the serializer reads a copied object ten times as slowly.
const writeResource = ({ members, relations }: Entity): Record<string, unknown> =>
  relations ? writeRelations(members, relations, writeResource) : members

function buildResource(shape: Shape): TSchema {
  const whole = buildMembers({ ...shape, selectable: false })
  if (!shape.selectable) return whole
  const relations = buildRelations(shape, buildResource)
  const written = Type.Object({ ...buildMembers(shape).properties, ...relations })
  return documentWhole(shape, { written, whole, relations })
}

export const v1: Representation = {
  version: 1,
  about:
    'A resource is a flat object under `data`. Included resources are fields of it. The details of an error are in `error.details`.',
  ...createWriters(writeResource),
  error: ({ violations, ...error }) => ({
    error: violations.length === 0 ? error : { ...error, details: violations },
  }),
  body: <T extends object>(sent: SentBody<T>) =>
    // Its schema has only the flat form.
    ({ members: sent as T, prefix: '' }),
  schemas: {
    ...createEnvelopes(buildResource),
    body: (members) => Type.Unsafe(members),
    error: ErrorEnvelope('details'),
  },
}
