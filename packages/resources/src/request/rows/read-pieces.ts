/** Reads the rows of an import in pieces, each in short turns of the event loop. */
import { setImmediate as nextIteration } from 'node:timers/promises'
import { apiError, type Violation } from '@resource-api/api/errors'
import type { Fields } from '@resource-api/api/validation'
import { getErrorCode } from '@resource-api/database'

/** The body that a row means, or what is wrong with its text. The field '' is the row itself. */
export type RowContent = { value: Fields; violations?: never } | { value?: never; violations: Violation[] }

/** A row as it was sent: its number and the line on which it starts, from 1, and the characters that it takes. */
export type SentRow = { number: number; line: number; length: number } & RowContent

/** The rows that end in each part of the text. */
export type SentRows = AsyncGenerator<SentRow[], void, undefined>

/** Rows of a piece. */
const MAX_PIECE_ROWS = 500
/** Characters of a piece, apart from a longer row. */
const MAX_PIECE_LENGTH = 1_048_576
/** Bytes that are parsed in one turn of the event loop: a request waits for several turns. */
const MAX_PARSED_BYTES = 4_096

/** Returns the text in short parts, and lets the event loop go on after each. @throws ApiError 400 */
async function* decode(parts: AsyncIterable<Buffer>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  try {
    for await (const part of parts) {
      for (let start = 0; start < part.length; start += MAX_PARSED_BYTES) {
        yield decoder.decode(part.subarray(start, start + MAX_PARSED_BYTES), { stream: true })
        await nextIteration()
      }
    }
    yield decoder.decode()
  } catch (cause) {
    if (getErrorCode(cause) !== 'ERR_ENCODING_INVALID_ENCODED_DATA') throw cause
    throw apiError('INVALID_REQUEST', { message: 'The body is not valid UTF-8', cause })
  }
}

/**
 * @param parts of the body
 * @param parse the text, in parts of any length
 * @throws ApiError 400 for a body that has no rows or is not UTF-8; 413 for too many rows
 */
export async function* readPieces(
  parts: AsyncIterable<Buffer>,
  parse: (texts: AsyncIterable<string>) => SentRows,
  maxRows: number,
): AsyncGenerator<SentRow[], void, undefined> {
  let piece: SentRow[] = []
  let length = 0
  for await (const rows of parse(decode(parts))) {
    for (const row of rows) {
      if (row.number > maxRows) {
        throw apiError('PAYLOAD_TOO_LARGE', { message: `The body has more than ${maxRows} rows` })
      }
      piece.push(row)
      length += row.length
      if (piece.length < MAX_PIECE_ROWS && length < MAX_PIECE_LENGTH) continue
      yield piece
      piece = []
      length = 0
    }
  }
  if (piece.length > 0) yield piece
}

export const createNoBody = () => apiError('INVALID_REQUEST', { message: 'A request body is required' })
