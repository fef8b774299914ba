/** Finds names in a definition that are no column, field or state: casts and variables can hide them from the compiler. */
import { getTableColumns, getTableName } from 'drizzle-orm'
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core'
import { CALLER, type Condition } from '../../access/index.ts'
import type { ResourceDefinition } from '../definition.ts'
import { listSentKeys } from '../sql/table-facts.ts'

const KEBAB_CASE = /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/

/** The segment that names a version: `/v2/users`. */
const VERSION = /^v\d+$/

/**
 * First segments of paths with another meaning, and names that the API promises for what no definition describes. Names of the
 * service's own definitions are not among them: no two resources may have the same name.
 */
const RESERVED = new Set([
  ...['api', 'docs', 'openapi', 'livez', 'readyz', 'metrics', 'mcp', 'account', 'me'],
  ...['tokens', 'secrets', 'batches', 'password-resets', 'email-verifications'],
  // A property of every object, so that records by name seem to have it.
  'constructor',
])

/** Returns whether a text is in kebab-case and names no version. */
export const isResourceName = (name: string): boolean => KEBAB_CASE.test(name) && !VERSION.test(name)

export const isReservedName = (name: string): boolean => RESERVED.has(name)

type Columns = Readonly<Record<string, PgColumn>>

const quote = (name: unknown) => `"${String(name)}"`

const list = (names: Iterable<unknown>) => [...names].map(quote).join(', ')

/** Returns a mistake for each name that is not allowed. */
const findOthers = (
  part: string,
  names: Iterable<string>,
  allowed: readonly string[],
  kind: string,
): string[] =>
  [...names]
    .filter((name) => !allowed.includes(name))
    .map((name) => `${part} ${quote(name)} is not ${kind}; there are ${list(allowed)}`)

const isColumnOf = (table: PgTable, column: PgColumn) =>
  Object.values(getTableColumns(table)).includes(column)

/** The SQL types of columns that can hold a user's id. */
const CALLER_TYPE = /^(?:uuid|text|varchar)\b/

/** Returns the enum of a field, without null. */
const getStates = ({ schemas }: ResourceDefinition, field: string): unknown[] | undefined =>
  schemas.read.properties[field]?.enum?.filter((state: unknown) => state !== null)

/** Returns the mistakes in the fields that refer to rows of other resources. */
function findReferenceMistakes(definition: ResourceDefinition, tables: ReadonlySet<PgTable>): string[] {
  const { uncheckedReferences = [] } = definition
  const keys = listSentKeys({ ...definition, uncheckedReferences: [] })
  return [
    ...findOthers(
      'unchecked reference',
      uncheckedReferences,
      keys.flatMap(({ fields }) => fields),
      'a field with a foreign key',
    ),
    ...listSentKeys(definition)
      .filter(({ fields, foreignTable }) => fields.length > 1 && tables.has(foreignTable))
      .map(
        ({ fields }) =>
          `the foreign key of ${list(fields)} has several columns, which no rule can check; name them in \`uncheckedReferences\`, and check them in an action`,
      ),
  ]
}

function findFieldMistakes(definition: ResourceDefinition, columns: Columns): string[] {
  const { schemas, immutable = [], kept = [], filters, ranges = [], sorts, search, parent } = definition
  const { unindexed = [], defaultSort } = definition
  const stored = Object.keys(schemas.read.properties).filter((name) => name in columns)
  const kind = 'a field of the table'
  return [
    ...findOthers('filter', filters, stored, kind),
    ...findOthers('range', ranges, stored, kind),
    ...findOthers('sort', Object.keys(sorts), stored, kind),
    ...(defaultSort === undefined
      ? []
      : findOthers('default sort', [defaultSort.replace(/^-/, '')], Object.keys(sorts), 'one of the sorts')),
    ...findOthers(
      'unindexed',
      unindexed,
      [...filters, ...ranges, ...Object.keys(sorts)],
      'a filter, range or sort',
    ),
    ...findOthers('search', search, stored, kind),
    ...(search.length > 0 && !('search' in columns) ? ['search needs the column "search" of the table'] : []),
    ...findOthers('immutable', immutable, stored, kind),
    ...immutable
      .filter((name) => schemas.change.required?.includes(name))
      .map((name) => `immutable ${quote(name)} is a required field of the schema for changes`),
    ...findOthers('kept', kept, Object.keys(schemas.change.properties), 'a field of the schema for changes'),
    ...(parent ? findOthers('parent', [parent.member], stored, kind) : []),
  ]
}

