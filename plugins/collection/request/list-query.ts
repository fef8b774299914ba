/** Query strings: from what was sent to a plan, with all that is wrong said at once. */
import type { Ajv } from 'ajv'
import { MAX_VIOLATIONS, type Violation } from '../../../schemas/error.ts'
import { invalidQuery } from '../../errors/index.ts'
import type { ResolvedResource } from '../resolve.ts'
import { DEFAULT_LIMIT, listQuery, selectionQuery } from './parameters.ts'
import {
  createQueryReader,
  type Parameters,
  type Parsed,
  remembering,
  type Sent,
  violation,
} from './query-validation.ts'

const MAX_OFFSET = 10_000
const MAX_SORTS = 5
const MAX_WORDS = 8
const MAX_INCLUDES = 3
const DEFAULT_SORT: Sort = { name: 'created_at', descending: true }

export interface Sort {
  name: string
  descending: boolean
}

/** What is asked of one resource. */
export interface Selection {
  /** The members asked for, the id among them; undefined for all. */
  fields: readonly string[] | undefined
  include: readonly string[]
}

/** What is asked of a list. */
export interface ListQuery extends Selection {
  sorts: readonly Sort[]
  filters: Readonly<Record<string, string>>
  createdAfter: string | undefined
  createdBefore: string | undefined
  words: readonly string[]
  limit: number
  /** Undefined for the cursor style. */
  page: number | undefined
  /** Undefined for the first page. */
  cursor: string | undefined
}

const text = (value: string | number | undefined) => (value === undefined ? undefined : String(value))

const list = (value: string | undefined): string[] => (value === undefined ? [] : value.split(','))

/** Says which names are not of a set, each once. */
function checkNames(field: string, names: readonly string[], known: readonly string[], found: Violation[]) {
  for (const name of new Set(names)) {
    if (found.length >= MAX_VIOLATIONS) return
    if (!known.includes(name)) {
      found.push(violation(field, `"${name}" is not one of ${known.join(', ')}`, 'INVALID_VALUE'))
    }
  }
}

/** Names in the order of the resource, whatever order they were sent in: what asks for the same has one statement and one tag. */
const inOrder = (known: readonly string[], names: readonly string[]) =>
  known.filter((name) => names.includes(name))

function readSelection(resource: ResolvedResource, sent: Parameters, found: Violation[]): Selection {
  const [members, relations] = [
    Object.keys(resource.schemas.read.properties),
    Object.keys(resource.relations),
  ]
  const [fields, names] = [list(text(sent.fields)), list(text(sent.include))]
  checkNames('fields', fields, members, found)
  checkNames('include', names, relations, found)
  if (new Set(names).size > MAX_INCLUDES) {
    found.push(violation('include', `takes at most ${MAX_INCLUDES} relations`, 'INVALID_VALUE'))
  }
  return {
    fields: sent.fields === undefined ? undefined : inOrder(members, ['id', ...fields]),
    include: inOrder(relations, names),
  }
}

function readSorts(resource: ResolvedResource, { sent, unsound, found }: Parsed): Sort[] {
  const sorts = list(text(sent.sort)).map((term): Sort => {
    const descending = term.startsWith('-')
    return { name: descending ? term.slice(1) : term, descending }
  })
  const names = sorts.map(({ name }) => name)
  checkNames('sort', names, Object.keys(resource.sorts), found)
  if (sorts.length > MAX_SORTS)
    found.push(violation('sort', `takes at most ${MAX_SORTS} fields`, 'INVALID_VALUE'))
  if (new Set(names).size < names.length)
    found.push(violation('sort', 'names a field twice', 'INVALID_VALUE'))

  const orders = list(text(sent.order))
  const fields = sent.sort === undefined ? [DEFAULT_SORT] : sorts
  if (orders.some((direction) => direction !== 'asc' && direction !== 'desc')) {
    found.push(violation('order', 'takes asc and desc', 'INVALID_VALUE'))
  }
  if (orders.length > fields.length && !unsound.has('sort')) {
    found.push(violation('order', 'has more values than sort has fields', 'INVALID_VALUE'))
  }
  if (sorts.some(({ descending }, i) => descending && orders[i] === 'asc')) {
    found.push(violation('order', 'says asc where sort says "-"', 'CONFLICTING_PARAMETERS'))
  }
  return fields.map(({ name, descending }, i) => ({
    name,
    descending: orders[i] === undefined ? descending : orders[i] === 'desc',
  }))
}

