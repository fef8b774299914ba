/** Checks that no other part of a definition shows the value of a field to a role that may not read it. */
import { getTableColumns } from 'drizzle-orm'
import { getTableConfig, type PgColumn } from 'drizzle-orm/pg-core'
import type { ResourceDefinition } from '../definition/definition.ts'
import { callerRoles, listCommonFields, mayRead, mayWrite } from '../definition/fields.ts'
import { getUniqueColumns } from '../sql/constraint-errors.ts'
import { createToMembers } from '../sql/row-content.ts'
import { listColumns } from '../sql/table-facts.ts'
import { quoteAll } from './names.ts'

/** Returns the fields that are compared together, by which a caller could find out the values of one from the others. */
function listComparisons({ table, constraints = {} }: ResourceDefinition): (readonly string[])[] {
  const { checks, indexes } = getTableConfig(table)
  const unique = getUniqueColumns(table)
  const toMembers = createToMembers(table)
  return [
    ...unique.values(),
    // Whether a value is taken depends on the rows that the index has.
    ...indexes
      .filter(({ config }) => config.unique && config.where)
      .map(({ config }) => [
        ...(unique.get(config.name ?? '') ?? []),
        ...toMembers(listColumns(config.where)),
      ]),
    ...checks.map(({ value }) => toMembers(listColumns(value))),
    ...Object.values(constraints).map(({ fields }) => fields),
  ]
}

/** Returns the columns of a resource by which relations, its own and those of others, find rows. */
const listRelationColumns = (
  { table, relations }: ResourceDefinition,
  all: readonly ResourceDefinition[],
) => [
  ...Object.values(relations).map(({ local }) => local),
  ...all.flatMap((each) =>
    Object.values(each.relations).flatMap(({ to, foreign, through }) => [
      ...(to === table ? [foreign] : []),
      ...(through?.table === table ? [through.local.name, through.foreign.name] : []),
    ]),
  ),
]

/** @param all the definitions of the app, with the inverses of their relations */
export function* findFieldMistakes(
  definition: ResourceDefinition,
  all: readonly ResourceDefinition[],
): Generator<string> {
  const { defaultSort, fields, hasOwnReaders, parent, schemas, search, table } = definition
  if (!fields) return
  if (hasOwnReaders) yield '`fields` requires the handlers of the engine'
  const common = listCommonFields(table)
  const known = Object.values(schemas).flatMap(({ properties }) => Object.keys(properties))
  for (const [name, rule] of Object.entries(fields)) {
    const part = `the rule of field "${name}":`
    // The compiler reports an unknown name only where the rules are written into the definition itself.
    if (!known.includes(name)) yield `${part} there is no such field`
    if (common.includes(name) || name === parent?.member)
      yield `${part} addresses, tags and the default sort show it to every role`
    for (const role of callerRoles)
      if (mayWrite(rule, role) && !mayRead(rule, role))
        yield `${part} ${role} may write but not read it, and could find out its value by writing`
  }

  const hidden = Object.keys(fields).filter((name) => fields[name]?.read)
  if (hidden.length === 0) return
  const relationColumns = listRelationColumns(definition, all)
  const comparisons = listComparisons(definition)
  const references = getTableConfig(table)
    .foreignKeys.filter(({ onDelete = '' }) => !onDelete.startsWith('set '))
    .map((key) => key.reference())
  for (const name of hidden) {
    const part = `field "${name}" cannot be hidden from a role:`
    const excluded = callerRoles.filter((role) => !mayRead(fields[name], role))
    if (search.includes(name)) yield `${part} it is searched`
    if (defaultSort?.replace(/^-/, '') === name) yield `${part} it is the default sort`
    if (relationColumns.includes(name)) yield `${part} a relation compares it`
    // A role that reads another field of a comparison perhaps writes it.
    const isKnown = (other: string) => excluded.some((role) => mayRead(fields[other], role))
    if (comparisons.some((names) => names.includes(name) && names.some(isKnown)))
      yield `${part} a constraint compares it together with other fields`
    const targets = references
      .filter((each) => each.columns.some((column) => column.name === name))
      .map(({ foreignTable }) => foreignTable)
    for (const { name: target, table: referenced, access } of all)
      if (targets.some((each) => each === referenced) && excluded.some((role) => access.remove?.[role]))
        yield `${part} it refers to ${target}, and deleting those shows it`
  }

  const columns: Readonly<Record<string, PgColumn>> = getTableColumns(table)
  const derived = Object.keys(schemas.read.properties).filter(
    (name) => !columns[name] || columns[name].generated,
  )
  for (const name of derived)
    if (!(name in fields))
      yield `field "${name}" may depend on ${quoteAll(hidden)}: say in \`fields\` who may read it`
}
