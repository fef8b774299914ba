/** Parses the query strings of lists to plans. All violations are reported together. */
import type { Ajv } from 'ajv'
import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { FieldCode, Violation } from '../../../schemas/error.ts'
import { invalidQuery } from '../../errors/index.ts'
import { getChunkSize, getSelectedBytes } from '../reply-size.ts'
import type { ResolvedResource } from '../resolve.ts'
import { createSortTerms, type Sort, type SortTerm } from '../sql/keyset.ts'
import { getFilterShape, getFilterValues, type ListFilters } from '../sql/list-conditions.ts'
import type { Values } from '../sql/statements.ts'
import { type PublishedResource, toInternalQuery } from '../versions/published-resource.ts'
import { type Bound, createBoundsReader } from './list-bounds.ts'
import { buildListParameters, DEFAULT_LIMIT, DEFAULT_SORT, MAX_OFFSET } from './parameters.ts'
import { createQueryReader, type ValidatedQuery } from './query-validation.ts'
import { createViolation, type QueryValue, type QueryValues, split, toText } from './query-values.ts'
import { checkNames, createSelection, type Selection } from './selection.ts'

const MAX_SORTS = 5
const MAX_WORDS = 8

/** The parsed query string of a list, and what follows from it for every request with the same query string. */
export interface ListQuery extends Selection, ListFilters {
  sorts: readonly Sort[]
  /** The total order of the rows. */
  terms: readonly SortTerm[]
  limit: number
  /** Undefined for cursor pagination. */
  page: number | undefined
  /** Undefined for the first page. */
  cursor: string | undefined
  /** Equal for queries with the same rows in the same order. */
  identity: string
  /** Equal for queries that differ only in values, limit and position: they share a statement. */
  shape: string
  /** The values of the parameters in the conditions. */
  values: Values
  /** Whether a caller who may list all rows reads the page from an index alone. Such statements are batched. */
  isQuick: boolean
  /** Whether PostgreSQL plans the statement for its values. */
  customPlan: boolean
  /** How many rows one statement may read. */
  chunkSize: number
}

/** Parsed query strings that are kept for each resource. Without them, W2 of the bench takes 4 % more CPU. */
const MAX_CACHED_QUERIES = 500
const MAX_CACHED_LENGTH = 300

function parseSort(term: string): Sort {
  const descending = term.startsWith('-')
  return { name: descending ? term.slice(1) : term, descending }
}

function readSorts(
  resource: ResolvedResource,
  { values, invalid, violations }: ValidatedQuery,
): readonly Sort[] {
  const defaults = [parseSort(resource.defaultSort ?? DEFAULT_SORT)]
  if (values.sort === undefined && values.order === undefined) return defaults
  const refuse = (parameter: string, message: string, code: FieldCode) =>
    violations.push(createViolation(parameter, message, code))

  const sent = split(values.sort).map(parseSort)
  const names = sent.map(({ name }) => name)
  checkNames('sort', names, Object.keys(resource.sorts), violations)
  if (sent.length > MAX_SORTS) refuse('sort', `must not have more than ${MAX_SORTS} fields`, 'INVALID_VALUE')
  if (new Set(names).size < names.length) refuse('sort', 'must not repeat a field', 'INVALID_VALUE')

  const sorts = values.sort === undefined ? defaults : sent
  const orders = split(values.order)
  if (orders.some((order) => order !== 'asc' && order !== 'desc')) {
    refuse('order', 'must be asc or desc for each field', 'INVALID_VALUE')
  }
  if (orders.length > sorts.length && !invalid.has('sort')) {
    refuse('order', 'must not have more values than sort has fields', 'INVALID_VALUE')
  }
  if (sent.some(({ descending }, i) => descending && orders[i] === 'asc')) {
    refuse('order', 'must not be asc for a field that has "-" in sort', 'CONFLICTING_PARAMETERS')
  }
  return sorts.map(({ name, descending }, i) => ({
    name,
    descending: orders[i] === undefined ? descending : orders[i] === 'desc',
  }))
}

function readWords(search: string | undefined, violations: Violation[]): string[] {
  if (search === undefined) return []
  const words = [...new Set(search.split(/\s+/u))]
  if (words.length > MAX_WORDS) {
    violations.push(createViolation('search', `must not have more than ${MAX_WORDS} words`, 'TOO_LONG'))
  }
  return words
}

function readPage({ values, invalid, violations }: ValidatedQuery) {
  const limit = Number(values.limit ?? DEFAULT_LIMIT)
  const page = values.page === undefined ? undefined : Number(values.page)
  // With an invalid limit, only a page that is too deep for every limit is a violation of its own.
  const smallestLimit = invalid.has('limit') ? 1 : limit
  if (page !== undefined && (page - 1) * smallestLimit > MAX_OFFSET) {
    const message = `must not begin after row ${MAX_OFFSET}; use cursors to read further`
    violations.push(createViolation('page', message, 'OUT_OF_RANGE'))
  }
  if (page !== undefined && values.cursor !== undefined) {
    violations.push(createViolation('page', 'cannot be combined with cursor', 'CONFLICTING_PARAMETERS'))
  }
  return { limit, page, cursor: toText(values.cursor) || undefined }
}

