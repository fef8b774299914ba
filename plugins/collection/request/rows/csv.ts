/** Parses CSV (RFC 4180, strictly): a line of names, then a row each, whose texts become JSON values by the schema. */
import { finished } from 'node:stream/promises'
import type { TSchema } from '@sinclair/typebox'
import { CsvError, Parser } from 'csv-parse'
import { getErrorCode } from '../../../../lib/error-code.ts'
import { isObject } from '../../../../lib/is-object.ts'
import { MAX_VIOLATIONS, type Violation } from '../../../../schemas/error.ts'
import { ApiError } from '../../../errors/index.ts'
import { parseJson } from '../../../http/content-type.ts'
import { createViolation, NUMBERS } from '../../../validation/text.ts'
import type { RowParser, SentRow } from './sent-row.ts'

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

/** Of a record, as of an object in a body. A record of a million fields would block the event loop for 0.3 s. */
const MAX_FIELDS = 1_000

/** The messages for csv-parse's errors. After them, it is not known where the next record begins. */
const SYNTAX_ERRORS: Readonly<Record<string, string>> = {
  CSV_INVALID_CLOSING_QUOTE: 'has text behind a closing quote',
  INVALID_OPENING_QUOTE: 'has a quote inside of a field without quotes',
  CSV_QUOTE_NOT_CLOSED: 'has a quote that is never closed',
  CSV_MAX_RECORD_SIZE: 'is too long, or has a quote that is never closed',
}

/** Said of a file with the line ends of old Macs, which is one line. */
const LINE_END_HINT = 'a carriage return (CR) alone ends no line; use LF or CRLF'
const TOO_MANY_FIELDS = `has more than ${MAX_FIELDS} fields`

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

/** Returns how often a text is in the fields of a record. */
const countIn = (fields: readonly string[], text: string) =>
  fields.reduce((count, field) => count + (field.includes(text) ? field.split(text).length - 1 : 0), 0)

/**
 * Passes each record on as soon as it is parsed, when the parser's counts are those of the record. With the option `info`,
 * csv-parse copies its counts for each record: of 100,000 rows, V8 kept 60 MB of that until the next major collection.
 */
class RecordParser extends Parser {
  readonly #onRecord: (record: string[]) => void

  constructor(options: ConstructorParameters<typeof Parser>[0], onRecord: (record: string[]) => void) {
    super(options)
    this.#onRecord = onRecord
  }

  /**
   * The fields of the record whose end has not arrived. They are those of csv-parse's state, which its types do not have:
   * it has no option that limits them (the version is pinned).
   */
  get fieldCount(): number {
    const state: unknown = Reflect.get(this, 'state')
    return isObject(state) && Array.isArray(state.record) ? state.record.length : 0
  }

  override push(record: string[] | null): boolean {
    if (record === null) return super.push(null)
    this.#onRecord(record)
    return true
  }
}

export class CsvParser implements RowParser {
  isStopped = false
  readonly #fields: CsvFields
  readonly #parser: RecordParser
  #width: number | undefined
  #columns: readonly Column[] = []
  #number = 0
  /** The parser's counts at the last record. */
  #last = { lines: 0, emptyLines: 0 }
  /** The carriage returns that csv-parse has counted as lines. */
  #excessLines = 0
  /** Whether a carriage return alone was sent before the line of names ended. */
  #hasLoneReturn = false
  #lastCharacter = ''
  /** Whether the text has ended in a carriage return, which csv-parse has not counted when it passes the last record on. */
  #endsInReturn = false
  #rows: SentRow[] = []

  /** @param maxBytes of a row */
  constructor(fields: CsvFields, maxBytes: number) {
    this.#fields = fields
    const options = {
      max_record_size: maxBytes,
      record_delimiter: ['\r\n', '\n'],
      // The number of fields is checked here, so that the records after a wrong one are read too.
      relax_column_count: true,
      skip_empty_lines: true,
    }
    this.#parser = new RecordParser(options, (record) => this.#addRecord(record))
    // `errored` is read instead.
    this.#parser.on('error', () => {})
  }

  get hasContent(): boolean {
    return this.#width !== undefined || this.isStopped
  }

