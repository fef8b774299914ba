/** How the rows of a table are addressed: by which columns, and which of its columns the engine itself reads and writes. */
import { createHash } from 'node:crypto'
import {
  asc,
  desc,
  eq,
  getTableColumns,
  getTableName,
  getTableUniqueName,
  type Placeholder,
  type SQL,
  sql,
} from 'drizzle-orm'
import { getTableConfig, type PgColumn, type PgTable } from 'drizzle-orm/pg-core'
import { getColumnType } from './expressions.ts'
import { isUuid } from './lib/ids.ts'

/** The id of a row as its column has it: an integer is a number, all else a text. */
export type RowId = string | number

interface KeyPart {
  /** The name of the column in rows and bodies. */
  member: string
  column: PgColumn
}

/** The columns that identify the rows of a table. */
export interface Key {
  parts: readonly [KeyPart, ...KeyPart[]]
  /** Who makes the id of a new row. */
  madeBy: 'server' | 'database' | 'client'
  /** Returns the values in an id, for a key of several columns. That of one column is its value. */
  split?: (id: RowId) => string[]
}

/** The columns of a table that the engine uses itself. Those that are no columns of the table are undefined. */
export interface RowParts {
  key: Key
  revision?: PgColumn | undefined
  /** The members with the times at which a row was created and changed, and that with the text that is searched. */
  created?: string | undefined
  updated?: string | undefined
  searched?: string | undefined
}

const EXISTING = Symbol('existing')

/** What `existing` adds to a table. */
export interface Existing {
  readonly [EXISTING]: RowParts
}

/** A table that others have made, and whose columns have any names. */
export type ExistingTable = PgTable & Existing

export const isExisting = (table: PgTable): table is ExistingTable => EXISTING in table

/** Returns a name that no other table has: one of others may have the name of one of ours, in another schema. */
export const getTableKey = (table: PgTable): string =>
  isExisting(table) ? getTableUniqueName(table) : getTableName(table)

/** Returns the members of a table that refer to other rows. */
export function listReferenceMembers(table: PgTable): string[] {
  const referring = getTableConfig(table).foreignKeys.flatMap((key) => key.reference().columns)
  return Object.entries(getTableColumns(table)).flatMap(([member, column]) =>
    referring.some((each) => each === column) ? [member] : [],
  )
}

/** In an id of several columns, `~` stands between the values. A comma would stand between those of a filter. */
const SEPARATOR = '~'

const escapeValue = (value: string) => value.replaceAll('%', '%25').replaceAll(SEPARATOR, '%7E')
const unescapeValue = (value: string) => value.replaceAll('%7E', SEPARATOR).replaceAll('%25', '%')

const splitId = (id: RowId) => String(id).split(SEPARATOR).map(unescapeValue)

/** Returns the value of a column as rows have it: `char` without its blanks at the end. */
export const showColumn = (column: PgColumn): PgColumn | SQL =>
  getColumnType(column) === 'bpchar' ? sql`rtrim(${column})` : column

const isTime = (column: PgColumn): boolean => getColumnType(column).startsWith('timestamp')

/** Returns the expression of a time as RFC 3339 has it in UTC, with the digits of the second that are stored, at least three. */
function showTime(column: PgColumn): SQL {
  const time = getColumnType(column).endsWith('with time zone') ? sql`${column} at time zone 'UTC'` : column
  const text = sql`to_char(${time}, 'YYYY-MM-DD"T"HH24:MI:SS.US')`
  return sql`regexp_replace(${text}, '(\\.\\d{3}\\d*?)0*$', '\\1') || 'Z'`
}

/** Returns the expression of a value in an id of several columns. */
const showValue = ({ column }: KeyPart): SQL => {
  if (isTime(column)) return showTime(column)
  return VALUES_WITHOUT_ESCAPES.test(getColumnType(column))
    ? sql`${column}::text`
    : sql`replace(replace(${column}::text, '%', '%25'), ${sql.raw(`'${SEPARATOR}'`)}, '%7E')`
}

const createKey = (first: KeyPart, others: readonly KeyPart[], madeBy: Key['madeBy']): Key => ({
  parts: [first, ...others],
  madeBy,
  ...(others.length > 0 && { split: splitId }),
})

const KEYS_OF_ONE_COLUMN = /^(?:smallint|integer|bigint|uuid|text|varchar|bpchar|citext|date)$/
const KEYS_OF_SEVERAL =
  /^(?:smallint|integer|bigint|uuid|text|varchar|bpchar|citext|date|numeric|boolean|timestamp.*)$/

const isMadeByDatabase = ({ hasDefault, generated, generatedIdentity }: PgColumn): boolean =>
  hasDefault || generated !== undefined || generatedIdentity !== undefined

