/** What the lists of a new resource filter, sort and search by, with their indexes, and what of it has no name of its own. */
import { Nothing } from '@resource-api/api/schemas'
import { common } from '@resource-api/database'
import { findRepeatedParameters } from '@resource-api/resources/internal'
import { pgTable } from 'drizzle-orm/pg-core'
import type { ResourcePlan } from './resource-plan.ts'
import { type Field, type TypeName, writeNullSorts } from './types.ts'

/** The longest list of values of a filter that the negation of another one may stand for. */
const MAX_NEGATED_VALUES = 20

export const LIMITED: ReadonlySet<TypeName> = new Set<TypeName>([
  'integer',
  'money',
  'decimal',
  'date',
  'time',
  'timestamp',
])

/** Returns whether lists can limit a field with a minimum and a maximum. */
export const isLimited = ({ type, isNullable }: Field) => LIMITED.has(type) && !isNullable

/** The searched field that lists filter by with a prefix: the first one, if it is one line and never null. */
function getPrefixes({ search, fields, existing }: ResourcePlan): string[] {
  // The column of searches of a view may have the fields in another order.
  if (existing) return []
  const field = fields.find(({ name }) => name === search[0])
  return field && !field.isNullable && field.type !== 'multiline' ? [field.name] : []
}

export function readLists(plan: ResourcePlan) {
  const { fields, filters, sorts, search } = plan
  const isNegatable = (field: Field) =>
    !field.isNullable &&
    filters.includes(field.name) &&
    (field.type === 'boolean' || (field.type === 'enum' && field.values.length <= MAX_NEGATED_VALUES))
  return {
    filters,
    negations: fields.filter(isNegatable).map(({ name }) => name),
    nullChecks: fields.filter((field) => field.isNullable && !field.isComputed).map(({ name }) => name),
    prefixes: getPrefixes(plan),
    ranges: fields.filter((field) => isLimited(field) && sorts.includes(field.name)).map(({ name }) => name),
    sorts: [...sorts, 'created_at', 'updated_at'],
    search,
  }
}

/**
 * Lists the indexes, with their declarations. Each sort, filter and foreign key has one; under a parent, all but those of keys
 * begin with its column.
 */
export function listIndexes(plan: ResourcePlan): { name: string; code: string }[] {
  const { table, parent, unique, fields, sorts, filters, references, search } = plan
  const scope = parent ? `t.${parent.column}, ` : ''
  const declare = (name: string, columns: string, helper = 'index') => ({
    name,
    code: `${helper}('${name}').on(${columns})`,
  })
  const index = (suffix: string, columns: string) => declare(`${table}_${suffix}`, `${scope}${columns}, t.id`)
  const isUnique = (name: string) => unique.length === 1 && unique[0] === name
  const sorted = sorts.flatMap((name) => {
    const field = fields.find((each) => each.name === name)
    if (isUnique(name) && !parent) return []
    if (!field?.isNullable) return [index(name, `t.${name}`)]
    const { ascending, descending } = writeNullSorts(field)
    return [index(`${name}_asc`, ascending), index(`${name}_desc`, descending)]
  })
  const filtered = filters
    .filter((name) => !isUnique(name))
    .map((name) => index(sorts.includes(name) ? `${name}_filter` : name, `t.${name}, t.created_at`))
  const leading = new Set([parent?.column, unique[0], ...(parent ? [] : filters)])
  const keys = references.filter(({ column }) => !leading.has(column))
  const uniqueName = plan.existing?.uniqueIndex ?? [table, ...unique, 'unique'].join('_')
  const searched = `${table}_search`
  return [
    ...(unique.length > 0
      ? [declare(uniqueName, unique.map((name) => `t.${name}`).join(', '), 'uniqueIndex')]
      : []),
    index('created_at', 't.created_at'),
    index('updated_at', 't.updated_at'),
    ...sorted,
    ...filtered,
    ...keys.map(({ column }) => declare(`${table}_${column}_key`, `t.${column}`)),
    ...getPrefixes(plan).map((name) => declare(`${table}_${name}_prefix`, `${scope}foldedLine(t.search, 1)`)),
    ...(search.length > 0 && !parent ? [{ name: searched, code: `trigrams('${searched}', t.search)` }] : []),
  ]
}

/** Returns the parameters and the indexes that have the name of another one. */
export function* findRepeatedNames(plan: ResourcePlan): Generator<string> {
  const { sorts, ...lists } = readLists(plan)
  yield* findRepeatedParameters({
    ...lists,
    singular: plan.singular,
    sorts: Object.fromEntries(sorts.map((name) => [name, name])),
    // Field names that parameters have in every list are reserved; those of relations have a dot.
    ...{ schemas: { read: Nothing }, relations: {}, table: pgTable(plan.table, common()) },
    ...(plan.aggregates && { aggregates: plan.aggregates }),
  })
  const names = plan.existing?.view ? [] : listIndexes(plan).map(({ name }) => name)
  for (const name of new Set(names.filter((each, i) => names.indexOf(each) < i)))
    yield `two indexes would have the name "${name}"; choose other names of fields, or leave out a filter or a sort`
}
