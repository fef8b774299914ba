/** Checks definitions at the start: that their names exist, that they fit each other, and that their schemas are whole. */
import { getTableColumns, getTableName } from 'drizzle-orm'
import { verbs } from '../../access/rules.ts'
import type { ResourceDefinition } from '../definition.ts'
import { listBodies } from './examples.ts'
import { findFilterMistakes, findRelatedFilterMistakes, findSortMistakes } from './lists.ts'
import { createReport, findUnknownNames, isReservedName, isResourceName } from './names.ts'
import { findPathMistakes } from './paths.ts'
import { findRestrictionMistakes } from './restrictions.ts'
import { findVersionMistakes } from './versions.ts'

function findResourceMistakes(definition: ResourceDefinition, names: ReadonlySet<string>): string[] {
  const { name, parent, access, operations = {} } = definition
  const { mistakes, report } = createReport()
  const hasRole = verbs.some((verb) => Object.values(access[verb] ?? {}).some((rule) => rule !== false))
  report(!isResourceName(name), 'the name is not in kebab-case, such as "user-profiles"')
  report(isReservedName(name), `the path /${name} is reserved; choose another name`)
  if (parent) report(!names.has(parent.to), `its parent "${parent.to}" is not registered`)
  for (const operation of Object.keys(operations)) {
    const example = 'in kebab-case, such as "refunds"'
    report(!isResourceName(operation), `the name of the operation "${operation}" is not ${example}`)
  }
  report(!hasRole, 'access permits no operation to any role')
  return mistakes
}

/** Returns fields that no row has, and schemas without a title. */
function findSchemaMistakes(definition: ResourceDefinition): string[] {
  const { schemas, table, computed } = definition
  const { mistakes, report } = createReport()
  const columns = getTableColumns(table)
  for (const name of Object.keys(schemas.read.properties)) {
    const isMissing = !computed && !(name in columns)
    report(isMissing, `field "${name}" has neither a column nor a value from \`computed\``)
  }
  for (const name of ['read' as const, ...listBodies(definition)]) {
    report(
      !schemas[name].title,
      `the schema "${name}" has no title, which names its type in generated clients`,
    )
  }
  return mistakes
}

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
  const byTable = new Map(definitions.map((definition) => [definition.table, definition]))
  const tables = new Set(byTable.keys())
  const mistakes = [
    ...findRepeated(
      definitions,
      (each) => each.name,
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
        ...findRelatedFilterMistakes(definition, byTable),
        ...findSortMistakes(definition),
        ...findSchemaMistakes(definition),
        ...findVersionMistakes(definition, versions, tables),
        ...findRestrictionMistakes(definition, definitions),
        ...findPathMistakes(definition, byTable),
      ].map((mistake) => `${definition.name}: ${mistake}`),
    ),
  ]
  if (mistakes.length > 0) throw new Error(mistakes.join('\n'))
}
