/** Finds fields that a version cannot rename, hide or add. */
import type { ResourceDefinition } from '../definition.ts'
import { buildListParameters } from '../request/parameters.ts'
import type { ResourceTable } from '../resource-table.ts'
import { COMMON_FIELDS, createVersionNames, listFields, type VersionFields } from '../version-names.ts'

function findFieldMistakes(definition: ResourceDefinition, fields: VersionFields): string[] {
  const { schemas, parent, verbs, relations, filters, ranges = [] } = definition
  const { rename = {}, hide = [], add = {} } = fields
  const names = createVersionNames(schemas, fields)
  const known = listFields(schemas)
  const visible = names.listPublic(known)
  const [renamed, added] = [Object.keys(rename), Object.keys(add)]
  const common: readonly string[] = COMMON_FIELDS
  const { required = [], properties } = schemas.create
  const canCreate = verbs === undefined || verbs.includes('create')
  const isMissing = (name: string) =>
    canCreate && required.includes(name) && properties[name]?.default === undefined
  const parameters = Object.keys(buildListParameters({ ...definition, filters: [], ranges: [] }).properties)
  const filtered = [
    ...names.listPublic(filters),
    ...names.listPublic(ranges).flatMap((name) => [`${name}_min`, `${name}_max`]),
  ]

  const find = (list: readonly string[], isWrong: (name: string, i: number) => boolean, message: string) =>
    [...new Set(list.filter(isWrong))].map((name) => message.replace('{name}', `"${name}"`))

  return [
    ...find(
      [...renamed, ...hide],
      (name) => !known.includes(name),
      `there is no field {name}; the fields are ${known.join(', ')}`,
    ),
    ...find(
      [...renamed, ...hide],
      (name) => common.includes(name),
      '{name} cannot be renamed or hidden: every version has it',
    ),
    ...find(
      renamed,
      (name) => name === parent?.member,
      '{name} cannot be renamed: it names a parameter of the path',
    ),
    ...find(renamed, (name) => hide.includes(name), '{name} is both renamed and hidden'),
    ...find(hide, isMissing, '{name} cannot be hidden: it is required at creation and has no default'),
    ...find(
      [...Object.values(rename).map(String), ...added],
      (name) => !/^[a-z][a-z0-9_]*$/.test(name),
      '{name} is no name of a field: use snake_case',
    ),
    ...find(visible, (name, i) => visible.indexOf(name) !== i, 'two fields have the name {name}'),
    ...find(
      added,
      (name) => known.includes(name) || visible.includes(name),
      '{name} cannot be added: a field has that name',
    ),
    ...find(
      [...visible, ...added],
      (name) => Object.hasOwn(relations, name),
      '{name} is the name of a relation',
    ),
    ...find(
      filtered,
      (name) => parameters.includes(name),
      '{name} cannot be the name of a filter: lists have a parameter with that name',
    ),
  ]
}

/**
 * Returns the mistakes in the fields of all versions of a resource.
 * @param versions the versions of the app
 * @param tables the tables of all resources: a relation to another table is left out, so its name is free
 */
export function findVersionMistakes(
  definition: ResourceDefinition,
  versions: readonly number[],
  tables: ReadonlySet<ResourceTable>,
): string[] {
  const relations = Object.fromEntries(
    Object.entries(definition.relations).filter(([, relation]) => tables.has(relation.to)),
  )
  return Object.entries(definition.versions ?? {}).flatMap(([version, fields]) => {
    const isServed = versions.includes(Number(version))
    const unknown = isServed ? [] : [`there is no such version; the versions are ${versions.join(', ')}`]
    const mistakes = [...unknown, ...findFieldMistakes({ ...definition, relations }, fields)]
    return mistakes.map((mistake) => `the fields of version ${version}: ${mistake}`)
  })
}
