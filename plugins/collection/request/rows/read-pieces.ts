/** Parses the rows of an import in pieces, each in short turns of the event loop. */
import { setImmediate as nextIteration } from 'node:timers/promises'
import { getErrorCode } from '../../../../lib/error-code.ts'
import type { Violation } from '../../../../schemas/error.ts'
import { apiError } from '../../../errors/index.ts'
import type { Fields } from '../../../validation/schema-functions.ts'

/** The body that a row means, or what is wrong with its text. The field '' is the row itself. */
export type RowContent = { value: Fields; violations?: never } | { value?: never; violations: Violation[] }

/** A row as it was sent. Its number, and that of the line on which it starts, are from 1. */
export type SentRow = { number: number; line: number } & RowContent

/** Parses the text of an import, in parts of any length. */
export interface RowParser {
  /** Whether the rest of the text cannot be parsed after an error. */
  readonly isStopped: boolean
  /** @returns the rows that end in the part */
  push(text: string): SentRow[]
  /** @returns the rows that the end of the text ends. @throws ApiError 400 if the text had nothing but empty lines */
  end(): Promise<SentRow[]>
}

/** Rows of a piece. */
const MAX_PIECE_ROWS = 500
/** Bytes of a piece, apart from a longer row. */
const MAX_PIECE_BYTES = 1_048_576
/** Bytes that are parsed in one turn of the event loop: a request waits for several turns. */
const MAX_PARSED_BYTES = 4_096

export const createNoBody = () => apiError('INVALID_REQUEST', { message: 'A request body is required' })

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
 * @throws ApiError 400 for a body that is empty or not UTF-8; 413 for too many rows
 */
export async function* readPieces(
  parts: AsyncIterable<Buffer>,
  parser: RowParser,
  maxRows: number,
): AsyncGenerator<SentRow[], void, undefined> {
  const rows: SentRow[] = []
  let length = 0
  const takePiece = () => {
    const piece = rows.splice(0, MAX_PIECE_ROWS)
    if ((piece.at(-1)?.number ?? 0) > maxRows) {
      throw apiError('PAYLOAD_TOO_LARGE', { message: `The body has more than ${maxRows} rows` })
    }
    length = 0
    return piece
  }
  for await (const text of decode(parts)) {
    rows.push(...parser.push(text))
    length += text.length
    while (rows.length >= MAX_PIECE_ROWS || (rows.length > 0 && length >= MAX_PIECE_BYTES)) yield takePiece()
    if (parser.isStopped) break
  }
  if (!parser.isStopped) rows.push(...(await parser.end()))
  while (rows.length > 0) yield takePiece()
}
