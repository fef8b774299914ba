/** Checks the fields that a version renames, hides or adds. */
import type { PgTable } from 'drizzle-orm/pg-core'
import type { ResourceDefinition } from '../definition.ts'
import type { VersionFields } from '../fields.ts'
import { hasDefault } from '../request/body-schema.ts'
import { createVersionNames, listFields } from '../versions.ts'
import { findRepeatedParameters } from './lists.ts'

function* findFieldMistakes(definition: ResourceDefinition, fields: VersionFields): Generator<string> {
  const { schemas, parent, verbs, relations } = definition
  const { filters, ranges = [], negations = [], nullChecks = [], prefixes = [] } = definition
  const { rename = {}, hide = [], add = {} } = fields
  const { listPublic } = createVersionNames(schemas, fields)
  const { required = [], properties } = schemas.create
  const known = listFields(schemas)
  const visible = listPublic(known)
  const added = Object.keys(add)
  if (parent && parent.member in rename)
    yield `"${parent.member}" cannot be renamed: it names a parameter of the path`
  if (verbs === undefined || verbs.includes('create'))
    for (const name of hide)
      if (required.includes(name) && !hasDefault(properties[name]))
        yield `"${name}" cannot be hidden: it is required at creation and has no default`
  for (const [i, name] of visible.entries())
    if (visible.indexOf(name) !== i) yield `two fields have the name "${name}"`
  for (const name of added)
    if (known.includes(name) || visible.includes(name))
      yield `"${name}" cannot be added: a field has that name`
  for (const name of [...visible, ...added])
    if (Object.hasOwn(relations, name)) yield `"${name}" is the name of a relation`
  yield* findRepeatedParameters({
    ...definition,
    filters: listPublic(filters),
    ranges: listPublic(ranges),
    negations: listPublic(negations),
    nullChecks: listPublic(nullChecks),
    prefixes: listPublic(prefixes),
  })
}

/**
 * Returns the mistakes in the fields of all versions of a resource.
 * @param versions the versions of the app
 * @param byTable all definitions: a relation to another table is left out, so its name is free
 */
export function* findVersionMistakes(
  definition: ResourceDefinition,
  versions: readonly number[],
  byTable: ReadonlyMap<PgTable, ResourceDefinition>,
): Generator<string> {
  const served = Object.entries(definition.relations).filter(([, { to }]) => byTable.has(to))
  const relations = Object.fromEntries(served)
  for (const [version, fields] of Object.entries(definition.versions ?? {})) {
    const part = `the fields of version ${version}:`
    if (!versions.includes(Number(version)))
      yield `${part} there is no such version; the versions are ${versions.join(', ')}`
    for (const mistake of findFieldMistakes({ ...definition, relations }, fields)) yield `${part} ${mistake}`
  }
}
