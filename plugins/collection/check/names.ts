/** Finds names in a definition that are no column, field or state: casts and variables can hide them from the compiler. */
import { getTableColumns, getTableName } from 'drizzle-orm'
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core'
import { CALLER, isPath, NOT_NULL } from '../../access/rules.ts'
import type { ResourceDefinition } from '../definition.ts'
import { listConditionParameters } from '../request/parameters.ts'
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

export function createReport() {
  const mistakes: string[] = []
  const report = (isWrong: boolean, mistake: string) => {
    if (isWrong) mistakes.push(mistake)
  }
  return { mistakes, report }
}

type Columns = Readonly<Record<string, PgColumn>>

const quote = (name: unknown) => `"${String(name)}"`

const list = (names: Iterable<unknown>) => [...names].map(quote).join(', ')

/** The SQL types of columns that can hold a user's id. */
const CALLER_TYPE = /^(?:uuid|text|varchar)\b/

/** The SQL types of columns that relations compare with each other: equal values have one form. */
const KEY_TYPES = [/^uuid$/, /^(?:text|varchar)\b/, /^(?:smallint|integer|bigint)$/]

/** Returns whether a relation can compare two columns. Other checks report a column that does not exist. */
const areComparable = (a: PgColumn | undefined, b: PgColumn | undefined) =>
  !a || !b || KEY_TYPES.some((type) => type.test(a.getSQLType()) && type.test(b.getSQLType()))

