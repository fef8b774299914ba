/** Builds the parts of a response that both versions share: `meta` and the included relations. */
import type { Entity, Representation } from './types.ts'

/** Returns the functions that put one resource or a page of them into the envelope that both versions have. */
export const createWriters = (
  writeResource: (entity: Entity) => object,
): Pick<Representation, 'one' | 'many'> => ({
  one: (entity, values) => ({
    data: writeResource(entity),
    meta: { timestamp: new Date().toISOString(), ...values },
  }),
  many: (entities, pagination, values) => ({
    data: entities.map(writeResource),
    pagination,
    meta: { timestamp: new Date().toISOString(), ...values },
  }),
})

/** Adds the included relations to an object by name, each resource of them written by `write`. */
export function writeRelations(
  target: Record<string, unknown>,
  relations: NonNullable<Entity['relations']>,
  write: (entity: Entity) => unknown,
): Record<string, unknown> {
  for (const [name, related] of Object.entries(relations)) {
    target[name] = Array.isArray(related) ? related.map(write) : related && write(related)
  }
  return target
}
