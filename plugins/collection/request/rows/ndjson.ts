/** Parses newline-delimited JSON: an object in each line, with the limits of a body. */
import { isObject } from '../../../../lib/is-object.ts'
import type { FieldCode } from '../../../../schemas/error.ts'
import { ApiError } from '../../../errors/index.ts'
import { parseJson } from '../../../http/content-type.ts'
import { createViolation } from '../../../validation/text.ts'
import { createNoBody, type RowContent, type RowParser, type SentRow } from './read-pieces.ts'

export class NdjsonParser implements RowParser {
  readonly isStopped = false
  readonly #maxBytes: number
  /** The beginning of a line whose end has not arrived; of a line that is too long, a part. */
  #rest = ''
  #line = 0
  #number = 0

  /** @param maxBytes of a row */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  push(text: string): SentRow[] {
    const rows: SentRow[] = []
    let start = 0
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
      this.#add(text.slice(start, end))
      this.#endLine(rows)
      start = end + 1
    }
    this.#add(text.slice(start))
    return rows
  }

  async end(): Promise<SentRow[]> {
    const rows: SentRow[] = []
    this.#endLine(rows)
    if (this.#number === 0) throw createNoBody()
    return rows
  }

  #add(text: string): void {
    if (this.#rest.length <= this.#maxBytes) this.#rest += text
  }

  #endLine(rows: SentRow[]): void {
    const text = this.#rest
    this.#rest = ''
    this.#line += 1
    if (text.trim() === '' && text.length <= this.#maxBytes) return
    this.#number += 1
    rows.push({ number: this.#number, line: this.#line, ...this.#readRow(text) })
  }

  #readRow(text: string): RowContent {
    const refuse = (message: string, code: FieldCode) => ({
      violations: [createViolation('', message, code)],
    })
    if (Buffer.byteLength(text) > this.#maxBytes) {
      return refuse(`The row is longer than ${this.#maxBytes} bytes`, 'TOO_LONG')
    }
    try {
      const value = parseJson(text, 'row')
      return isObject(value) ? { value } : refuse('The row must be a JSON object', 'INVALID_TYPE')
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      return refuse(error.message, 'INVALID_FORMAT')
    }
  }
}
