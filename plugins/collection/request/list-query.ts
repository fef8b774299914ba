/** Reads query strings: what a list or a single read selects, from the valid values of their parameters. */
import type { TUnsafe } from '@sinclair/typebox'
import { MAX_VIOLATIONS, type Violation } from '../../../schemas/error.ts'
import { type CredentialRule, getCredentialRule } from '../../access/index.ts'
import { withDecode } from '../../validation/schema-functions.ts'
import { createViolation } from '../../validation/text.ts'
import { DEFAULT_LIMIT, getChunkSize, getSelectedBytes } from '../reply-size.ts'
import type { Bound, FilterValue, ListFilters, ListPlan, Resource, Sort } from '../resource.ts'
import { getFilterShape, getFilterValues } from '../sql/conditions.ts'
import { createSortTerms } from '../sql/keyset.ts'
import {
  buildListParameters,
  buildSelectionParameters,
  DEFAULT_SORT,
  listRangeParameters,
  MAX_INCLUDES,
  MAX_OFFSET,
  MAX_SORTS,
} from './parameters.ts'

const MAX_WORDS = 8

/** The parts of a resource that a request selects. */
export interface Selection {
  /** The requested fields, with the id; undefined for all. */
  fields: readonly string[] | undefined
  include: readonly string[]
  /** What reading the included relations requires of the credential. */
  requires: readonly CredentialRule[]
}

/** The parsed query string of a list, and what follows from it for every request with the same query string. */
export interface ListQuery extends Selection, ListPlan {
  /** Undefined for the first page. */
  cursor: string | undefined
  /** Equal for queries with the same rows in the same order. */
  identity: string
  /** How many rows one statement may read. */
  chunkSize: number
}

interface ListValues {
  limit?: number
  page?: number
  cursor?: string
  sort?: string
  order?: string
  search?: string
  fields?: string
  include?: string
  [parameter: string]: FilterValue | readonly FilterValue[] | undefined
}

const split = (names: string | undefined): string[] => names?.split(',') ?? []

/** Adds a violation for each name that is not known. */
function checkNames(
  parameter: string,
  names: readonly string[],
  known: readonly string[],
  violations: Violation[],
) {
  for (const name of new Set(names)) {
    if (violations.length >= MAX_VIOLATIONS) return
    if (known.includes(name)) continue
    const message = `"${name}" is not one of ${known.join(', ')}`
    violations.push(createViolation(parameter, message, 'INVALID_VALUE'))
  }
}

const getToInternal = ({ names }: Resource) => names?.toInternal ?? ((name: string) => name)

function createReadSelection(resource: Resource) {
  const { schemas, relations } = resource.published
  const toInternal = getToInternal(resource)
  const knownFields = Object.keys(schemas.read.properties)
  const knownRelations = Object.keys(relations)

  return (values: ListValues, violations: Violation[]): Selection => {
    const fields = split(values.fields)
    const names = split(values.include)
    checkNames('fields', fields, knownFields, violations)
    checkNames('include', names, knownRelations, violations)
    if (new Set(names).size > MAX_INCLUDES) {
      const message = `must not have more than ${MAX_INCLUDES} relations`
      violations.push(createViolation('include', message, 'INVALID_VALUE'))
    }
    // In the order of the resource, so that equal requests share a statement and an entity tag.
    const included = Object.entries(relations).filter(([name]) => names.includes(name))
    const selected = knownFields.filter((name) => name === 'id' || fields.includes(name))
    return {
      fields: values.fields === undefined ? undefined : selected.map(toInternal),
      include: included.map(([name]) => name),
      requires: included.map(([, { to }]) => getCredentialRule(to, 'read')),
    }
  }
}

export const createSelectionQuery = (resource: Resource): TUnsafe<Selection> =>
  withDecode(buildSelectionParameters(resource.published), createReadSelection(resource))

const parseSort = (term: string): Sort =>
  term.startsWith('-') ? { name: term.slice(1), descending: true } : { name: term, descending: false }

function readSorts(
  { defaultSort = DEFAULT_SORT, sorts: known }: Resource,
  values: ListValues,
  violations: Violation[],
): readonly Sort[] {
  const sent = split(values.sort).map(parseSort)
  const sorts = values.sort === undefined ? [parseSort(defaultSort)] : sent
  const names = sent.map(({ name }) => name)
  const orders = split(values.order)
  const isInvalid = violations.some(({ field }) => field === 'sort')
  checkNames('sort', names, Object.keys(known), violations)
  if (sent.length > MAX_SORTS) {
    violations.push(createViolation('sort', `must not have more than ${MAX_SORTS} fields`, 'INVALID_VALUE'))
  }
  if (new Set(names).size < names.length) {
    violations.push(createViolation('sort', 'must not repeat a field', 'INVALID_VALUE'))
  }
  if (orders.some((order) => order !== 'asc' && order !== 'desc')) {
    violations.push(createViolation('order', 'must be asc or desc for each field', 'INVALID_VALUE'))
  }
  if (orders.length > sorts.length && !isInvalid) {
    const message = 'must not have more values than sort has fields'
    violations.push(createViolation('order', message, 'INVALID_VALUE'))
  }
  if (sent.some(({ descending }, i) => descending && orders[i] === 'asc')) {
    const message = 'must not be asc for a field that has "-" in sort'
    violations.push(createViolation('order', message, 'CONFLICTING_PARAMETERS'))
  }
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
  return { limit, page, cursor: cursor || undefined }
}