/**
 * Says how rows of a table are addressed that others have made. Such a table has none of the columns that the others have:
 * its revision is that of its content.
 * @param parts the members of the key, in its order: `id` alone, or several; and those with the times, if there are any
 */
export function existing<T extends PgTable>(
  table: T,
  parts: {
    key: readonly (keyof T['$inferSelect'] & string)[]
    created?: keyof T['$inferSelect'] & string
    updated?: keyof T['$inferSelect'] & string
  },
): T & Existing {
  const columns: Readonly<Record<string, PgColumn>> = getTableColumns(table)
  const name = getTableName(table)
  const [first, ...others] = parts.key.map((member): KeyPart => {
    const column = columns[member]
    if (!column) throw new Error(`The table ${name} has no member ${member}`)
    return { member, column }
  })
  if (!first) throw new Error(`The table ${name} needs a key`)
  if (others.length === 0 ? first.member !== 'id' : 'id' in columns)
    throw new Error(
      `The table ${name}: a key of one column is the member "id", and beside one of several there is none`,
    )
  const reserved = ['revision', 'type'].filter((member) => member in columns)
  if (reserved.length > 0)
    throw new Error(`The table ${name}: give the member ${reserved.join()} another name`)
  const keyColumns = [first, ...others].map(({ column }) => column)
  const isKnown = (column: PgColumn) =>
    (others.length === 0 ? KEYS_OF_ONE_COLUMN : KEYS_OF_SEVERAL).test(getColumnType(column)) ||
    column.enumValues !== undefined
  for (const column of keyColumns)
    if (!isKnown(column))
      throw new Error(`The table ${name}: a key of the type ${column.getSQLType()} is not supported`)
  const isMade = keyColumns.some(isMadeByDatabase)
  const isServers = others.length === 0 && getColumnType(first.column) === 'uuid'
  const madeBy = isMade ? 'database' : isServers ? 'server' : 'client'
  const { created, updated } = parts
  const rowParts: RowParts = { key: createKey(first, others, madeBy), created, updated }
  return Object.assign(table, { [EXISTING]: rowParts })
}

/** Returns the columns of a table, or of a view, that the engine uses itself. @throws Error if it has no key */
export function getRowParts(table: PgTable): RowParts {
  if (isExisting(table)) return table[EXISTING]
  const { id, revision, created_at, updated_at, search }: Readonly<Record<string, PgColumn | undefined>> =
    getTableColumns(table)
  if (!id) throw new Error(`The table ${getTableName(table)} has no column "id"; declare it by \`existing\``)
  return {
    key: createKey({ member: 'id', column: id }, [], 'server'),
    revision,
    created: created_at && 'created_at',
    updated: updated_at && 'updated_at',
    searched: search && 'search',
  }
}

/** Returns the id of a row: the column, or the expression for several. */
export const toId = ({ parts: [first, ...others] }: Key): PgColumn | SQL =>
  others.length === 0
    ? first.column
    : sql`(${sql.join([first, ...others].map(showValue), sql.raw(` || '${SEPARATOR}' || `))})`

/** Returns the id that the values of a new row make; undefined if one of them is not there yet. */
export function readId({ parts, split }: Key, values: Readonly<Record<string, unknown>>): RowId | undefined {
  const found = parts.map(({ member }) => values[member])
  if (found.includes(undefined)) return undefined
  if (split) return found.map((each) => escapeValue(String(each))).join(SEPARATOR)
  const [value] = found
  return typeof value === 'number' ? value : String(value)
}

/** Returns an id as its column has it, from its text. */
export const parseId = ({ parts, split }: Key, text: string): RowId =>
  !split && getGreatest(parts[0]) !== undefined ? Number(text) : text

/** Returns the condition that a row has an id, the value of which `split` has to return for a key of several columns. */
export const hasId = ({ parts: [first, ...others] }: Key, id: Placeholder | SQL): SQL => {
  if (others.length === 0) return eq(first.column, id)
  const conditions = [first, ...others].map(
    ({ column }, i) =>
      sql`${column} = (${id}::text[])[${sql.raw(`${i + 1}`)}]::${sql.raw(getColumnType(column))}`,
  )
  return sql`(${sql.join(conditions, sql` and `)})`
}

/** Returns the condition that a row has one of the ids of a list: see `toIdList`. */
export const hasAnyId = ({ parts: [first, ...others] }: Key, ids: Placeholder): SQL => {
  if (others.length === 0)
    return sql`${first.column} = any(${ids}::${sql.raw(getColumnType(first.column))}[])`
  const parts = [first, ...others]
  const values = parts.map(({ column }, i) => sql.raw(`(wanted ->> ${i})::${getColumnType(column)}`))
  return sql`(${sql.join(
    parts.map(({ column }) => column),
    sql`, `,
  )}) in (select ${sql.join(values, sql`, `)} from json_array_elements(${ids}::json) as wanted)`
}