/** Returns the values of the filters, each a sorted list. */
const readFilters = (
  { filters }: ResolvedResource,
  values: QueryValues,
): Record<string, readonly QueryValue[]> =>
  Object.fromEntries(
    filters.flatMap((name) => {
      const wanted = values[name]
      return typeof wanted === 'object' ? [[name, wanted]] : []
    }),
  )

type ParsedQuery = Pick<ListQuery, keyof Selection | keyof ListFilters | 'sorts' | 'page'>

const isOf = (field: string, operator: string) => (bound: Bound) =>
  bound.field === field && bound.operator === operator

/** Cursors of earlier releases are bound to the days in `created_after` and `created_before`. */
const findDay = (bounds: readonly Bound[], operator: string) =>
  String(bounds.find(isOf('created_at', operator))?.value ?? '').replace('T00:00:00.000000Z', '') || null

/** The parts of a query string that determine which rows a list has, and their order. */
type OrderedFilters = ListFilters & Pick<ListQuery, 'sorts'>

/**
 * Returns the part of the text that cursors are bound to that follows from the query string. A filter with one value, and days of creation, are written as in earlier
 * releases, so that their cursors stay valid.
 */
export function getQueryIdentity({ sorts, filters, bounds, words }: OrderedFilters): string {
  const others = bounds.filter(({ field }) => field !== 'created_at')
  return JSON.stringify([
    sorts.map((sort) => [sort.name, sort.descending]),
    Object.entries(filters)
      .map(([name, values]) => [name, values.length === 1 ? values[0] : values])
      .sort(),
    findDay(bounds, '>='),
    findDay(bounds, '<'),
    [...words].sort(),
    ...(others.length > 0 ? [others.map(({ parameter, value }) => [parameter, value])] : []),
  ])
}

/**
 * Returns the text that identifies a list: a cursor is valid only for the list that it was made for.
 * @param identity that of the query
 */
export const getListIdentity = (resource: string, identity: string, parent: string | undefined) =>
  // One JSON array: its first two items depend on the request, the others are those of the query.
  `${JSON.stringify([resource, parent ?? null]).slice(0, -1)},${identity.slice(1)}`

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
function isQuick({ columns, parent, uniqueColumns, unindexed = [] }: ResolvedResource, query: ParsedQuery) {
  const { sorts, filters, words, bounds, page } = query
  const [sort, another] = sorts
  if (words.length > 0 || bounds.length > 0 || page !== undefined || another) return false
  const names = Object.keys(filters)
  if (names.some((name) => filters[name]?.length !== 1 || unindexed.includes(name))) return false
  if (names.some((name) => uniqueColumns.has(columns[name]?.name ?? ''))) return true
  const conditions = names.length + (parent ? 1 : 0)
  return conditions === 0 || (conditions === 1 && sort?.name === 'created_at')
}

/** Returns whether the best index depends on the values: for words, and for limits of a field that is not the first sort. */
const needsCustomPlan = ({ words, bounds, sorts }: ParsedQuery) =>
  words.length > 0 || bounds.some(({ field }) => field !== 'created_at' && field !== sorts[0]?.name)

/** Creates a function that parses the query string of a list. It throws ApiError 400. */
export function createListReader(ajv: Ajv, { resource, published, names }: PublishedResource) {
  const read = createQueryReader(ajv, buildListParameters(published))
  const readSelection = createSelection(published)
  const readBounds = createBoundsReader(published)
  const getSortTerms = createSortTerms(resource)
  const { read: schema } = resource.schemas
  const cache = new LRUCache<string, ListQuery>({ max: MAX_CACHED_QUERIES })

  const parse = (request: FastifyRequest): ListQuery => {
    const validated = read(request)
    const { values, violations } = validated
    const sent = {
      ...readSelection(values, violations),
      ...readPage(validated),
      sorts: readSorts(published, validated),
      filters: readFilters(published, values),
      words: readWords(toText(values.search), violations),
      bounds: readBounds(values, violations),
    }
    if (violations.length > 0) throw invalidQuery(violations)
    const query = names ? toInternalQuery(sent, names) : sent
    return {
      ...query,
      terms: getSortTerms(query.sorts),
      identity: getQueryIdentity(query),
      shape: getShape(query),
      values: getFilterValues(query),
      isQuick: isQuick(resource, query),
      customPlan: needsCustomPlan(query),
      chunkSize: getChunkSize(getSelectedBytes(schema, query.fields)),
    }
  }

  return (request: FastifyRequest): ListQuery => {
    const { originalUrl } = request
    const start = originalUrl.indexOf('?')
    const queryString = start === -1 ? '' : originalUrl.slice(start)
    const cached = cache.get(queryString)
    if (cached) return cached
    const query = parse(request)
    if (queryString.length <= MAX_CACHED_LENGTH) cache.set(queryString, query)
    return query
  }
}
