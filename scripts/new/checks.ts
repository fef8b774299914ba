/** Checks each answer about a new resource. */

import { UsageError } from '../../packages/http/src/commands/usage-error.ts'
import { isReservedName, isResourceName } from '../../packages/resources/src/collection/check/names.ts'
import { checkFieldName, type Field, split } from './fields.ts'
import { toPascal, toSingular, toSnake } from './names.ts'
import type { Registered } from './registered.ts'
import type { FieldCondition, Reference, ResourcePlan } from './resource-plan.ts'

/** Of PostgreSQL. */
const MAX_IDENTIFIER_LENGTH = 63

export const isNone = (answer: string | undefined) =>
  answer === undefined || answer === '' || answer === 'none'

export function readList(text: string, allowed: readonly string[]): string[] {
  const names = split(text, ',')
  const unknown = [...new Set(names.filter((name) => !allowed.includes(name)))]
  const repeated = [...new Set(names.filter((name, i) => names.indexOf(name) < i))]
  const wrong = [
    ...unknown.map((name) => `"${name}" is not possible`),
    ...repeated.map((name) => `"${name}" stands twice`),
  ]
  if (wrong.length === 0) return names
  throw new UsageError(`${wrong.join(', ')}; choose from ${allowed.join(', ') || 'none'}`)
}

/** Reads the names of actions, which are the last segments of their paths. */
export function readActions(text: string | undefined): string[] {
  const names = text === undefined || isNone(text) ? [] : split(text, ',')
  const wrong = names.filter((name, i) => !isResourceName(name) || names.indexOf(name) !== i)
  if (wrong.length === 0) return names
  throw new UsageError(`"${wrong.join('", "')}" is not a name in kebab-case, as in refunds, or stands twice`)
}

export function readReference(
  name: string,
  column: string,
  cascades: boolean,
  registered: readonly Registered[],
): Reference {
  const to = registered.find((resource) => resource.name === name)
  const known = registered.filter(({ table }) => table).map((resource) => resource.name)
  if (to?.table) return { column, to, table: to.table.name, file: to.table.file, cascades }
  throw new UsageError(`there is no resource "${name}" to refer to; choose from ${known.join(', ')}`)
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
    throw new UsageError(`write the singular of "${name}" in PascalCase, as in Person`)
  }
  if (!/^[A-Z][A-Za-z0-9]*$/.test(singular)) {
    throw new UsageError(`"${singular}" is not in PascalCase; write it as in UserProfile`)
  }
  if (registered.some((resource) => resource.singular === singular || resource.plural === singular)) {
    throw new UsageError(`another resource is called "${singular}"`)
  }
  return singular
}

/** Reads whether rows are deleted with their owner and their parent. */
export function readOnDelete(text: string | undefined, hasOwnerOrParent: boolean): boolean {
  if (text === undefined) return false
  if (text !== 'restrict' && text !== 'cascade') throw new UsageError('write restrict or cascade')
  if (hasOwnerOrParent) return text === 'cascade'
  throw new UsageError(
    'there is no --owner and no --parent; for a field, write ref(RESOURCE) or ref(RESOURCE, cascade)',
  )
}

export function readParent(name: string, cascades: boolean, registered: readonly Registered[]): Reference {
  const found = registered.find((resource) => resource.name === name)
  const column = `${toSnake(found?.singular ?? name)}_id`
  const parent = readReference(name, column, cascades, registered)
  if (parent.to.isNested) {
    throw new UsageError(`"${name}" has a parent itself; a path has one parent at most`)
  }
  return parent
}