/** @param tables the tables of all resources */
export function findUnknownNames(definition: ResourceDefinition, tables: ReadonlySet<PgTable>): string[] {
  const {
    access,
    constraints = {},
    filters,
    immutable = [],
    kept = [],
    parent,
    ranges = [],
    relations,
    schemas,
  } = definition
  const {
    defaultSort,
    search,
    table,
    transitions = {},
    uncheckedReferences = [],
    unindexed = [],
  } = definition
  const columns: Columns = getTableColumns(table)
  const columnNames = Object.keys(columns)
  const { mistakes, report } = createReport()
  const checkNames = (
    part: string,
    names: readonly string[],
    allowed: readonly string[],
    description: string,
  ) => {
    for (const name of names) {
      report(
        !allowed.includes(name),
        `${part} ${quote(name)} is not ${description}; there are ${list(allowed)}`,
      )
    }
  }
  /** Returns the enum of a field, without null. */
  const getStates = (field: string): unknown[] | undefined =>
    schemas.read.properties[field]?.enum?.filter((state: unknown) => state !== null)

  const stored = Object.keys(schemas.read.properties).filter((name) => name in columns)
  const sorts = Object.keys(definition.sorts)
  const kind = 'a field of the table'
  checkNames('filter', filters, stored, kind)
  checkNames('range', ranges, stored, kind)
  checkNames('sort', sorts, stored, kind)
  if (defaultSort) checkNames('default sort', [defaultSort.replace(/^-/, '')], sorts, 'one of the sorts')
  const { negations = [], nullChecks = [], prefixes = [] } = definition
  checkNames('negation', negations, stored, kind)
  checkNames('null check', nullChecks, stored, kind)
  checkNames('prefix', prefixes, stored, kind)
  const parameters = listConditionParameters(definition).map(({ parameter }) => parameter)
  const listed = [...new Set([...filters, ...ranges, ...sorts, ...parameters])]
  checkNames('unindexed', unindexed, listed, 'a filter, range or sort')
  checkNames('search', search, stored, kind)
  report(search.length > 0 && !('search' in columns), 'search needs the column "search" of the table')
  checkNames('immutable', immutable, stored, kind)
  for (const name of immutable) {
    const isRequired = schemas.change.required?.includes(name) ?? false
    report(isRequired, `immutable ${quote(name)} is a required field of the schema for changes`)
  }
  checkNames('kept', kept, Object.keys(schemas.change.properties), 'a field of the schema for changes')
  if (parent) checkNames('parent', [parent.member], stored, kind)
  for (const [name, { fields }] of Object.entries(constraints)) {
    checkNames(`constraint ${quote(name)}:`, fields, Object.keys(schemas.read.properties), 'a field')
  }

  for (const [name, { to, local, foreign, through }] of Object.entries(relations)) {
    const relation = `relation ${quote(name)}`
    const foreignColumns: Columns = getTableColumns(to)
    const [key, joined] = [columns[local], foreignColumns[foreign]]
    const pairs = through
      ? [
          { a: key, b: through.local },
          { a: through.foreign, b: joined },
        ]
      : [{ a: key, b: joined }]
    for (const { a, b } of pairs) {
      const types = `a column of type ${a?.getSQLType()} with one of type ${b?.getSQLType()}`
      report(!areComparable(a, b), `${relation} cannot compare ${types}; keys are uuids, texts or integers`)
    }
    checkNames(`${relation}: local`, [local], columnNames, `a column of ${getTableName(table)}`)
    checkNames(
      `${relation}: foreign`,
      [foreign],
      Object.keys(foreignColumns),
      `a column of ${getTableName(to)}`,
    )
    for (const column of through ? [through.local, through.foreign] : []) {
      const isOther = !Object.values(getTableColumns(through?.table ?? table)).includes(column)
      report(isOther, `${relation}: through ${quote(column.name)} is not a column of the join table`)
    }
  }

  const keys = listSentKeys({ ...definition, uncheckedReferences: [] }).flatMap(({ fields }) => fields)
  checkNames('unchecked reference', uncheckedReferences, keys, 'a field with a foreign key')
  for (const { fields, foreignTable } of listSentKeys(definition)) {
    report(
      fields.length > 1 && tables.has(foreignTable),
      `the foreign key of ${list(fields)} has several columns, which no rule can check; name them in \`uncheckedReferences\`, and check them in an action`,
    )
  }

  const operations = Object.entries(definition.operations ?? {}).map(
    ([name, own]) => [name, own.access] as const,
  )
  for (const [verb, rules] of [...Object.entries(access), ...operations]) {
    for (const [role, rule] of Object.entries(rules)) {
      const part = `access to ${verb} of ${role}`
      const conditions = typeof rule === 'boolean' ? [] : rule
      const hasCaller = conditions.some((condition) => Object.values(condition).includes(CALLER))
      report(
        role === 'anonymous' && hasCaller,
        `${part} cannot name the caller: a request without credentials has none`,
      )
      for (const condition of conditions) {
        const names = Object.keys(condition).filter((name) => !isPath(name))
        checkNames(part, names, columnNames, 'a column of the table')
        for (const [name, value] of Object.entries(condition)) {
          const type = columns[name]?.getSQLType()
          const states = getStates(name)
          if (type === undefined) continue
          if (value === CALLER) {
            const canBeCaller = CALLER_TYPE.test(type) && !states
            report(!canBeCaller, `${part} ${quote(name)} cannot be the caller: it is no uuid and no text`)
          } else if (value === NOT_NULL) {
            report(true, `${part} ${quote(name)} cannot be NOT_NULL: only a path can`)
          } else if (states) {
            const known = `there are ${list(states)}`
            report(!states.includes(value), `${part} ${quote(name)} is never ${quote(value)}; ${known}`)
          }
        }
      }
    }
  }

  for (const [name, successors] of Object.entries(transitions)) {
    const part = `transition of ${quote(name)}:`
    const states = name in columns ? getStates(name) : undefined
    report(!states, `${part} it is not an enum field of the table`)
    for (const state of new Set([...Object.keys(successors), ...Object.values(successors).flat()])) {
      const isUnknown = states !== undefined && !states.includes(state)
      report(isUnknown, `${part} ${quote(state)} is no state; there are ${list(states ?? [])}`)
    }
  }
  return mistakes
}
