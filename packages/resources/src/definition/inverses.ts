/** Adds the relations that definitions declare for others, so that no definition has to name those that refer to it. */
import type { ResourceDefinition } from './definition.ts'

/**
 * Returns the definitions with the inverses of the relations of all.
 * @throws Error with all inverses that cannot be added, one on each line
 */
export function addInverses(definitions: readonly ResourceDefinition[]): ResourceDefinition[] {
  const mistakes: string[] = []
  const relations = new Map(definitions.map(({ table, relations: declared }) => [table, { ...declared }]))
  for (const { name, table, relations: declared } of definitions) {
    for (const [relation, { to, local, foreign, many, through, inverse }] of Object.entries(declared)) {
      const target = relations.get(to)
      if (inverse === undefined || !target) continue
      const place = `${name}: the inverse "${inverse}" of relation "${relation}"`
      if (many || through) mistakes.push(`${place} requires a relation to one row, without a join table`)
      else if (Object.hasOwn(target, inverse)) mistakes.push(`${place} is a relation already`)
      else target[inverse] = { to: table, local: foreign, foreign: local, many: true }
    }
  }
  if (mistakes.length > 0) throw new Error(mistakes.join('\n'))
  return definitions.map((definition) => ({
    ...definition,
    relations: relations.get(definition.table) ?? definition.relations,
  }))
}