  push(text: string): SentRow[] {
    if (this.#width === undefined) this.#hasLoneReturn ||= /\r[^\n]/.test(text)
    this.#parser.write(text)
    this.#lastCharacter = text.at(-1) ?? this.#lastCharacter
    const rows = this.#takeRows()
    if (this.#parser.fieldCount > MAX_FIELDS && !this.isStopped) rows.push(this.#refuseRest(TOO_MANY_FIELDS))
    return rows
  }

  async end(): Promise<SentRow[]> {
    this.#endsInReturn = this.#lastCharacter === '\r'
    this.#parser.end()
    await finished(this.#parser, { readable: false }).catch(() => {})
    return this.#takeRows()
  }

  /** The parser has parsed all that was written when `write` returns. */
  #takeRows(): SentRow[] {
    const { errored } = this.#parser
    if (errored && !this.isStopped) this.#stop(errored)
    const rows = this.#rows
    this.#rows = []
    return rows
  }

  #addRecord(record: readonly string[]): void {
    if (this.isStopped) return
    const { lines, empty_lines: emptyLines } = this.#parser.info
    // In a field, csv-parse counts CRLF as two lines, and CR alone as one, which it is in no editor.
    const isUncounted = this.#endsInReturn && record.at(-1)?.endsWith('\r')
    const excess = countIn(record, '\r') - (isUncounted ? 1 : 0)
    const line = lines - this.#excessLines - excess - countIn(record, '\n')
    if (record.length > MAX_FIELDS) {
      this.#rows.push(this.#refuseRest(TOO_MANY_FIELDS))
      return
    }
    this.#excessLines += excess
    this.#last = { lines, emptyLines }
    if (this.#width === undefined) this.#readNames(record, line)
    else this.#rows.push(this.#readRow(record, line))
  }

  #readNames(names: readonly string[], line: number): void {
    const violations: Violation[] = []
    if (countIn(names, '\r') > 0) {
      const message = `The line of names is not valid: ${LINE_END_HINT}`
      violations.push(createViolation('', message, 'INVALID_FORMAT'))
      this.#rows.push({ number: 1, line, value: undefined, violations })
      this.isStopped = true
      return
    }
    const { written, readOnly } = this.#fields
    const seen = new Set<string>()
    const columns: Column[] = []
    let isUnreadable = false
    for (const [index, name] of names.entries()) {
      // No more are reported.
      if (violations.length >= MAX_VIOLATIONS) {
        isUnreadable = true
        break
      }
      const schema = written.get(name)
      if (name === '') {
        violations.push(createViolation('', `Column ${index + 1} has no name`, 'REQUIRED'))
        isUnreadable = true
      } else if (seen.has(name)) {
        violations.push(createViolation(name, 'is the name of several columns', 'CONFLICTING_PARAMETERS'))
        isUnreadable = true
      } else if (schema) columns.push({ index, name, readValue: createValueReader(schema) })
      else if (!readOnly.has(name)) {
        violations.push(createViolation(name, 'is not a known field', 'UNKNOWN_FIELD'))
      }
      seen.add(name)
    }
    this.#width = names.length
    this.#columns = columns
    // Reported once, as those of the first row.
    if (violations.length > 0) this.#rows.push({ number: 1, line, value: undefined, violations })
    this.isStopped = isUnreadable
  }

  #readRow(record: readonly string[], line: number): SentRow {
    this.#number += 1
    const row = { number: this.#number, line }
    if (record.length !== this.#width) {
      const message = `The row has ${record.length} fields instead of ${this.#width}`
      return { ...row, value: undefined, violations: [createViolation('', message, 'INVALID_FORMAT')] }
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
    return Object.assign(row, { value, violations })
  }

  #stop(error: Error): void {
    const problem = SYNTAX_ERRORS[getErrorCode(error) ?? '']
    if (!(error instanceof CsvError) || problem === undefined) throw error
    this.#rows.push(this.#refuseRest(problem))
  }

  /** Ends the parsing. @returns the row that is wrong */
  #refuseRest(problem: string): SentRow {
    this.isStopped = true
    const hint = this.#width === undefined && this.#hasLoneReturn ? `; ${LINE_END_HINT}` : ''
    const skipped = this.#parser.info.empty_lines - this.#last.emptyLines
    return {
      number: this.#number + 1,
      line: this.#last.lines - this.#excessLines + skipped + 1,
      value: undefined,
      violations: [createViolation('', `The row ${problem}${hint}`, 'INVALID_FORMAT')],
    }
  }
}
