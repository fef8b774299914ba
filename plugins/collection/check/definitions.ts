/** Checks definitions at the start: that their names exist, that they fit each other, and that their schemas are whole. */
import { getTableName } from 'drizzle-orm'
import { verbs } from '../../access/index.ts'
import type { ResourceDefinition } from '../definition.ts'
import { findFilterMistakes, findSortMistakes } from './lists.ts'
import { findUnknownNames, isReservedName, isResourceName } from './names.ts'
import { findSchemaMistakes } from './schemas.ts'
import { findVersionMistakes } from './versions.ts'

/** Returns the mistakes that concern the resource as a whole. */
function findResourceMistakes(
  { name, parent, access, operations = {} }: ResourceDefinition,
  names: ReadonlySet<string>,
): string[] {
  const hasRole = verbs.some((verb) => Object.values(access[verb] ?? {}).some((rule) => rule !== false))
  return [
    ...(isResourceName(name) ? [] : ['the name is not in kebab-case, such as "user-profiles"']),
    ...(isReservedName(name) ? [`the path /${name} is reserved; choose another name`] : []),
    ...(parent && !names.has(parent.to) ? [`its parent "${parent.to}" is not registered`] : []),
    ...Object.keys(operations)
      .filter((operation) => !isResourceName(operation))
      .map((operation) => `the name of the operation "${operation}" is not in kebab-case, such as "refunds"`),
    ...(hasRole ? [] : ['access permits no operation to any role']),
  ]
}

/** Returns a mistake for each key that several definitions have. */
function findRepeated(
  definitions: readonly ResourceDefinition[],
  getKey: (definition: ResourceDefinition) => string,
  describe: (key: string) => string,
): string[] {
  return [...new Set(definitions.map(getKey))].flatMap((key) => {
    const names = definitions.filter((definition) => getKey(definition) === key).map(({ name }) => name)
    return names.length > 1 ? [`${names.join(', ')}: ${describe(key)}`] : []
  })
}

/**
 * Checks all definitions of an app.
 * @param versions the versions of the app
 * @throws Error with all mistakes, one on each line, with the names of the definition and of its part
 */
export function checkDefinitions(
  definitions: readonly ResourceDefinition[],
  versions: readonly number[],
): void {
  const names = new Set(definitions.map(({ name }) => name))
  const tables = new Set(definitions.map(({ table }) => table))
  const mistakes = [
    ...findRepeated(
      definitions,
      ({ name }) => name,
      (name) => `several resources have the name "${name}"`,
    ),
    ...findRepeated(
      definitions,
      ({ table }) => getTableName(table),
      (table) => `several resources are stored in the table "${table}"`,
    ),
    ...definitions.flatMap((definition) =>
      [
        ...findResourceMistakes(definition, names),
        ...findUnknownNames(definition, tables),
        ...findFilterMistakes(definition),
        ...findSortMistakes(definition),
        ...findSchemaMistakes(definition),
        ...findVersionMistakes(definition, versions, tables),
      ].map((mistake) => `${definition.name}: ${mistake}`),
    ),
  ]
  if (mistakes.length > 0) throw new Error(mistakes.join('\n'))
}
