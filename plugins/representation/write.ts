/** What both versions do alike when they write: the time of the reply, and each included resource in their own way. */
import type { Entity, Meta } from './types.ts'

export const meta = (values: Meta) => ({ timestamp: new Date().toISOString(), ...values })

const isMany = (related: readonly Entity[] | Entity): related is readonly Entity[] => Array.isArray(related)

/** The included relations by name, each resource of them written by `write`. */
export const writeRelations = (
  relations: NonNullable<Entity['relations']>,
  write: (entity: Entity) => unknown,
): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(relations).map(([name, related]) => [
      name,
      related === null ? null : isMany(related) ? related.map(write) : write(related),
    ]),
  )
