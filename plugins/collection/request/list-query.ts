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
import { buildListParameters, DEFAULT_LIMIT, MAX_OFFSET } from './parameters.ts'
import {
  createQueryReader,
  createViolation,
  type QueryValues,
  type ValidatedQuery,
} from './query-validation.ts'
import { checkNames, createSelection, type Selection, split } from './selection.ts'

const MAX_SORTS = 5
const MAX_WORDS = 8
const DEFAULT_SORTS: readonly Sort[] = [{ name: 'created_at', descending: true }]

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
  /** How many rows one statement may read. */
  chunkSize: number
}

/** Parsed query strings that are kept for each resource. Without them, W2 of the bench takes 4 % more CPU. */
const MAX_CACHED_QUERIES = 500
const MAX_CACHED_LENGTH = 300

const toText = (value: string | number | undefined) => (value === undefined ? undefined : String(value))

function parseSort(term: string): Sort {
  const descending = term.startsWith('-')
  return { name: descending ? term.slice(1) : term, descending }
}

function readSorts(
  resource: ResolvedResource,
  { values, invalid, violations }: ValidatedQuery,
): readonly Sort[] {
  if (values.sort === undefined && values.order === undefined) return DEFAULT_SORTS
  const refuse = (parameter: string, message: string, code: FieldCode) =>
    violations.push(createViolation(parameter, message, code))

  const sent = split(values.sort).map(parseSort)
  const names = sent.map(({ name }) => name)
  checkNames('sort', names, Object.keys(resource.sorts), violations)
  if (sent.length > MAX_SORTS) refuse('sort', `must not have more than ${MAX_SORTS} fields`, 'INVALID_VALUE')
  if (new Set(names).size < names.length) refuse('sort', 'must not repeat a field', 'INVALID_VALUE')

  const sorts = values.sort === undefined ? DEFAULT_SORTS : sent
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
  if (/\p{Cc}/u.test(search)) {
    violations.push(createViolation('search', 'must not contain control characters', 'INVALID_FORMAT'))
    return []
  }
  const words = [...new Set(search.split(/\s+/u))]
  if (words.length > MAX_WORDS) {
    violations.push(createViolation('search', `must not have more than ${MAX_WORDS} words`, 'TOO_LONG'))
  }
  return words
}

/** PostgreSQL has no year 0. */
const hasYearZero = (date: string | undefined) => date?.startsWith('0000') === true

function checkDates(after: string | undefined, before: string | undefined, violations: Violation[]) {
  const refuse = (parameter: string, message: string, code: FieldCode) =>
    violations.push(createViolation(parameter, message, code))
  if (hasYearZero(after)) refuse('created_after', 'must not be in the year 0', 'INVALID_FORMAT')
  if (hasYearZero(before)) refuse('created_before', 'must not be in the year 0', 'INVALID_FORMAT')
  if (after !== undefined && before !== undefined && after > before) {
    refuse('created_after', 'must not be later than created_before', 'CONFLICTING_PARAMETERS')
  }
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

/** Returns the values of the filters as rows have them: ids in lower case. */
const readFilters = (resource: ResolvedResource, values: QueryValues): Record<string, string> =>
  Object.fromEntries(
    resource.filters.flatMap((name) => {
      const value = toText(values[name])
      if (value === undefined) return []
      const isId = resource.schemas.read.properties[name]?.format === 'uuid'
      return [[name, isId ? value.toLowerCase() : value]]
    }),
  )

type ParsedQuery = Pick<ListQuery, keyof Selection | keyof ListFilters | 'sorts' | 'page'>

const getIdentity = ({ sorts, filters, createdAfter, createdBefore, words }: ParsedQuery) =>
  JSON.stringify([
    sorts.map((sort) => [sort.name, sort.descending]),
    Object.entries(filters).sort(),
    createdAfter ?? null,
    createdBefore ?? null,
    [...words].sort(),
  ])

const getShape = (query: ParsedQuery) =>
  [
    getFilterShape(query),
    query.sorts.map(({ name, descending }) => `${descending ? '-' : ''}${name}`).join(),
    query.fields?.join() ?? '*',
    query.include.join(),
  ].join('|')

/**
 * Returns whether an index yields exactly the rows of the page: with one sort and no condition, or one condition and the
 * default sort. With more, PostgreSQL may have to skip any number of rows.
 */
function isQuick(query: ParsedQuery, hasParent: boolean): boolean {
  const { sorts, filters, words, createdAfter, createdBefore, page } = query
  const [sort, another] = sorts
  const isPlain = words.length === 0 && createdAfter === undefined && createdBefore === undefined
  if (!isPlain || page !== undefined || another) return false
  const conditions = Object.keys(filters).length + (hasParent ? 1 : 0)
  return conditions === 0 || (conditions === 1 && sort?.name === 'created_at')
}

/** Creates a function that parses the query string of a list. It throws ApiError 400. */
export function createListReader(ajv: Ajv, { resource, published, names }: PublishedResource) {
  const read = createQueryReader(ajv, buildListParameters(published))
  const readSelection = createSelection(published)
  const getSortTerms = createSortTerms(resource)
  const { read: schema } = resource.schemas
  const cache = new LRUCache<string, ListQuery>({ max: MAX_CACHED_QUERIES })

  const parse = (request: FastifyRequest): ListQuery => {
    const validated = read(request)
    const { values, violations } = validated
    const [createdAfter, createdBefore] = [toText(values.created_after), toText(values.created_before)]
    checkDates(createdAfter, createdBefore, violations)
    const sent = {
      ...readSelection(values, violations),
      ...readPage(validated),
      sorts: readSorts(published, validated),
      filters: readFilters(published, values),
      words: readWords(toText(values.search), violations),
      createdAfter,
      createdBefore,
    }
    if (violations.length > 0) throw invalidQuery(violations)
    const query = names ? toInternalQuery(sent, names) : sent
    return {
      ...query,
      terms: getSortTerms(query.sorts),
      identity: getIdentity(query),
      shape: getShape(query),
      values: getFilterValues(query),
      isQuick: isQuick(query, resource.parent !== undefined),
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
