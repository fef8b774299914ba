/** Finds fields that a version cannot rename, hide or add. */
import type { ResourceDefinition } from '../definition.ts'
import { COMMON_FIELDS, type VersionFields } from '../fields.ts'
import type { ResourceTable } from '../resource-table.ts'
import { createVersionNames, listFields } from '../versions.ts'
import { listRepeatedParameters } from './lists.ts'
import { createReport } from './names.ts'

function findFieldMistakes(definition: ResourceDefinition, fields: VersionFields): string[] {
  const { schemas, parent, verbs, relations } = definition
  const { hide = [] } = fields
  const { mistakes, report } = createReport()
  const names = createVersionNames(schemas, fields)
  const known = listFields(schemas)
  const visible = names.listPublic(known)
  const [renamed, added] = [Object.keys(fields.rename ?? {}), Object.keys(fields.add ?? {})]
  const common: readonly string[] = COMMON_FIELDS
  const { required = [], properties } = schemas.create
  const canCreate = verbs === undefined || verbs.includes('create')
  const { filters, ranges = [], negations = [], nullChecks = [], prefixes = [] } = definition
  const repeated = listRepeatedParameters({
    ...definition,
    filters: names.listPublic(filters),
    ranges: names.listPublic(ranges),
    negations: names.listPublic(negations),
    nullChecks: names.listPublic(nullChecks),
    prefixes: names.listPublic(prefixes),
  })

  for (const name of new Set([...renamed, ...hide])) {
    report(!known.includes(name), `there is no field "${name}"; the fields are ${known.join(', ')}`)
    report(common.includes(name), `"${name}" cannot be renamed or hidden: every version has it`)
  }
  for (const name of renamed) {
    report(name === parent?.member, `"${name}" cannot be renamed: it names a parameter of the path`)
    report(hide.includes(name), `"${name}" is both renamed and hidden`)
  }
  for (const name of new Set(hide)) {
    const isMissing = canCreate && required.includes(name) && properties[name]?.default === undefined
    report(isMissing, `"${name}" cannot be hidden: it is required at creation and has no default`)
  }
  for (const name of new Set([...Object.values(fields.rename ?? {}).map(String), ...added])) {
    report(!/^[a-z][a-z0-9_]*$/.test(name), `"${name}" is no name of a field: use snake_case`)
  }
  for (const name of new Set(visible)) {
    const isRepeated = visible.indexOf(name) !== visible.lastIndexOf(name)
    report(isRepeated, `two fields have the name "${name}"`)
  }
  for (const name of added) {
    const isTaken = known.includes(name) || visible.includes(name)
    report(isTaken, `"${name}" cannot be added: a field has that name`)
  }
  for (const name of new Set([...visible, ...added])) {
    report(Object.hasOwn(relations, name), `"${name}" is the name of a relation`)
  }
  for (const name of repeated) {
    report(true, `"${name}" cannot be the name of a filter: lists have a parameter with that name`)
  }
  return mistakes
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
