/** Checks definitions at the start, for what the compiler cannot see: names across files, indexes, and what rules show. */
import { findAggregateMistakes } from '../aggregates/check.ts'
import type { ResourceDefinition } from '../definition/definition.ts'
import { findFieldMistakes } from './fields.ts'
import { findListMistakes } from './lists.ts'
import { findNameMistakes } from './names.ts'
import { findPathMistakes } from './paths.ts'

/**
 * Checks all definitions of an app, with the inverses of their relations.
 * @throws Error with all mistakes, one on each line, with the names of the definition and of its part
 */
export function checkDefinitions(all: readonly ResourceDefinition[]): void {
  const byTable = new Map(all.map((definition) => [definition.table, definition]))
  const mistakes = all.flatMap((definition) =>
    [
      ...findNameMistakes(definition, all),
      ...findListMistakes(definition, byTable),
      ...findFieldMistakes(definition, all),
      ...findPathMistakes(definition, byTable),
      ...findAggregateMistakes(definition),
    ].map((mistake) => `${definition.name}: ${mistake}`),
  )
  if (mistakes.length > 0) throw new Error([...new Set(mistakes)].join('\n'))
}
