/** Parses CSV (RFC 4180, strictly): a line of names, then a row each, whose texts become JSON values by the schema. */
import { finished } from 'node:stream/promises'
import { ApiError, type Violation } from '@resource-api/api/errors'
import { parseJson } from '@resource-api/api/requests'
import { createViolation, NUMBERS } from '@resource-api/api/validation'
import { getErrorCode } from '@resource-api/database'
import { isObject } from '@resource-api/database/values'
import type { TSchema } from '@sinclair/typebox'
import { Parser } from 'csv-parse'
import { createNoBody, type RowContent, type SentRow, type SentRows } from './read-pieces.ts'

/** The fields of rows. */
export interface CsvFields {
  /** The schemas of the fields that a row can set, by their names. */
  written: ReadonlyMap<string, TSchema>
  /** The names of the others that a resource has. */
  readOnly: ReadonlySet<string>
}

interface Column {
  name: string
  readValue: (text: string) => unknown
}

/** Of a record, as of an object in a body. */
const MAX_FIELDS = 1_000
const TOO_MANY_FIELDS = `has more than ${MAX_FIELDS} fields`

/** Said of a file with the line ends of old Macs, which is one line. */
const LINE_END_HINT = 'a carriage return (CR) alone ends no line; use LF or CRLF'

/** The messages for csv-parse's errors. After them, it is not known where the next record begins. */
const SYNTAX_ERRORS: Readonly<Record<string, string>> = {
  CSV_INVALID_CLOSING_QUOTE: 'has text behind a closing quote',
  INVALID_OPENING_QUOTE: 'has a quote inside of a field without quotes',
  CSV_QUOTE_NOT_CLOSED: 'has a quote that is never closed',
  CSV_MAX_RECORD_SIZE: 'is too long, or has a quote that is never closed',
}

/**
 * Creates the function that converts a text by the type in a schema. A text that is no value of the type is kept: the
 * validator reports it.
 */
function createValueReader({ type }: TSchema): (text: string) => unknown {
  const types: readonly unknown[] = [type].flat()
  if (types.includes('string')) return (text) => text
  if (types.includes('number') || types.includes('integer')) {
    return (text) => (NUMBERS.number?.test(text) ? Number(text) : text)
  }
  if (types.includes('boolean')) return (text) => text === 'true' || (text === 'false' ? false : text)
  return (text) => parseJson(text, 'value')
}

/** Returns the fields so far of the record that csv-parse reads: it has no option that limits them (the version is pinned). */
function countFields(parser: Parser): number {
  const state: unknown = Reflect.get(parser, 'state')
  return isObject(state) && Array.isArray(state.record) ? state.record.length : 0
}

/** Returns the columns by their places, without those that are not read, and what is wrong with the names. */
function readNames(names: readonly string[], { written, readOnly }: CsvFields) {
  const violations: Violation[] = []
  if (names.some((name) => name.includes('\r'))) {
    const message = `The line of names is not valid: ${LINE_END_HINT}`
    return { columns: [], violations: [createViolation('', message, 'INVALID_FORMAT')] }
  }
  const columns = names.map((name, i): Column | undefined => {
    const schema = written.get(name)
    if (name === '') violations.push(createViolation('', `Column ${i + 1} has no name`, 'REQUIRED'))
    else if (names.indexOf(name) < i) {
      violations.push(createViolation(name, 'is the name of several columns', 'CONFLICTING_PARAMETERS'))
    } else if (schema) return { name, readValue: createValueReader(schema) }
    else if (!readOnly.has(name))
      violations.push(createViolation(name, 'is not a known field', 'UNKNOWN_FIELD'))
    return undefined
  })
  return { columns, violations }
}

function readRow(record: readonly string[], columns: readonly (Column | undefined)[]): RowContent {
  if (record.length !== columns.length) {
    const message = `The row has ${record.length} fields instead of ${columns.length}`
    return { violations: [createViolation('', message, 'INVALID_FORMAT')] }
  }
  const violations: Violation[] = []
  const value: Record<string, unknown> = {}
  for (const [i, column] of columns.entries()) {
    const text = record[i]
    // An empty field is an absent one.
    if (!column || !text) continue
    try {
      value[column.name] = column.readValue(text)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      violations.push(createViolation(column.name, error.message, 'INVALID_FORMAT'))
    }
  }
  return violations.length > 0 ? { violations } : { value }
}

/** Returns the parts of the text, and null at its end. */
async function* addEnd(texts: AsyncIterable<string>) {
  yield* texts
  yield null
}

/**
 * @param maxBytes of a row
 * @throws ApiError 400 if there are only empty lines
 */
export async function* parseCsv(texts: AsyncIterable<string>, fields: CsvFields, maxBytes: number): SentRows {
  const records: { record: string[]; line: number; length: number }[] = []
  let columns: readonly (Column | undefined)[] | undefined
  let number = 0
  // csv-parse's own count has a line for each CR and LF inside of a field.
  let lines = 0
  const getLine = () => lines + parser.info.empty_lines + 1
  const parser = new Parser({
    max_record_size: maxBytes,
    record_delimiter: ['\r\n', '\n'],
    // The number of fields is checked here, so that the records after a wrong one are read too.
    relax_column_count: true,
    skip_empty_lines: true,
  })
  // Takes each record when the parser's counts are those of the record. For `on_record`, csv-parse copies them: of 100,000
  // rows, V8 keeps tens of megabytes until the next major collection.
  parser.push = (record: string[] | null) => {
    if (record === null) return false
    const text = record.join('')
    records.push({ record, line: getLine(), length: text.length })
    lines += text.split('\n').length
    return true
  }
  // `errored` is read instead.
  parser.on('error', () => {})

  let hasLoneReturn = false
  for await (const text of addEnd(texts)) {
    if (!columns) hasLoneReturn ||= /\r(?!\n)/.test(text ?? '')
    // csv-parse has parsed the text when `write` returns.
    if (text !== null) parser.write(text)
    else await finished(parser.end(), { readable: false }).catch(() => {})
    const rows: SentRow[] = []
    let isStopped = false
    for (const { record, line, length } of records.splice(0)) {
      if (columns) {
        number += 1
        rows.push(Object.assign({ number, line, length }, readRow(record, columns)))
        continue
      }
      const { violations, ...read } = readNames(record, fields)
      columns = read.columns
      // Reported once, as those of the first row.
      if (violations.length > 0) rows.push({ number: 1, line, length, violations })
      isStopped = violations.some(({ code }) => code !== 'UNKNOWN_FIELD')
      if (isStopped) break
    }
    const isTooWide = countFields(parser) > MAX_FIELDS
    const problem = isTooWide ? TOO_MANY_FIELDS : SYNTAX_ERRORS[getErrorCode(parser.errored) ?? '']
    if (problem === undefined && parser.errored) throw parser.errored
    if (problem !== undefined && !isStopped) {
      const hint = !columns && hasLoneReturn ? `; ${LINE_END_HINT}` : ''
      const violations = [createViolation('', `The row ${problem}${hint}`, 'INVALID_FORMAT')]
      rows.push({ number: number + 1, line: getLine(), length: 0, violations })
      isStopped = true
    }
    yield rows
    if (isStopped) return
  }
  if (!columns) throw createNoBody()
}