function readWords(search: string | undefined, found: Violation[]): string[] {
  if (search === undefined) return []
  if (/\p{Cc}/u.test(search)) {
    found.push(violation('search', 'must not hold control characters', 'INVALID_FORMAT'))
    return []
  }
  const words = [...new Set(search.split(/\s+/u))]
  if (words.length > MAX_WORDS)
    found.push(violation('search', `takes at most ${MAX_WORDS} words`, 'TOO_LONG'))
  return words
}

/** The year 0 is none that PostgreSQL knows, nor the calendar. */
const isReal = (date: string | undefined) => date === undefined || !date.startsWith('0000')

function readDates(after: string | undefined, before: string | undefined, found: Violation[]) {
  if (!isReal(after)) found.push(violation('created_after', 'must be a real date', 'INVALID_FORMAT'))
  if (!isReal(before)) found.push(violation('created_before', 'must be a real date', 'INVALID_FORMAT'))
  if (after !== undefined && before !== undefined && after > before) {
    found.push(violation('created_after', 'must not be later than created_before', 'CONFLICTING_PARAMETERS'))
  }
}

function readPage({ sent, unsound, found }: Parsed) {
  const limit = Number(sent.limit ?? DEFAULT_LIMIT)
  const page = sent.page === undefined ? undefined : Number(sent.page)
  // Of a limit that is itself wrong nothing follows for the page, save what does so for the smallest.
  if (page !== undefined && (page - 1) * (unsound.has('limit') ? 1 : limit) > MAX_OFFSET) {
    found.push(violation('page', `is deeper than ${MAX_OFFSET} rows; use cursors`, 'OUT_OF_RANGE'))
  }
  if (page !== undefined && sent.cursor !== undefined) {
    found.push(violation('page', 'cannot stand beside cursor', 'CONFLICTING_PARAMETERS'))
  }
  return { limit, page, cursor: text(sent.cursor) || undefined }
}

/** The values of the filters, in the form that rows have them. */
const readFilters = (resource: ResolvedResource, sent: Parameters): Record<string, string> =>
  Object.fromEntries(
    resource.filters.flatMap((name) => {
      const value = text(sent[name])
      if (value === undefined) return []
      return [[name, resource.schemas.read.properties[name]?.format === 'uuid' ? value.toLowerCase() : value]]
    }),
  )

/** Reads what is asked of one resource. */
export function createSelectionReader(ajv: Ajv, resource: ResolvedResource) {
  const read = createQueryReader(ajv, selectionQuery(resource))
  return remembering((query: Sent, url: string): Selection => {
    const { sent, found } = read(query, url)
    const selection = readSelection(resource, sent, found)
    if (found.length > 0) throw invalidQuery(found)
    return selection
  })
}

/** Reads what is asked of a list. */
export function createListReader(ajv: Ajv, resource: ResolvedResource) {
  const read = createQueryReader(ajv, listQuery(resource))
  return remembering((query: Sent, url: string): ListQuery => {
    const parsed = read(query, url)
    const { sent, found } = parsed
    const [createdAfter, createdBefore] = [text(sent.created_after), text(sent.created_before)]
    readDates(createdAfter, createdBefore, found)
    const plan = {
      ...readSelection(resource, sent, found),
      ...readPage(parsed),
      sorts: readSorts(resource, parsed),
      filters: readFilters(resource, sent),
      words: readWords(text(sent.search), found),
      createdAfter,
      createdBefore,
    }
    if (found.length > 0) throw invalidQuery(found)
    return plan
  })
}
