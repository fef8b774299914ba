/** Parses the rows of an import in pieces, each in short turns of the event loop. */
import { setImmediate as nextIteration } from 'node:timers/promises'
import { apiError } from '../../../errors/index.ts'
import type { RowParser, SentRow } from './sent-row.ts'

/** Rows of a piece. */
const MAX_PIECE_ROWS = 500
/** Bytes of a piece, apart from a longer row. */
const MAX_PIECE_BYTES = 262_144
/** Bytes that are parsed in one turn of the event loop, which takes about 0.3 ms: a request waits for several turns. */
const MAX_PARSED_BYTES = 4_096

const NO_BODY = 'A request body is required'

/**
 * @param parts of the body
 * @throws ApiError 400 for a body that is empty or not UTF-8; 413 for too many rows
 */
export async function* readPieces(
  parts: AsyncIterable<Buffer>,
  parser: RowParser,
  maxRows: number,
): AsyncGenerator<SentRow[], void, undefined> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let rows: SentRow[] = []
  let bytes = 0

  const decode = (part?: Buffer): string => {
    try {
      return decoder.decode(part, { stream: part !== undefined })
    } catch (cause) {
      throw apiError('INVALID_REQUEST', { message: 'The body is not valid UTF-8', cause })
    }
  }
  const add = (parsed: SentRow[]) => {
    if ((parsed.at(-1)?.number ?? 0) > maxRows) {
      throw apiError('PAYLOAD_TOO_LARGE', { message: `The body has more than ${maxRows} rows` })
    }
    if (rows.length === 0) rows = parsed
    else rows.push(...parsed)
  }

  for await (const part of parts) {
    for (let start = 0; start < part.length && !parser.isStopped; start += MAX_PARSED_BYTES) {
      const slice = part.subarray(start, start + MAX_PARSED_BYTES)
      add(parser.push(decode(slice)))
      bytes += slice.length
      // A body of empty lines would otherwise keep the event loop.
      await nextIteration()
      while (rows.length >= MAX_PIECE_ROWS || (rows.length > 0 && bytes >= MAX_PIECE_BYTES)) {
        yield rows.splice(0, MAX_PIECE_ROWS)
        bytes = 0
      }
    }
    if (parser.isStopped) break
  }
  if (!parser.isStopped) {
    add(parser.push(decode()))
    add(await parser.end())
    if (!parser.hasContent) throw apiError('INVALID_REQUEST', { message: NO_BODY })
  }
  while (rows.length > 0) yield rows.splice(0, MAX_PIECE_ROWS)
}