/** Returns the parameter of `hasAnyId` for a key of several columns; for one of one column, it is the list of ids. */
export const toIdList = (split: NonNullable<Key['split']>, ids: readonly RowId[]): string =>
  JSON.stringify(ids.map((id) => split(id)))

/** Returns the type in which `hasId` reads an id that is a column of other rows. */
export const getIdType = ({ parts: [first, ...others] }: Key): string =>
  others.length === 0 ? getColumnType(first.column) : 'text[]'

/** Returns the order of rows by their key. */
export const orderByKey = ({ parts }: Key, descending = false): SQL[] =>
  parts.map(({ column }) => (descending ? desc(column) : asc(column)))

/** Whether the id of a row is what its events are found by: a UUID. */
export const hasUuid = (key: Key): boolean => getIdType(key) === 'uuid'

/** Returns the UUID by which the events of a row are found: its id, or a hash of one that is no UUID. */
export const toEventId = (key: Key): PgColumn | SQL =>
  hasUuid(key)
    ? toId(key)
    : sql`(case when ${toId(key)}::text ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then ${toId(key)}::text
      else md5(${toId(key)}::text) end)::uuid`

/** Returns the same as `toEventId` for an id in the form in which PostgreSQL writes it. */
export function hashEventId(id: RowId): string {
  const text = String(id)
  if (isUuid(text) && text === text.toLowerCase()) return text
  const digits = createHash('md5').update(text).digest('hex')
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

const VALUES_WITHOUT_ESCAPES = /^(?:smallint|integer|bigint|uuid|date|numeric|boolean)$/
const DECIMAL = /^-?(?:0|[1-9]\d{0,1000})(?:\.\d{1,1000})?$/
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,6}Z$/

const INTEGER = /^(?:0|-?[1-9]\d{0,18})$/
const DAY = /^\d{4}-\d\d-\d\d$/

/** The greatest value of each type of integers. */
const GREATEST: Readonly<Record<string, bigint>> = {
  smallint: 32_767n,
  integer: 2_147_483_647n,
  bigint: BigInt(Number.MAX_SAFE_INTEGER),
}

/** Returns the greatest integer that a column of a key can have; undefined for other types. */
export const getGreatest = ({ column }: KeyPart): number | undefined => {
  const greatest = GREATEST[getColumnType(column)]
  return greatest === undefined ? undefined : Number(greatest)
}

const isInteger = (text: string, greatest: bigint): boolean => {
  if (!INTEGER.test(text)) return false
  const value = BigInt(text)
  return value <= greatest && value >= -greatest - 1n
}

/** `Date` takes November 31 for December 1. */
const isDay = (text: string): boolean =>
  DAY.test(text) && !Number.isNaN(Date.parse(text)) && new Date(text).toISOString().startsWith(text)

/** Bytes of a value in an index of PostgreSQL. */
const MAX_INDEXED_BYTES = 2_704

/**
 * Returns whether a text can be compared with a column: no `042`, no UUID in capitals, no U+0000. Of texts that PostgreSQL takes
 * for the same value, such as `1.5` and `1.50`, the row decides: its id is one of them.
 */
function isComparable(column: PgColumn, text: string): boolean {
  const type = getColumnType(column)
  const greatest = GREATEST[type]
  if (greatest !== undefined) return isInteger(text, greatest)
  if (type === 'uuid') return isUuid(text) && text === text.toLowerCase()
  if (type === 'date') return isDay(text)
  if (type === 'boolean') return text === 'true' || text === 'false'
  if (type === 'numeric') return DECIMAL.test(text)
  if (isTime(column)) return TIME.test(text) && isDay(text.slice(0, 10)) && !Number.isNaN(Date.parse(text))
  if (column.enumValues) return column.enumValues.includes(text)
  const length = 'length' in column ? column.length : undefined
  const isShort = typeof length !== 'number' || [...text].length <= length
  return isShort && !text.includes('\0') && Buffer.byteLength(text) <= MAX_INDEXED_BYTES
}

/** Returns whether a row can have the id: the text is exactly the one that such a row shows. */
export function isPossibleId({ parts, split }: Key, text: string): boolean {
  if (text === '') return false
  const values = split ? split(text) : [text]
  return (
    values.length === parts.length &&
    parts.every(({ column }, i) => isComparable(column, values[i] ?? '')) &&
    (!split || values.map(escapeValue).join(SEPARATOR) === text)
  )
}
