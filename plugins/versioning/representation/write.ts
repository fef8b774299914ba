/** What both versions do alike when they write: the time of the reply, and each included resource in their own way. */
import type { Entity, Meta } from './types.ts'

const MILLISECONDS = '.000Z'.length
let second = ''
let secondOf = 0

/** The time as RFC 3339. What is the same for a second is made once in it. */
function timestamp(): string {
  const now = Date.now()
  const millisecond = now % 1000
  if (second === '' || now - millisecond !== secondOf) {
    secondOf = now - millisecond
    second = new Date(secondOf).toISOString().slice(0, -MILLISECONDS)
  }
  return `${second}.${String(millisecond).padStart(3, '0')}Z`
}

export const meta = (values: Meta) => ({ timestamp: timestamp(), ...values })

const isMany = (related: readonly Entity[] | Entity): related is readonly Entity[] => Array.isArray(related)

/** Puts the included relations into an object by their names, each resource of them written by `write`. */
export function writeRelations(
  into: Record<string, unknown>,
  relations: NonNullable<Entity['relations']>,
  write: (entity: Entity) => unknown,
): Record<string, unknown> {
  for (const name of Object.keys(relations)) {
    const related = relations[name] ?? null
    into[name] = related === null ? null : isMany(related) ? related.map(write) : write(related)
  }
  return into
}
