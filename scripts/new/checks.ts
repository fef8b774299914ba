/** Checks each answer about a new resource. */
import { isReservedName, isResourceName } from '../../plugins/collection/check/names.ts'
import { UsageError } from '../../src/cli/usage-error.ts'
import { checkFieldName, type Field, split } from './fields.ts'
import { toPascal, toSingular, toSnake } from './names.ts'
import type { Registered } from './registered.ts'
import type { Flag, Reference, ResourcePlan } from './resource-plan.ts'
import type { States } from './states.ts'

/** Of PostgreSQL. */
const MAX_IDENTIFIER_LENGTH = 63

export const isNone = (answer: string | undefined) =>
  answer === undefined || answer === '' || answer === 'none'

export function readList(flag: Flag, text: string, allowed: readonly string[]): string[] {
  const names = split(text, ',')
  const unknown = names.find((name) => !allowed.includes(name))
  if (unknown === undefined && new Set(names).size === names.length) return names
  const wrong = unknown === undefined ? 'a name stands twice' : `"${unknown}" is not possible`
  throw new UsageError(`--${flag}: ${wrong}; choose from ${allowed.join(', ') || 'none'}`)
}

/** Reads the names of operations, which are the last segment of their paths. */
export function readOperations(text: string | undefined): string[] {
  const names = text === undefined || isNone(text) ? [] : split(text, ',')
  const wrong = names.find((name, i) => !isResourceName(name) || names.indexOf(name) !== i)
  if (wrong === undefined) return names
  throw new UsageError(`--operations: "${wrong}" is not a name in kebab-case, as in refunds, or stands twice`)
}

export function readReference(
  flag: Flag,
  name: string,
  column: string,
  cascades: boolean,
  registered: readonly Registered[],
): Reference {
  const to = registered.find((resource) => resource.name === name)
  const known = registered.filter(({ table }) => table).map((resource) => resource.name)
  if (to?.table) return { column, to, table: to.table.name, file: to.table.file, cascades }
  throw new UsageError(
    `--${flag}: there is no resource "${name}" to refer to; choose from ${known.join(', ')}`,
  )
}

export function checkName(name: string, registered: readonly Registered[]): void {
  if (!isResourceName(name)) {
    throw new UsageError(
      `"${name}" is not the name of a collection; write a plural noun in kebab-case, as in order-notes`,
    )
  }
  if (registered.some((resource) => resource.name === name)) {
    throw new UsageError(`There is a resource "${name}" already`)
  }
  if (isReservedName(name)) throw new UsageError(`The path /${name} is reserved; choose another name`)
}

export function readSingular(
  name: string,
  given: string | undefined,
  registered: readonly Registered[],
): string {
  const singular = given ?? toSingular(name)
  if (singular === undefined || singular === toPascal(name)) {
    throw new UsageError(`--singular is required: the singular of "${name}" in PascalCase, as in Person`)
  }
  if (!/^[A-Z][A-Za-z0-9]*$/.test(singular)) {
    throw new UsageError(`--singular: "${singular}" is not in PascalCase; write it as in UserProfile`)
  }
  if (registered.some((resource) => resource.singular === singular || resource.plural === singular)) {
    throw new UsageError(`--singular: another resource is called "${singular}"`)
  }
  return singular
}

export function readParent(name: string, registered: readonly Registered[]): Reference {
  const found = registered.find((resource) => resource.name === name)
  const column = `${toSnake(found?.singular ?? name)}_id`
  const parent = readReference('parent', name, column, true, registered)
  if (parent.to.isNested) {
    throw new UsageError(`--parent: "${name}" has a parent itself; a path has one parent at most`)
  }
  return parent
}

export function readOwner(
  text: string | undefined,
  parent: Reference | undefined,
  registered: readonly Registered[],
) {
  if (parent?.to.name === 'users') {
    if (text !== undefined && text !== parent.column) {
      throw new UsageError(
        `--owner: rows under /users belong to the user in the path; write ${parent.column} or leave it out`,
      )
    }
    return parent
  }
  if (text === undefined || isNone(text)) return undefined
  checkFieldName(text)
  if (!text.endsWith('_id'))
    throw new UsageError('--owner: the name of the column ends with _id, as in user_id')
  return readReference('owner', 'users', text, true, registered)
}

export function readPublic(text: string | undefined, states: States | undefined): 'all' | string[] {
  if (text === 'all') return 'all'
  if (text === undefined || isNone(text)) return []
  if (!states) throw new UsageError(`--public: without --states, write all or none`)
  return readList('public', text, [...states.keys()])
}

export function checkColumns(columns: readonly string[], references: readonly Reference[]): void {
  const twice = columns.find((name, i) => columns.indexOf(name) < i)
  if (twice !== undefined) {
    throw new UsageError(`--fields: "${twice}" stands twice, as a field or as the column of another option`)
  }
  const relations = references.map(({ column }) => column.replace(/_id$/, ''))
  const relation = relations.find((name) => columns.includes(name))
  if (relation !== undefined) {
    throw new UsageError(`--fields: "${relation}" is the name of a relation already; choose another`)
  }
}

export function checkChangeable(fields: readonly Field[]): void {
  if (fields.some(({ isImmutable }) => !isImmutable)) return
  throw new UsageError(
    '--fields is required, with a field that can be changed, for example --fields name:text',
  )
}

export function checkStatesBy(text: string): void {
  if (text !== 'staff' && text !== 'owner') throw new UsageError('--states-by: write staff or owner')
}

/** A test creates rows with different values of the key, so one of its fields must have many. */
export function readUnique(
  text: string | undefined,
  fields: readonly Field[],
  references: readonly Reference[],
): string[] {
  if (text === undefined || isNone(text)) return []
  const required = fields.filter(({ isNullable }) => !isNullable)
  const fixed = references
    .map(({ column }) => column)
    .filter((name) => !fields.some((field) => field.name === name))
  const unique = readList('unique', text, [...fixed, ...required.map(({ name }) => name)])
  const hasManyValues = (name: string) =>
    fixed.includes(name) ||
    required.some((field) => field.name === name && !['boolean', 'enum', 'currency'].includes(field.type))
  if (unique.some(hasManyValues)) return unique
  throw new UsageError(`--unique: ${unique.join(' and ')} have too few values to be a key`)
}

export function checkDescription(description: string): void {
  if (/^[^\p{Cc}]{1,200}$/u.test(description) && !description.includes('*/')) return
  throw new UsageError('--description: write one line of at most 200 characters, without "*/"')
}

export function checkIndexNames({ table, unique, fields }: ResourcePlan): void {
  const names = [`${unique.join('_')}_unique`, ...fields.map(({ name }) => `${name}_desc`)]
  const long = names.map((name) => `${table}_${name}`).find((name) => name.length > MAX_IDENTIFIER_LENGTH)
  if (long === undefined) return
  const limit = `longer than the ${MAX_IDENTIFIER_LENGTH} characters of PostgreSQL`
  throw new UsageError(`The name of an index would be "${long}", ${limit}; choose shorter names`)
}
