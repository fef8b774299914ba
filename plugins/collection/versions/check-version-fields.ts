/** Checks what a definition says of its fields in a version, at boot. */
import { buildListParameters } from '../request/parameters.ts'
import type { ResolvedResource } from '../resolve.ts'
import { createFieldNames, listFields } from './field-names.ts'
import { COMMON_FIELDS, type VersionFields } from './version-fields.ts'

const isFieldName = (name: string) => /^[a-z][a-z0-9_]*$/.test(name)

const findDuplicates = (names: readonly string[]): string[] => [
  ...new Set(names.filter((name, i) => names.indexOf(name) !== i)),
]

/** Returns the problems of the fields that a version renames or hides. */
function checkOwnFields(resource: ResolvedResource, { rename = {}, hide = [] }: VersionFields): string[] {
  const { schemas, parent, verbs } = resource
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

/** Returns the problems of the names that fields have in a version. */
function checkNames(resource: ResolvedResource, fields: VersionFields): string[] {
  const { schemas, relations, filters, ranges = [] } = resource
  const names = createFieldNames(schemas, fields)
  const added = Object.keys(fields.add ?? {})
  const known = listFields(schemas)
  const visible = names.listPublic(known)
  const parameters = Object.keys(buildListParameters({ ...resource, filters: [], ranges: [] }).properties)
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
 * Checks the fields of all versions of a resource.
 * @param versions the versions of the app
 * @throws Error that names the resource, the version and each problem
 */
export function checkVersionFields(resource: ResolvedResource, versions: readonly number[]) {
  for (const [key, fields] of Object.entries(resource.versions ?? {})) {
    const problems = [
      ...(versions.includes(Number(key))
        ? []
        : [`there is no such version; the versions are ${versions.join(', ')}`]),
      ...checkOwnFields(resource, fields),
      ...checkNames(resource, fields),
    ]
    if (problems.length > 0) {
      throw new Error(`${resource.name}: the fields of version ${key}: ${problems.join('; ')}`)
    }
  }
}
