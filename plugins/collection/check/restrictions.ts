/** Finds fields that cannot be restricted to roles, because another part of the definition would show their values. */
import { getTableColumns } from 'drizzle-orm'
import { getTableConfig, type PgColumn } from 'drizzle-orm/pg-core'
import { verbs } from '../../access/rules.ts'
import type { ResourceDefinition } from '../definition.ts'
import { COMMON_FIELDS } from '../fields.ts'
import { hasDefault } from '../request/body-schema.ts'
import { callerRoles, isWritten, mayRead, mayWrite } from '../restrictions.ts'
import { getUniqueColumns, listColumns } from '../sql/constraint-errors.ts'
import { listFields } from '../versions.ts'
import { createReport } from './names.ts'

/** Returns the places where fields are compared together with others, by which a caller could find out their values. */
function listComparisons({ table, constraints = {} }: ResourceDefinition): (readonly string[])[] {
  const { checks, indexes } = getTableConfig(table)
  const unique = getUniqueColumns(table)
  return [
    ...unique.values(),
    // Whether a value is taken depends on the rows that the index has.
    ...indexes
      .filter(({ config }) => config.unique && config.where)
      .map(({ config }) => [...(unique.get(config.name) ?? []), ...listColumns(config.where)]),
    ...checks.map(({ value }) => listColumns(value)),
    ...Object.values(constraints).map((each) => each.fields),
  ]
}

/** Returns whether some role that may not read a field may read another, and so perhaps write it. */
const canCompare = ({ fields = {} }: ResourceDefinition, name: string, other: string): boolean =>
  callerRoles.some((role) => !mayRead(fields[name] ?? {}, role) && mayRead(fields[other] ?? {}, role))

/** Returns the resources to which a field refers, and which a role that may not read the field may delete. */
function listRemovableTargets(
  { fields = {}, table }: ResourceDefinition,
  name: string,
  all: readonly ResourceDefinition[],
): string[] {
  const targets = getTableConfig(table)
    .foreignKeys.filter(({ onDelete = '' }) => !onDelete.startsWith('set '))
    .map((key) => key.reference())
    .filter(({ columns }) => columns.some((column) => column.name === name))
    .map(({ foreignTable }) => foreignTable)
  const hasRemover = ({ access }: ResourceDefinition) =>
    callerRoles.some(
      (role) => !mayRead(fields[name] ?? {}, role) && (access.remove?.[role] ?? false) !== false,
    )
  return all.filter((each) => targets.includes(each.table) && hasRemover(each)).map((each) => each.name)
}

/** Returns the fields of a resource by which relations, its own and those of others, find rows. */
function listRelationFields(definition: ResourceDefinition, all: readonly ResourceDefinition[]): string[] {
  const own = Object.values(definition.relations).map(({ local }) => local)
  const relations = all.flatMap((each) => Object.values(each.relations))
  const others = relations.filter(({ to }) => to === definition.table).map(({ foreign }) => foreign)
  const joined = relations.flatMap(({ through }) =>
    through?.table === definition.table ? [through.local.name, through.foreign.name] : [],
  )
  return [...own, ...others, ...joined]
}

/** @param all the definitions of the app, with the inverses of their relations */
export function findRestrictionMistakes(
  definition: ResourceDefinition,
  all: readonly ResourceDefinition[],
): string[] {
  const { access, defaultSort, fields = {}, parent, schemas, search, table, versions = {} } = definition
  const { mistakes, report } = createReport()
  const columns: Record<string, PgColumn> = getTableColumns(table)
  const added = Object.values(versions).flatMap(({ add = {} }) => Object.keys(add))
  const readable = Object.keys(schemas.read.properties)
  const known = new Set([...listFields(schemas), ...added])
  const common: readonly string[] = COMMON_FIELDS
  const hidden = Object.keys(fields).filter((name) => fields[name]?.read)
  const derived = [...readable.filter((name) => !columns[name] || columns[name].generated), ...added]
  const canCreateAny = (definition.verbs ?? verbs).includes('create')
  const relationFields = listRelationFields(definition, all)

  report(
    Object.keys(fields).length > 0 && definition.handlers !== undefined,
    '`fields` requires the handlers of the engine',
  )
  for (const [name, rule] of Object.entries(fields)) {
    const part = `the rule of field "${name}":`
    report(!known.has(name), `${part} there is no such field`)
    report(
      common.includes(name) || name === parent?.member,
      `${part} addresses, tags and the default sort show it to every role`,
    )
    report(
      rule.write !== undefined && !isWritten(definition, name),
      `${part} no body has it, so that it has no \`write\``,
    )
    for (const role of [...(rule.read ?? []), ...(rule.write ?? [])]) {
      report(!callerRoles.includes(role), `${part} there is no role "${role}"`)
    }
    for (const role of callerRoles) {
      report(
        mayWrite(rule, role) && !mayRead(rule, role),
        `${part} ${role} may write but not read it, and could find out its value by writing`,
      )
      const canCreate = canCreateAny && (access.create?.[role] ?? false) !== false
      const isRequired =
        schemas.create.required?.includes(name) && !hasDefault(schemas.create.properties[name])
      report(
        canCreate && !mayWrite(rule, role) && isRequired === true,
        `${part} ${role} may create resources but not write it; give it a default`,
      )
    }
  }
  for (const name of hidden) {
    const part = `field "${name}" cannot be hidden from a role:`
    report(search.includes(name), `${part} it is searched`)
    report(defaultSort?.replace(/^-/, '') === name, `${part} it is the default sort`)
    report(relationFields.includes(name), `${part} a relation compares it`)
    const isCompared = listComparisons(definition).some(
      (names) => names.includes(name) && names.some((other) => canCompare(definition, name, other)),
    )
    report(isCompared, `${part} a constraint compares it together with other fields`)
    for (const target of listRemovableTargets(definition, name, all)) {
      report(true, `${part} it refers to ${target}, and deleting those shows it`)
    }
  }
  for (const name of hidden.length > 0 ? derived : []) {
    report(
      !(name in fields),
      `field "${name}" may depend on ${hidden.map((each) => `"${each}"`).join(', ')}: say in \`fields\` who may read it`,
    )
  }
  return mistakes
}
