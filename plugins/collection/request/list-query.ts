/** Reads the query string of a list, from the valid values of its parameters. */
import type { TUnsafe } from '@sinclair/typebox'
import type { Violation } from '../../../schemas/error.ts'
import { withDecode } from '../../validation/schema-functions.ts'
import { createViolation } from '../../validation/text.ts'
import type { ListFilters, ListQuery, Selection, Sort } from '../query.ts'
import { DEFAULT_LIMIT, getChunkSize, getSelectedBytes } from '../reply-size.ts'
import type { Resource } from '../resource.ts'
import { getFilterShape, getFilterValues } from '../sql/conditions.ts'
import { createSortTerms } from '../sql/keyset.ts'
import { type BoundValues, createReadBounds } from './bounds.ts'
import { createReadFilters, listRequired } from './filters.ts'
import { buildListParameters, DEFAULT_SORT, MAX_OFFSET, MAX_SORTS } from './parameters.ts'
import {
  checkNames,
  createReadSelection,
  getToInternal,
  type SelectionValues,
  splitNames,
} from './selection.ts'

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
export const getListIdentity = (resource: string, identity: string, parent: string | undefined) =>
  JSON.stringify([resource, parent ?? null]) + identity

type ParsedQuery = Pick<ListQuery, keyof Selection | keyof ListFilters | 'sorts' | 'page'>

const getShape = (query: ParsedQuery) =>
  [
    getFilterShape(query),
    query.sorts.map(({ name, descending }) => `${descending ? '-' : ''}${name}`).join(),
    query.fields?.join() ?? '*',
    query.include.join(),
  ].join('|')

/**
 * Returns whether an index yields exactly the rows of the page: with one sort and no condition, or one value of a field
 * and the default sort. With more, PostgreSQL may have to skip any number of rows.
 */
function isQuick({ columns, parent, uniqueColumns, unindexed = [] }: Resource, query: ParsedQuery) {
  const { sorts, filters, words, bounds, page } = query
  const [sort, another] = sorts
  const hasOthers = words.length > 0 || bounds.length > 0 || query.conditions.length > 0
  if (hasOthers || page !== undefined || another) return false
  const names = Object.keys(filters)
  if (names.some((name) => filters[name]?.length !== 1 || unindexed.includes(name))) return false
  if (names.some((name) => uniqueColumns.has(columns[name]?.name ?? ''))) return true
  const conditions = names.length + (parent ? 1 : 0)
  return conditions === 0 || (conditions === 1 && sort?.name === 'created_at')
}

/**
 * Returns whether the best index depends on the values: for words and conditions, and for limits of a field that is not the
 * first sort.
 */
const needsCustomPlan = ({ words, bounds, conditions, sorts }: ParsedQuery) =>
  words.length + conditions.length > 0 ||
  bounds.some(({ field }) => field !== 'created_at' && field !== sorts[0]?.name)

/** Returns the schema of a list's query string. Handlers get it as a `ListQuery`, with the names of the definition. */
export function createListQuery(resource: Resource): TUnsafe<ListQuery> {
  const { published } = resource
  const toInternal = getToInternal(resource)
  const readSelection = createReadSelection(resource)
  const readBounds = createReadBounds(resource)
  const readFilters = createReadFilters(resource)
  const getSortTerms = createSortTerms(resource)

  return withDecode(buildListParameters(published), (values: ListValues, violations): ListQuery => {
    const toSort = ({ name, descending }: Sort) => ({ name: toInternal(name), descending })
    const filters = readFilters(values)
    const selection = readSelection(values, violations)
    const query = {
      ...selection,
      requires: [...selection.requires, ...listRequired(resource, filters)],
      ...readPosition(values, violations),
      sorts: readSorts(published, values, violations).map(toSort),
      ...filters,
      words: readWords(values, violations),
      bounds: readBounds(values, violations),
    }
    return {
      ...query,
      // Unknown names have no terms.
      terms: violations.length > 0 ? [] : getSortTerms(query.sorts),
      identity: getQueryIdentity(query),
      shape: getShape(query),
      values: getFilterValues(query),
      isQuick: isQuick(resource, query),
      customPlan: needsCustomPlan(query),
      chunkSize: getChunkSize(getSelectedBytes(resource.schemas.read, query.fields)),
    }
  })
}
