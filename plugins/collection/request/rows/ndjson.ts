/** Parses newline-delimited JSON: an object in each line, with the limits of a body. */
import { isObject } from '../../../../lib/is-object.ts'
import type { Violation } from '../../../../schemas/error.ts'
import { ApiError } from '../../../errors/index.ts'
import { parseJson } from '../../../http/content-type.ts'
import { createViolation } from '../../../validation/text.ts'
import type { RowParser, SentRow } from './sent-row.ts'

export class NdjsonParser implements RowParser {
  readonly isStopped = false
  readonly #maxBytes: number
  /** The beginning of a line whose end has not arrived. */
  #rest = ''
  /** Whether the rest of the line is not kept, since it is too long. */
  #isSkipping = false
  #line = 0
  #number = 0

  /** @param maxBytes of a row */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get hasContent(): boolean {
    return this.#number > 0
  }

  push(text: string): SentRow[] {
    const rows: SentRow[] = []
    let start = 0
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
      this.#endLine(text.slice(start, end), rows)
      start = end + 1
    }
    if (!this.#isSkipping) this.#rest += text.slice(start)
    if (this.#rest.length > this.#maxBytes) {
      this.#rest = ''
      this.#isSkipping = true
    }
    return rows
  }

  async end(): Promise<SentRow[]> {
    const rows: SentRow[] = []
    this.#endLine('', rows)
    return rows
  }

  #endLine(end: string, rows: SentRow[]): void {
    // Millions of empty lines are quick.
    if (end === '' && this.#rest === '' && !this.#isSkipping) {
      this.#line += 1
      return
    }
    const text = this.#rest + end
    const isTooLong = this.#isSkipping || Buffer.byteLength(text) > this.#maxBytes
    this.#rest = ''
    this.#isSkipping = false
    this.#line += 1
    if (!isTooLong && text.trim() === '') return
    this.#number += 1
    const row = { number: this.#number, line: this.#line }
    const refuse = (violation: Violation) => rows.push({ ...row, value: undefined, violations: [violation] })
    if (isTooLong) {
      refuse(createViolation('', `The row is longer than ${this.#maxBytes} bytes`, 'TOO_LONG'))
      return
    }
    try {
      const value = parseJson(text, 'row')
      if (isObject(value)) rows.push({ ...row, value, violations: [] })
      else refuse(createViolation('', 'The row must be a JSON object', 'INVALID_TYPE'))
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      refuse(createViolation('', error.message, 'INVALID_FORMAT'))
    }
  }
}
