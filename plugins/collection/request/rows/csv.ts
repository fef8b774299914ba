/** Parses CSV (RFC 4180, strictly): a line of names, then a row each, whose texts become JSON values by the schema. */
import { finished } from 'node:stream/promises'
import type { TSchema } from '@sinclair/typebox'
import { Parser } from 'csv-parse'
import { getErrorCode } from '../../../../lib/error-code.ts'
import { isObject } from '../../../../lib/is-object.ts'
import type { Violation } from '../../../../schemas/error.ts'
import { ApiError } from '../../../errors/index.ts'
import { parseJson } from '../../../http/content-type.ts'
import { createViolation, NUMBERS } from '../../../validation/text.ts'
import { createNoBody, type RowContent, type RowParser, type SentRow } from './read-pieces.ts'

/** The fields of rows. */
export interface CsvFields {
  /** The schemas of the fields that a row can set, by their names. */
  written: ReadonlyMap<string, TSchema>
  /** The names of the others that a resource has. */
  readOnly: ReadonlySet<string>
}

/** A column that is read. */
interface Column {
  index: number
  name: string
  readValue: (text: string) => unknown
}

/** Of a record, as of an object in a body. */
const MAX_FIELDS = 1_000
const TOO_MANY_FIELDS = `has more than ${MAX_FIELDS} fields`

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

/** Returns the number of lines that a record takes. */
const countLines = (record: readonly string[]) =>
  record.reduce((count, field) => count + (field.includes('\n') ? field.split('\n').length - 1 : 0), 1)

/** Returns the fields so far of the record that csv-parse reads: it has no option that limits them (the version is pinned). */
function countFields(parser: Parser): number {
  const state: unknown = Reflect.get(parser, 'state')
  return isObject(state) && Array.isArray(state.record) ? state.record.length : 0
}

export class CsvParser implements RowParser {
  isStopped = false
  readonly #fields: CsvFields
  readonly #parser: Parser
  /** Of the line of names; undefined before it. */
  #width: number | undefined
  #columns: readonly Column[] = []
  #number = 0
  /** The lines of the records so far. csv-parse's own count has a line for each CR and LF inside of a field. */
  #lines = 0
  /** Whether a carriage return alone was sent before the line of names ended, as in files with the line ends of old Macs. */
  #hasLoneReturn = false
  #rows: SentRow[] = []

  /** @param maxBytes of a row */
  constructor(fields: CsvFields, maxBytes: number) {
    this.#fields = fields
    this.#parser = new Parser({
      max_record_size: maxBytes,
      record_delimiter: ['\r\n', '\n'],
      // The number of fields is checked here, so that the records after a wrong one are read too.
      relax_column_count: true,
      skip_empty_lines: true,
      on_record: (record: string[]) => {
        this.#addRecord(record)
        return null
      },
    })
    // `errored` is read instead.
    this.#parser.on('error', () => {})
  }

  /** csv-parse has parsed the text when `write` returns. */
  push(text: string): SentRow[] {
    if (this.#width === undefined) this.#hasLoneReturn ||= /\r[^\n]/.test(text)
    this.#parser.write(text)
    if (countFields(this.#parser) > MAX_FIELDS) this.#refuse(TOO_MANY_FIELDS)
    return this.#takeRows()
  }

  async end(): Promise<SentRow[]> {
    this.#parser.end()
    await finished(this.#parser, { readable: false }).catch(() => {})
    const rows = this.#takeRows()
    if (this.#width === undefined && !this.isStopped) throw createNoBody()
    return rows
  }

  #takeRows(): SentRow[] {
    const { errored } = this.#parser
    const problem = SYNTAX_ERRORS[getErrorCode(errored) ?? '']
    if (problem !== undefined) this.#refuse(problem)
    else if (errored) throw errored
    return this.#rows.splice(0)
  }

  #addRecord(record: readonly string[]): void {
    if (this.isStopped) return
    if (record.length > MAX_FIELDS) this.#refuse(TOO_MANY_FIELDS)
    else if (this.#width === undefined) this.#readNames(record)
    else {
      this.#number += 1
      this.#add(this.#readRow(record, this.#width))
    }
    this.#lines += countLines(record)
  }

  #add(content: RowContent): void {
    const line = this.#lines + this.#parser.info.empty_lines + 1
    // What is wrong with the names is reported once, as that of the first row.
    this.#rows.push({ number: Math.max(1, this.#number), line, ...content })
  }

  #readNames(names: readonly string[]): void {
    if (names.some((name) => name.includes('\r'))) {
      this.#hasLoneReturn = true
      this.#refuse('is not a line of names')
      return
    }
    const { written, readOnly } = this.#fields
    const violations: Violation[] = []
    const columns: Column[] = []
    for (const [index, name] of names.entries()) {
      const schema = written.get(name)
      if (name === '') violations.push(createViolation('', `Column ${index + 1} has no name`, 'REQUIRED'))
      else if (names.indexOf(name) < index) {
        violations.push(createViolation(name, 'is the name of several columns', 'CONFLICTING_PARAMETERS'))
      } else if (schema) columns.push({ index, name, readValue: createValueReader(schema) })
      else if (!readOnly.has(name)) {
        violations.push(createViolation(name, 'is not a known field', 'UNKNOWN_FIELD'))
      }
    }
    this.#width = names.length
    this.#columns = columns
    if (violations.length > 0) this.#add({ violations })
    this.isStopped = violations.some(({ code }) => code !== 'UNKNOWN_FIELD')
  }

  #readRow(record: readonly string[], width: number): RowContent {
    if (record.length !== width) {
      const message = `The row has ${record.length} fields instead of ${width}`
      return { violations: [createViolation('', message, 'INVALID_FORMAT')] }
    }
    const violations: Violation[] = []
    const value: Record<string, unknown> = {}
    for (const { index, name, readValue } of this.#columns) {
      const text = record[index] ?? ''
      if (text === '') continue
      try {
        value[name] = readValue(text)
      } catch (error) {
        if (!(error instanceof ApiError)) throw error
        violations.push(createViolation(name, error.message, 'INVALID_FORMAT'))
      }
    }
    return violations.length > 0 ? { violations } : { value }
  }

  /** Ends the parsing: the row that was begun is wrong. */
  #refuse(problem: string): void {
    if (this.isStopped) return
    this.isStopped = true
    this.#number += 1
    const isMac = this.#width === undefined && this.#hasLoneReturn
    const hint = isMac ? '; a carriage return (CR) alone ends no line; use LF or CRLF' : ''
    this.#add({ violations: [createViolation('', `The row ${problem}${hint}`, 'INVALID_FORMAT')] })
  }
}