/** `user_id`, `user_id:reads`, or `user_id:reads(status=issued,paid)`. */
const OWNER = /^([^:(]*)(?::(writes|reads)(?:\(([^()]*)\))?)?$/

/** Reads the conditions on their own rows that owners read; none if they read all of them. */
export function readOwnConditions(
  text: string | undefined,
  fields: readonly Field[],
  known: readonly string[],
): readonly FieldCondition[] {
  const [, , access, conditions] = OWNER.exec(text ?? '') ?? []
  if (conditions === undefined || access !== 'reads') return []
  return readConditions(conditions, fields, known, {
    form: 'write COLUMN:reads(FIELD=VALUES)',
    all: 'owners read all their rows; write COLUMN:reads',
  })
}

/** Reads the column of the owner, and whether owners write: `user_id`, `user_id:writes` or `user_id:reads`. */
export function readOwner(
  text: string | undefined,
  parent: Reference | undefined,
  cascades: boolean,
  registered: readonly Registered[],
): { owner: Reference | undefined; isOwnerWriting: boolean } {
  const matched = OWNER.exec(isNone(text) ? '' : (text ?? ''))
  if (!matched) {
    throw new UsageError(
      'write COLUMN:writes, COLUMN:reads or COLUMN:reads(CONDITIONS), as in user_id:reads(status=issued,paid)',
    )
  }
  const [, column = '', access = 'writes', conditions] = matched
  if (access === 'writes' && conditions !== undefined)
    throw new UsageError('conditions limit what owners read, not what they write; write COLUMN:reads(...)')
  const isOwnerWriting = access === 'writes'
  if (parent?.to.name === 'users') {
    if (column === '' || column === parent.column) return { owner: parent, isOwnerWriting }
    throw new UsageError(
      `rows under /users belong to the user in the path; write ${parent.column} or leave it out`,
    )
  }
  if (column === '') return { owner: undefined, isOwnerWriting }
  checkFieldName(column)
  if (!column.endsWith('_id')) throw new UsageError('the name of the column ends with _id, as in user_id')
  return { owner: readReference('users', column, cascades, registered), isOwnerWriting }
}

const getConditionValues = (field: Field): readonly string[] => {
  if (field.type === 'enum') return field.values
  return field.type === 'boolean' ? ['true', 'false'] : []
}

/** Reads `all`, `none`, or conditions such as `status=issued,paid; is_open=true`. */
export function readVisible(
  text: string | undefined,
  fields: readonly Field[],
  known: readonly string[],
): 'all' | readonly FieldCondition[] {
  if (text === 'all') return 'all'
  if (text === undefined || isNone(text)) return []
  return readConditions(text, fields, known, {
    form: 'write all, none, or FIELD=VALUES',
    all: 'all rows are visible; write all',
  })
}

/** @param hints the possible forms, and what it means that a condition has all values of its field */
function readConditions(
  text: string,
  fields: readonly Field[],
  known: readonly string[],
  hints: { form: string; all: string },
): readonly FieldCondition[] {
  const possible = fields.filter((field) => getConditionValues(field).length > 0)
  const mistakes: string[] = []
  const conditions = split(text, ';').flatMap((condition): FieldCondition[] => {
    const [name = '', list = '', another] = condition.split('=').map((part) => part.trim())
    const field = possible.find((each) => each.name === name)
    // The mistake in such a field is reported already.
    if (known.includes(name) && !fields.some((each) => each.name === name)) return []
    if (!field || another !== undefined) {
      const names = possible.map((each) => each.name).join(', ') || 'none'
      mistakes.push(
        `"${condition}" is no condition; ${hints.form} with a status, an enum or a boolean (there is ${names})`,
      )
      return []
    }
    const possibleValues = getConditionValues(field)
    const values = split(list, ',')
    const unknown = values.filter((value) => !possibleValues.includes(value))
    if (unknown.length > 0 || values.length === 0) {
      mistakes.push(
        `${name}: "${unknown.join('", "')}" is not possible; choose from ${possibleValues.join(', ')}`,
      )
    } else if (new Set(values).size === possibleValues.length) {
      mistakes.push(`${name} has no other values, so that ${hints.all}`)
    }
    return values.map((value) => ({
      field: name,
      value: field.type === 'boolean' ? value === 'true' : value,
    }))
  })
  if (mistakes.length === 0 && conditions.length === 0 && split(text, ';').length === 0)
    mistakes.push(`there is no condition; ${hints.form}`)
  if (mistakes.length > 0) throw new UsageError(mistakes.join('\n'))
  return conditions
}

export function checkColumns(columns: readonly string[], references: readonly Reference[]): void {
  const repeated = columns.filter((name, i) => columns.indexOf(name) < i)
  const relations = references.map(({ column }) => column.replace(/_id$/, ''))
  const mistakes = [
    ...new Set(
      repeated.map((name) => `"${name}" stands twice, as a field or as the column of another option`),
    ),
    ...relations
      .filter((name) => columns.includes(name))
      .map((name) => `"${name}" is the name of a relation already; choose another`),
  ]
  if (mistakes.length > 0) throw new UsageError(mistakes.join('\n'))
}

export function checkChangeable(fields: readonly Field[]): void {
  if (fields.some(({ isImmutable }) => !isImmutable)) return
  throw new UsageError('write at least one field that can be changed, for example --fields name:text')
}

export function checkStatesBy(text: string, isOwnerWriting: boolean): void {
  if (text !== 'staff' && text !== 'owner') throw new UsageError('write staff or owner')
  if (text === 'owner' && !isOwnerWriting) {
    throw new UsageError('the owner only reads; write staff, or :writes behind the column of --owner')
  }
}

/**
 * Reads the fields of a unique key. A test creates rows with different values of it, so one of them must have many.
 * @param known the names of all fields, those with mistakes included
 */
export function readUnique(
  text: string | undefined,
  fields: readonly Field[],
  references: readonly Reference[],
  known: readonly string[],
): string[] {
  if (text === undefined || isNone(text)) return []
  const required = fields.filter(({ isNullable, type }) => !isNullable && type !== 'texts')
  const unread = known.filter((name) => !fields.some((field) => field.name === name))
  const unique = readList(text, [...new Set([...unread, ...required.map(({ name }) => name)])])
  const hasManyValues = (name: string) =>
    unread.includes(name) ||
    references.some(({ column }) => column === name) ||
    required.some((field) => field.name === name && !['boolean', 'enum', 'currency'].includes(field.type))
  if (unique.some(hasManyValues)) return unique
  throw new UsageError(`${unique.join(' and ')} have too few values to be a key`)
}

export function checkDescription(description: string): void {
  if (/^[^\p{Cc}]{1,200}$/u.test(description) && !description.includes('*/')) return
  throw new UsageError('write one line of at most 200 characters, without "*/"')
}

export function checkIndexNames({ table, unique, fields }: ResourcePlan): void {
  const names = [
    `${unique.join('_')}_unique`,
    ...fields.flatMap(({ name }) => [`${name}_filter`, `${name}_prefix`]),
  ]
  const long = names.map((name) => `${table}_${name}`).find((name) => name.length > MAX_IDENTIFIER_LENGTH)
  if (long === undefined) return
  const limit = `longer than the ${MAX_IDENTIFIER_LENGTH} characters of PostgreSQL`
  throw new UsageError(`The name of an index would be "${long}", ${limit}; choose shorter names`)
}
