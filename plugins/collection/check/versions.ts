/** Finds fields that a version cannot rename, hide or add. */
import type { ResourceDefinition } from '../definition.ts'
import { buildListParameters } from '../request/parameters.ts'
import type { ResourceTable } from '../resource-table.ts'
import { COMMON_FIELDS, createVersionNames, listFields, type VersionFields } from '../version-names.ts'

const isFieldName = (name: string) => /^[a-z][a-z0-9_]*$/.test(name)

const findDuplicates = (names: readonly string[]): string[] => [
  ...new Set(names.filter((name, i) => names.indexOf(name) !== i)),
]

/** Returns the mistakes in the fields that a version renames or hides. */
function findFieldMistakes(
  { schemas, parent, verbs }: ResourceDefinition,
  { rename = {}, hide = [] }: VersionFields,
): string[] {
  const known = listFields(schemas)
  const renamed = Object.keys(rename)
  const { required = [], properties } = schemas.create
  const canCreate = verbs === undefined || verbs.includes('create')
  return [
    ...[...renamed, ...hide]
      .filter((name) => !known.includes(name))
      .map((name) => `there is no field "${name}"; the fields are ${known.join(', ')}`),
    ...[...renamed, ...hide]
      .filter((name) => COMMON_FIELDS.some((common) => common === name))
      .map((name) => `"${name}" cannot be renamed or hidden: every version has it`),
    ...renamed
      .filter((name) => name === parent?.member)
      .map((name) => `"${name}" cannot be renamed: it names a parameter of the path`),
    ...renamed.filter((name) => hide.includes(name)).map((name) => `"${name}" is both renamed and hidden`),
    ...(canCreate ? hide : [])
      .filter((name) => required.includes(name) && properties[name]?.default === undefined)
      .map((name) => `"${name}" cannot be hidden: it is required at creation and has no default`),
  ]
}

/** Returns the mistakes in the names that fields have in a version. */
function findNameMistakes(definition: ResourceDefinition, fields: VersionFields): string[] {
  const { schemas, relations, filters, ranges = [] } = definition
  const names = createVersionNames(schemas, fields)
  const added = Object.keys(fields.add ?? {})
  const known = listFields(schemas)
  const visible = names.listPublic(known)
  const parameters = Object.keys(buildListParameters({ ...definition, filters: [], ranges: [] }).properties)
  return [
    ...[...Object.values(fields.rename ?? {}), ...added]
      .filter((name) => name === undefined || !isFieldName(name))
      .map((name) => `"${name}" is no name of a field: use snake_case`),
    ...findDuplicates(visible).map((name) => `two fields have the name "${name}"`),
    ...added
      .filter((name) => known.includes(name) || visible.includes(name))
      .map((name) => `"${name}" cannot be added: a field has that name`),
    ...[...visible, ...added]
      .filter((name) => Object.hasOwn(relations, name))
      .map((name) => `"${name}" is the name of a relation`),
    ...[
      ...names.listPublic(filters),
      ...names.listPublic(ranges).flatMap((name) => [`${name}_min`, `${name}_max`]),
    ]
      .filter((name) => parameters.includes(name))
      .map((name) => `"${name}" cannot be the name of a filter: lists have a parameter with that name`),
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
  const served = { ...definition, relations }
  return Object.entries(definition.versions ?? {}).flatMap(([version, fields]) =>
    [
      ...(versions.includes(Number(version))
        ? []
        : [`there is no such version; the versions are ${versions.join(', ')}`]),
      ...findFieldMistakes(served, fields),
      ...findNameMistakes(served, fields),
    ].map((mistake) => `the fields of version ${version}: ${mistake}`),
  )
}
