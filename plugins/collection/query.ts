/** Query strings: from what was sent to a plan, with all that is wrong said at once. */
import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import type { Ajv } from 'ajv'
import type { FieldCode, Violation } from '../../schemas/error.ts'
import { apiError, invalidQuery } from '../errors.ts'
import { toViolations } from '../violations.ts'
import type { AnyCard } from './define.ts'

const MAX_OFFSET = 10_000
const MAX_SORTS = 5
const MAX_WORDS = 8
const MAX_INCLUDES = 3
const DEFAULT_SORT: Sort = { name: 'created_at', descending: true }
export const DEFAULT_LIMIT = 20

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

const word = (description: string, examples: string[]) => Type.String({ minLength: 1, description, examples })

const selectionSchema = (card: AnyCard): TProperties => {
  const members = Object.keys(card.schemas.read.properties)
  const relations = Object.keys(card.relations)
  return {
    fields: Type.Optional(
      word(`Only these members, comma-separated; \`id\` always. Of: ${members.join(', ')}`, [
        members.slice(0, 3).join(','),
      ]),
    ),
    ...(relations.length > 0
      ? {
          include: Type.Optional(
            word(`Related resources, comma-separated, at most 3. Of: ${relations.join(', ')}`, [
              relations[0] ?? '',
            ]),
          ),
        }
      : {}),
  }
}

/** The parameters of a read of one resource. */
export const selectionQuery = (card: AnyCard): TObject =>
  Type.Object(selectionSchema(card), { additionalProperties: false })

/** The parameters of a list. */
export function listQuery(card: AnyCard): TObject {
  const sorts = Object.keys(card.sorts)
  const filters = Object.fromEntries(
    card.filters.map((name) => {
      const { default: _, ...member } = card.schemas.read.properties[name] as TSchema
      return [name, Type.Optional({ ...member, description: `Only those with this ${name}` } as TSchema)]
    }),
  )
  const date = (description: string) =>
    Type.Optional(Type.String({ format: 'date', description, examples: ['2026-11-21'] }))
  return Type.Object(
    {
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: DEFAULT_LIMIT })),
      cursor: Type.Optional(
        Type.String({ description: "The previous page's `pagination.cursor`; empty for the first page" }),
      ),
      page: Type.Optional(
        Type.Integer({
          minimum: 1,
          description: 'Chooses pages with a total, no deeper than 10,000 rows; not with `cursor`',
        }),
      ),
      sort: Type.Optional(
        word(
          `Comma-separated, at most 5, \`-\` for descending; \`-created_at\` when absent. Of: ${sorts.join(', ')}`,
          [`-${sorts[0]}`],
        ),
      ),
      order: Type.Optional(
        word('`asc` or `desc`, comma-separated, for the fields of `sort` by position', ['desc']),
      ),
      ...filters,
      created_after: date('Created on this day or later, UTC'),
      created_before: date('Created before this day, UTC'),
      ...(card.search.length > 0
        ? {
            search: Type.Optional(
              Type.String({
                minLength: 1,
                maxLength: 100,
                description: `Words, at most 8, each of which occurs in one of: ${card.search.join(', ')}`,
                examples: ['tea'],
              }),
            ),
          }
        : {}),
      ...selectionSchema(card),
    },
    { additionalProperties: false },
  )
}

const list = (value: string | undefined): string[] => (value === undefined ? [] : value.split(','))

const violation = (field: string, message: string, code: FieldCode): Violation => ({ field, message, code })

/** Names that must be of a set; what is not is said. */
function namesOf(
  field: string,
  value: string | undefined,
  known: readonly string[],
  found: Violation[],
): string[] {
  const names = [...new Set(list(value))]
  for (const name of names) {
    if (!known.includes(name)) {
      found.push(violation(field, `"${name}" is not one of ${known.join(', ')}`, 'INVALID_VALUE'))
    }
  }
  return names
}

function readSorts(
  card: AnyCard,
  sort: string | undefined,
  order: string | undefined,
  found: Violation[],
): Sort[] {
  const sorts = list(sort).map((term): Sort => {
    const descending = term.startsWith('-')
    return { name: descending ? term.slice(1) : term, descending }
  })
  namesOf(
    'sort',
    sort === undefined ? undefined : sorts.map(({ name }) => name).join(','),
    Object.keys(card.sorts),
    found,
  )
  if (sorts.length > MAX_SORTS)
    found.push(violation('sort', `takes at most ${MAX_SORTS} fields`, 'INVALID_VALUE'))
  if (new Set(sorts.map(({ name }) => name)).size < sorts.length) {
    found.push(violation('sort', 'names a field twice', 'INVALID_VALUE'))
  }

  const orders = list(order)
  const fields = sort === undefined ? [DEFAULT_SORT] : sorts
  if (orders.some((direction) => direction !== 'asc' && direction !== 'desc')) {
    found.push(violation('order', 'takes asc and desc', 'INVALID_VALUE'))
  }
  if (orders.length > fields.length) {
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
  const words = [...new Set(search.normalize('NFC').trim().split(/\s+/u).filter(Boolean))]
  if (words.length === 0) found.push(violation('search', 'must hold a word', 'TOO_SHORT'))
  if (words.length > MAX_WORDS)
    found.push(violation('search', `takes at most ${MAX_WORDS} words`, 'TOO_LONG'))
  return words
}

const isSortedDate = (date: string | undefined) => date === undefined || !date.startsWith('0000')

function readDates(after: string | undefined, before: string | undefined, found: Violation[]) {
  if (!isSortedDate(after)) found.push(violation('created_after', 'must be a real date', 'INVALID_VALUE'))
  if (!isSortedDate(before)) found.push(violation('created_before', 'must be a real date', 'INVALID_VALUE'))
  if (after !== undefined && before !== undefined && after > before) {
    found.push(violation('created_after', 'must not be later than created_before', 'CONFLICTING_PARAMETERS'))
  }
}

type Parameters = Readonly<Record<string, string | number | undefined>>

/** Decimal digits as numbers, where the schema wants one; all else stays the text that was sent. */
function withNumbers(schema: TObject, sent: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(sent).map(([name, value]) => [
      name,
      schema.properties[name]?.type === 'integer' && typeof value === 'string' && /^-?\d{1,15}$/.test(value)
        ? Number(value)
        : value,
    ]),
  )
}

