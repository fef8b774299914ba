/** Parses newline-delimited JSON: an object in each line, with the limits of a body. */
import { ApiError, type FieldCode } from '@resource-api/api/errors'
import { parseJson } from '@resource-api/api/requests'
import { createViolation } from '@resource-api/api/validation'
import { isObject } from '@resource-api/database/values'
import { createNoBody, type RowContent, type SentRow, type SentRows } from './read-pieces.ts'

async function* endLine(texts: AsyncIterable<string>) {
  yield* texts
  yield '\n'
}

/**
 * @param maxBytes of a row
 * @throws ApiError 400 if there are only empty lines
 */
export async function* parseNdjson(texts: AsyncIterable<string>, maxBytes: number): SentRows {
  /** The beginning of a line whose end has not arrived; of a line that is too long, a part. */
  let rest = ''
  let line = 0
  let number = 0
  for await (const text of endLine(texts)) {
    const rows: SentRow[] = []
    for (const [i, part] of text.split('\n').entries()) {
      if (i > 0) {
        line += 1
        if (rest.trim() !== '' || rest.length > maxBytes) {
          number += 1
          rows.push(Object.assign({ number, line, length: rest.length }, parseRow(rest, maxBytes)))
        }
        rest = ''
      }
      if (rest.length <= maxBytes) rest += part
    }
    yield rows
  }
  if (number === 0) throw createNoBody()
}

function parseRow(text: string, maxBytes: number): RowContent {
  const refuse = (message: string, code: FieldCode) => ({ violations: [createViolation('', message, code)] })
  if (Buffer.byteLength(text) > maxBytes)
    return refuse(`The row is longer than ${maxBytes} bytes`, 'TOO_LONG')
  try {
    const value = parseJson(text, 'row')
    return isObject(value) ? { value } : refuse('The row must be a JSON object', 'INVALID_TYPE')
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return refuse(error.message, 'INVALID_FORMAT')
  }
}
