/** v1, the untyped envelope: a resource is a flat object of its id, its fields and the included relations. */
import { type TSchema, Type } from '@sinclair/typebox'
import type { Entity, Shape } from '../../results/result.ts'
import { buildMembers, buildRelations, createEnvelope, documentWhole, writeRelations } from './envelope.ts'
import type { Representation } from './types.ts'

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

const { schemas, ...envelope } = createEnvelope(writeResource, buildResource, 'details')

export const v1: Representation = {
  version: 1,
  about:
    'A resource is a flat object under `data`. Included resources are fields of it. The details of an error are in `error.details`.',
  ...envelope,
  // A body has no envelope.
  schemas: { ...schemas, body: (members) => Type.Unsafe(members) },
}