/** The SQL types of columns that relations compare with each other: equal values have one form. */
const KEY_TYPES = [/^uuid$/, /^(?:text|varchar)\b/, /^(?:smallint|integer|bigint)$/]

/** Returns a mistake if a relation cannot compare two columns. */
function findKeyMistakes(name: string, a: PgColumn | undefined, b: PgColumn | undefined): string[] {
  // Other checks report a column that does not exist.
  if (!a || !b) return []
  if (KEY_TYPES.some((type) => type.test(a.getSQLType()) && type.test(b.getSQLType()))) return []
  return [
    `relation ${quote(name)} cannot compare a column of type ${a.getSQLType()} with one of type ${b.getSQLType()}; keys are uuids, texts or integers`,
  ]
}

function findRelationMistakes({ relations, table }: ResourceDefinition, columns: Columns): string[] {
  return Object.entries(relations).flatMap(([name, { to, local, foreign, through }]) => {
    const relation = `relation ${quote(name)}:`
    const related = getTableName(to)
    const foreignColumns: Columns = getTableColumns(to)
    const foreignNames = Object.keys(foreignColumns)
    const joins = through ? [through.local, through.foreign] : []
    const [key, joined] = [columns[local], foreignColumns[foreign]]
    return [
      ...findKeyMistakes(name, key, through ? through.local : joined),
      ...(through ? findKeyMistakes(name, through.foreign, joined) : []),
      ...findOthers(`${relation} local`, [local], Object.keys(columns), `a column of ${getTableName(table)}`),
      ...findOthers(`${relation} foreign`, [foreign], foreignNames, `a column of ${related}`),
      ...joins
        .filter((column) => through && !isColumnOf(through.table, column))
        .map((column) => `${relation} through ${quote(column.name)} is not a column of the join table`),
    ]
  })
}

function findConditionMistakes(
  part: string,
  condition: Condition,
  definition: ResourceDefinition,
  columns: Columns,
): string[] {
  return [
    ...findOthers(part, Object.keys(condition), Object.keys(columns), 'a column of the table'),
    ...Object.entries(condition).flatMap(([name, value]) => {
      const type = columns[name]?.getSQLType()
      const states = getStates(definition, name)
      if (type === undefined) return []
      if (value === CALLER) {
        const canBeCaller = CALLER_TYPE.test(type) && !states
        return canBeCaller ? [] : [`${part} ${quote(name)} cannot be the caller: it is no uuid and no text`]
      }
      return states && !states.includes(value)
        ? [`${part} ${quote(name)} is never ${quote(value)}; there are ${list(states)}`]
        : []
    }),
  ]
}

function findAccessMistakes(definition: ResourceDefinition, columns: Columns): string[] {
  return Object.entries(definition.access).flatMap(([verb, rules]) =>
    Object.entries(rules).flatMap(([role, rule]) => {
      if (typeof rule === 'boolean') return []
      const part = `access to ${verb} of ${role}`
      const hasCaller = rule.some((condition) => Object.values(condition).includes(CALLER))
      return [
        ...(role === 'anonymous' && hasCaller
          ? [`${part} cannot name the caller: a request without credentials has none`]
          : []),
        ...rule.flatMap((condition) => findConditionMistakes(part, condition, definition, columns)),
      ]
    }),
  )
}

function findTransitionMistakes(definition: ResourceDefinition, columns: Columns): string[] {
  return Object.entries(definition.transitions ?? {}).flatMap(([field, successors]) => {
    const part = `transition of ${quote(field)}`
    const states = getStates(definition, field)
    if (!states || !(field in columns)) return [`${part}: it is not an enum field of the table`]
    const named = new Set([...Object.keys(successors), ...Object.values(successors).flat()])
    return [...named]
      .filter((state) => !states.includes(state))
      .map((state) => `${part}: ${quote(state)} is no state; there are ${list(states)}`)
  })
}

/**
 * Returns a mistake for each name in a definition that does not exist.
 * @param tables the tables of all resources
 */
export function findUnknownNames(definition: ResourceDefinition, tables: ReadonlySet<PgTable>): string[] {
  const columns: Columns = getTableColumns(definition.table)
  return [
    ...findFieldMistakes(definition, columns),
    ...findRelationMistakes(definition, columns),
    ...findReferenceMistakes(definition, tables),
    ...findAccessMistakes(definition, columns),
    ...findTransitionMistakes(definition, columns),
  ]
}