function readSelection(card: AnyCard, sent: Parameters, found: Violation[]): Selection {
  const fields = namesOf('fields', text(sent.fields), Object.keys(card.schemas.read.properties), found)
  const include = namesOf('include', text(sent.include), Object.keys(card.relations), found)
  if (include.length > MAX_INCLUDES) {
    found.push(violation('include', `takes at most ${MAX_INCLUDES} relations`, 'INVALID_VALUE'))
  }
  return { fields: sent.fields === undefined ? undefined : [...new Set(['id', ...fields])], include }
}

const text = (value: string | number | undefined) => (value === undefined ? undefined : String(value))

/** A filter's value in the form that rows have it. */
const filterValue = (card: AnyCard, name: string, sent: string) =>
  card.schemas.read.properties[name]?.format === 'uuid' ? sent.toLowerCase() : sent

/** Percent-encodings that are none, or that are not UTF-8, would reach the parameters as they are. */
function checkEncoding(url: string) {
  const mark = url.indexOf('?')
  if (mark === -1) return
  try {
    decodeURIComponent(url.slice(mark))
  } catch (cause) {
    throw apiError('INVALID_REQUEST', {
      message: 'The query string is not valid percent-encoded UTF-8',
      cause,
    })
  }
}

/** Reads the query strings that a schema describes. */
export function createQueryReader(ajv: Ajv, schema: TObject) {
  const validate = ajv.compile(schema)

  /** @throws ApiError 400 for what the schema refuses, unless `more` finds that too */
  return (sent: Readonly<Record<string, unknown>>, url: string): { sent: Parameters; found: Violation[] } => {
    checkEncoding(url)
    const repeated = Object.keys(sent).filter((name) => Array.isArray(sent[name]))
    const single = Object.fromEntries(Object.entries(sent).filter(([name]) => !repeated.includes(name)))
    const values = withNumbers(schema, single)
    const wrong = validate(values) ? [] : toViolations(validate.errors ?? [])
    const found = [
      ...repeated.map((name) =>
        name in schema.properties
          ? violation(name, 'is given more than once', 'CONFLICTING_PARAMETERS')
          : violation(name, 'is not a known parameter', 'UNKNOWN_PARAMETER'),
      ),
      ...wrong.map((each) =>
        each.code === 'UNKNOWN_FIELD'
          ? violation(each.field, 'is not a known parameter', 'UNKNOWN_PARAMETER')
          : each,
      ),
    ]
    // Only what is sound in itself is looked at further.
    const unsound = new Set(found.map(({ field }) => field))
    const sound = Object.entries(values).filter(([name]) => !unsound.has(name))
    return { sent: Object.fromEntries(sound) as Parameters, found }
  }
}

/** For operations without parameters: any is unknown. */
export const createNoQueryReader = (ajv: Ajv) => {
  const read = createQueryReader(ajv, Type.Object({}, { additionalProperties: false }))
  return (sent: Readonly<Record<string, unknown>>, url: string) => {
    const { found } = read(sent, url)
    if (found.length > 0) throw invalidQuery(found)
  }
}

/** Reads what is asked of one resource. */
export function createSelectionReader(ajv: Ajv, card: AnyCard) {
  const read = createQueryReader(ajv, selectionQuery(card))
  return (query: Readonly<Record<string, unknown>>, url: string): Selection => {
    const { sent, found } = read(query, url)
    const selection = readSelection(card, sent, found)
    if (found.length > 0) throw invalidQuery(found)
    return selection
  }
}

/** Reads what is asked of a list. */
export function createListReader(ajv: Ajv, card: AnyCard) {
  const read = createQueryReader(ajv, listQuery(card))
  return (query: Readonly<Record<string, unknown>>, url: string): ListQuery => {
    const { sent, found } = read(query, url)
    const selection = readSelection(card, sent, found)
    const sorts = readSorts(card, text(sent.sort), text(sent.order), found)
    const words = readWords(text(sent.search), found)
    const createdAfter = text(sent.created_after)
    const createdBefore = text(sent.created_before)
    readDates(createdAfter, createdBefore, found)
    const limit = Number(sent.limit ?? DEFAULT_LIMIT)
    const page = sent.page === undefined ? undefined : Number(sent.page)
    if (page !== undefined && (page - 1) * limit > MAX_OFFSET) {
      found.push(violation('page', `is deeper than ${MAX_OFFSET} rows; use cursors`, 'OUT_OF_RANGE'))
    }
    if (page !== undefined && sent.cursor !== undefined) {
      found.push(violation('page', 'cannot stand beside cursor', 'CONFLICTING_PARAMETERS'))
    }
    if (found.length > 0) throw invalidQuery(found)
    return {
      ...selection,
      sorts,
      filters: Object.fromEntries(
        card.filters.flatMap((name) =>
          sent[name] === undefined ? [] : [[name, filterValue(card, name, String(sent[name]))]],
        ),
      ),
      createdAfter,
      createdBefore,
      words,
      limit,
      page,
      cursor: text(sent.cursor) || undefined,
    }
  }
}