/**
 * Returns the instant of a date (at midnight UTC) or of an RFC 3339 time, in UTC with microseconds as PostgreSQL stores
 * it. Digits beyond microseconds are rounded: up for `>=` and `<`, down for `<=`, so that the same rows are selected as
 * without rounding.
 * @param text a valid date or time
 * @returns undefined for an instant outside of the years 0001 to 9999
 */
export function toInstant(text: string, rounding: 'up' | 'down'): string | undefined {
  const fraction = /\.(\d+)/.exec(text)?.[1] ?? ''
  const isRoundedUp = rounding === 'up' && /[1-9]/.test(fraction.slice(6))
  const micros = Number(fraction.slice(0, 6).padEnd(6, '0')) + (isRoundedUp ? 1 : 0)
  const startOfSecond = Date.parse(text.replace(/\.\d+/, '').toUpperCase())
  const second = new Date(startOfSecond + Math.floor(micros / 1_000_000) * 1000).toISOString()
  // Years outside of 0000 to 9999 have a sign and six digits.
  if (second.length > 24 || second.startsWith('0000')) return undefined
  return `${second.slice(0, 19)}.${String(micros % 1_000_000).padStart(6, '0')}Z`
}

/** Creates a function that reads the limits of a list: `price_amount_min`, `price_amount_max`, `created_after`. */
function createReadBounds(resource: Resource) {
  const { properties } = resource.published.schemas.read
  const ranges = listRangeParameters(resource.published)
  const toInternal = getToInternal(resource)

  return (values: ListValues, violations: Violation[]): Bound[] => {
    const readBound = (parameter: string, name: string, operator: Bound['operator']): Bound | undefined => {
      const sent = values[parameter]
      if (sent === undefined || typeof sent === 'object') return undefined
      const field = toInternal(name)
      const format: unknown = properties[name]?.format
      const isTime = format === 'date' || format === 'date-time'
      if (typeof sent !== 'string' || !isTime) return { field, operator, value: sent }
      const instant = toInstant(sent, operator === '<=' ? 'down' : 'up')
      if (instant !== undefined) return { field, operator, value: format === 'date' ? sent : instant }
      const message = 'must be in the years 0001 to 9999 (UTC)'
      violations.push(createViolation(parameter, message, 'INVALID_FORMAT'))
      return undefined
    }
    return ranges.flatMap(({ field, lower, upper, isHalfOpen }) => {
      const from = readBound(lower, field, '>=')
      const to = readBound(upper, field, isHalfOpen ? '<' : '<=')
      if (from && to && from.value > to.value) {
        const message = `must not be ${isHalfOpen ? 'later' : 'greater'} than ${upper}`
        violations.push(createViolation(lower, message, 'CONFLICTING_PARAMETERS'))
      }
      return [from, to].filter((bound) => bound !== undefined)
    })
  }
}

/** Returns the part of the text that cursors are bound to that follows from the query string. */
export const getQueryIdentity = ({ sorts, filters, bounds, words }: ListFilters & Pick<ListQuery, 'sorts'>) =>
  JSON.stringify([
    sorts.map((sort) => [sort.name, sort.descending]),
    Object.entries(filters).sort(([a], [b]) => (a < b ? -1 : 1)),
    bounds.map(({ field, operator, value }) => [field, operator, value]),
    [...words].sort(),
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

/** Returns the schema of a list's query string. Handlers get it as a `ListQuery`, with the names of the definition. */
export function createListQuery(resource: Resource): TUnsafe<ListQuery> {
  const { published } = resource
  const toInternal = getToInternal(resource)
  const readSelection = createReadSelection(resource)
  const readBounds = createReadBounds(resource)
  const getSortTerms = createSortTerms(resource)

  return withDecode(buildListParameters(published), (values: ListValues, violations): ListQuery => {
    const toSort = ({ name, descending }: Sort) => ({ name: toInternal(name), descending })
    const filters = published.filters.flatMap((name) =>
      Array.isArray(values[name]) ? [[toInternal(name), values[name]] as const] : [],
    )
    const query = {
      ...readSelection(values, violations),
      ...readPosition(values, violations),
      sorts: readSorts(published, values, violations).map(toSort),
      filters: Object.fromEntries(filters),
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
