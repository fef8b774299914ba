/** Reads the query string of a list, from the valid values of its parameters. */

import { type CredentialRule, getCredentialRule } from '@resource-api/api/access'
import type { Violation } from '@resource-api/api/errors'
import { createViolation, withDecode } from '@resource-api/api/validation'
import type { FieldMappings } from '@resource-api/api/versions'
import { isPossibleId, type RowId } from '@resource-api/database/key'
import type { TUnsafe } from '@sinclair/typebox'
import type { FilterCondition, FilterValue, ListFilters, ListQuery, Sort } from '../definition/query.ts'
import type { Resource } from '../definition/resource.ts'
import { DEFAULT_LIMIT } from '../sql/reply-size.ts'
import { type BoundValues, createReadBounds } from './bounds.ts'
import {
  buildListParameters,
  DEFAULT_SORT,
  listConditions,
  listValues,
  MAX_OFFSET,
  MAX_SORTS,
} from './parameters.ts'
import { checkNames, createReadSelection, type SelectionValues, splitNames } from './selection.ts'
import { createToCollection, getFieldNames, toVersionView } from './version-fields.ts'

const MAX_WORDS = 8

interface ListValues extends BoundValues, SelectionValues {
  limit?: number
  page?: number
  cursor?: string
  sort?: string
  order?: string
  search?: string
}

const parseSort = (term: string): Sort =>
  term.startsWith('-') ? { name: term.slice(1), descending: true } : { name: term, descending: false }

function readSorts(
  { defaultSort = DEFAULT_SORT, sorts: known }: Resource,
  values: ListValues,
  violations: Violation[],
): readonly Sort[] {
  const sent = splitNames(values.sort).map(parseSort)
  const sorts = values.sort === undefined ? [parseSort(defaultSort)] : sent
  const names = sent.map(({ name }) => name)
  const orders = splitNames(values.order)
  const isInvalid = violations.some(({ field }) => field === 'sort')
  const report = (
    isWrong: boolean,
    parameter: 'sort' | 'order',
    message: string,
    code: Violation['code'] = 'INVALID_VALUE',
  ) => {
    if (isWrong) violations.push(createViolation(parameter, message, code))
  }
  checkNames('sort', names, Object.keys(known), violations)
  report(sent.length > MAX_SORTS, 'sort', `must not have more than ${MAX_SORTS} fields`)
  report(new Set(names).size < names.length, 'sort', 'must not repeat a field')
  const isDirection = (order: string) => order === 'asc' || order === 'desc'
  report(!orders.every(isDirection), 'order', 'must be asc or desc for each field')
  const hasMoreOrders = orders.length > sorts.length && !isInvalid
  report(hasMoreOrders, 'order', 'must not have more values than sort has fields')
  const isConflicting = sent.some(({ descending }, i) => descending && orders[i] === 'asc')
  const conflict = 'must not be asc for a field that has "-" in sort'
  report(isConflicting, 'order', conflict, 'CONFLICTING_PARAMETERS')
  return sorts.map(({ name, descending }, i) => ({
    name,
    descending: orders[i] === undefined ? descending : orders[i] === 'desc',
  }))
}

function readWords({ search }: ListValues, violations: Violation[]): string[] {
  const words = [...new Set(search?.split(/\s+/u))]
  if (words.length > MAX_WORDS) {
    violations.push(createViolation('search', `must not have more than ${MAX_WORDS} words`, 'TOO_LONG'))
  }
  return words
}

function readPosition({ limit = DEFAULT_LIMIT, page, cursor }: ListValues, violations: Violation[]) {
  // With an invalid limit, only a page that is too deep for every limit is a violation of its own.
  const smallestLimit = violations.some(({ field }) => field === 'limit') ? 1 : limit
  if (page !== undefined && (page - 1) * smallestLimit > MAX_OFFSET) {
    const message = `must not begin after row ${MAX_OFFSET}; use cursors to read further`
    violations.push(createViolation('page', message, 'OUT_OF_RANGE'))
  }
  if (page !== undefined && cursor !== undefined) {
    violations.push(createViolation('page', 'cannot be combined with cursor', 'CONFLICTING_PARAMETERS'))
  }
  return { limit, page, cursor }
}

/** Returns the part of the text that cursors are bound to that follows from the query string. */
export const getQueryIdentity = (query: ListFilters & Pick<ListQuery, 'sorts'>) =>
  JSON.stringify([
    query.sorts.map((sort) => [sort.name, sort.descending]),
    Object.entries(query.filters).sort(([a], [b]) => (a < b ? -1 : 1)),
    query.bounds.map(({ field, operator, value }) => [field, operator, value]),
    [...query.words].sort(),
    query.conditions.map(({ name, values }) => [name, values]),
  ])

/**
 * Returns the text that identifies a list: a cursor is valid only for the list that it was made for.
 * @param identity that of the query
 */
export const getListIdentity = (resource: string, identity: string, parent: RowId | undefined) =>
  JSON.stringify([resource, parent ?? null]) + identity

type Filters = Pick<ListFilters, 'filters' | 'conditions'>

/** Creates the function that reads the filters: equality, `status_not`, `note_null`, `name_prefix`, `user.status`. */
function createReadFilters(resource: Resource) {
  const parameters = listConditions(resource)
  /** The values of the fields whose negation is a filter by the other values. */
  const allValues = new Map(resource.negations?.map((name) => [name, listValues(resource, name)] as const))

  const readValues = (values: ListValues, name: string): readonly FilterValue[] | undefined => {
    const sent = values[name]
    const wanted = Array.isArray(sent) ? sent : undefined
    const all = allValues.get(name)
    const excluded = values[`${name}_not`]
    if (!all || !Array.isArray(excluded)) return wanted
    return (wanted ?? all).filter((value) => !excluded.includes(value))
  }

  /** A value of the filter of ids that no row can have would be an error of the database. */
  const isPossible = (value: FilterValue) => isPossibleId(resource.rowParts.key, String(value))

  return (values: ListValues): Filters => {
    const filters = resource.filters.flatMap((name) => {
      const wanted = readValues(values, name)
      const isId = name === 'id' && wanted?.some((value) => typeof value === 'string')
      return wanted ? [[name, isId ? wanted.filter(isPossible) : wanted] as const] : []
    })
    const conditions = parameters.flatMap(({ kind, parameter, field, relation }): FilterCondition[] => {
      const sent = values[parameter]
      if (sent === undefined) return []
      const name = relation === undefined ? `${field}_${kind}` : `${relation}.${field}`
      return [{ kind, name, field, relation, values: typeof sent === 'object' ? sent : [sent] }]
    })
    return { filters: Object.fromEntries(filters), conditions }
  }
}

/** Returns the relations that conditions compare. */
export const listComparedRelations = ({ conditions }: Pick<ListFilters, 'conditions'>): string[] =>
  conditions.flatMap(({ relation }) => relation ?? [])

/** Returns what filters by relations require of the credential: the same as an include. */
const listRequired = ({ relations }: Resource, filters: Filters): CredentialRule[] =>
  listComparedRelations(filters).flatMap((name) => {
    const to = relations[name]?.to
    return to ? [getCredentialRule(to, 'read')] : []
  })

/**
 * Returns the schema of a list's query string. Handlers get it as a `ListQuery`, with the names of the collection.
 * @param mappings those of the version
 */
export function createListQuery(resource: Resource, mappings: FieldMappings): TUnsafe<ListQuery> {
  const view = toVersionView(resource, mappings)
  const { toCollection } = getFieldNames(resource, mappings)
  const toCollectionFilters = view === resource ? undefined : createToCollection(resource, mappings)
  const readSelection = createReadSelection(resource, mappings)
  const readBounds = createReadBounds(view)
  const readFilters = createReadFilters(view)
  const readNamedSorts = (values: ListValues, violations: Violation[]): readonly Sort[] =>
    values.sort === undefined
      ? readSorts(resource, values, violations)
      : readSorts(view, values, violations).map((sort) => ({ ...sort, name: toCollection(sort.name) }))

  return withDecode(buildListParameters(view), (values: ListValues, violations): ListQuery => {
    const filters = readFilters(values)
    const selection = readSelection(values, violations)
    const sent = {
      ...selection,
      requires: [...selection.requires, ...listRequired(resource, filters)],
      ...readPosition(values, violations),
      sorts: readNamedSorts(values, violations),
      ...filters,
      words: readWords(values, violations),
      bounds: readBounds(values, violations),
    }
    const query = toCollectionFilters?.(sent) ?? sent
    return { ...query, identity: getQueryIdentity(query) }
  })
}
