/**
 * The chunks of an export: rows that are read by one statement each, and kept as the bytes that are sent. As objects, the rows
 * of a chunk take four times the memory, in the heap, for as long as a slow client reads.
 */
import createLimit from 'p-limit'
import { isStatementTimeout } from '../../../drizzle/client/errors.ts'
import type { Connection } from '../../../drizzle/client/types.ts'
import type { Position } from '../cursors.ts'
import type { ListQuery } from '../query.ts'
import { listComparedRelations } from '../request/list-query.ts'
import type { ResourceAddress } from '../request/resource-address.ts'
import { runPiece } from '../response/page-response.ts'
import type { SourceRule } from '../sql/caller-keys.ts'
import type { Row } from '../store.ts'
import { getReplica, type OperationContext } from './context.ts'
import { getListScope, type RowReader } from './read-page.ts'

/** An export counts as one request for this many rows. The first chunk has no more. */
export const ROWS_PER_COST = 100
/** Bytes that are serialized in one step, in about 1 ms, and written to the connection. A larger row is several pieces. */
const PIECE_BYTES = 131_072
/** Bytes of a chunk. One that begins with a larger row has that row alone. */
const CHUNK_BYTES = 2 * PIECE_BYTES
/** Of a UTF-16 code unit. */
const MAX_UTF8_BYTES = 3
/** How many chunks of a process are read at the same time: their rows are objects until they are written. */
const MAX_CONCURRENT_READS = 2

/**
 * How many rows a chunk may have beyond those that fit into 8 MiB if each is as large as the schema allows. With 1,500
 * products of 300 bytes in a chunk instead of 390, an export takes 0.8 of the time.
 */
export const CHUNK_FACTOR = 4

/** Where a chunk begins. */
export interface ChunkStart {
  position: Position
  /** Rows to be read. */
  size: number
  /** The position after which the export has no row. */
  until?: Position | undefined
}

interface RowsRead {
  rows: readonly Row[]
  hasMore: boolean
  until?: Position | undefined
  /** From which the rows were read. */
  connection: Connection
}

/** Where an export has its rows from. */
export interface RowSource {
  read(from: ChunkStart | undefined): Promise<RowsRead>
  /** The connection for the first rows. */
  getConnection(): Connection
  /** The rules that decide which rows there are. */
  rules: readonly SourceRule[]
}

/** Creates the source that reads by keyset: each chunk with one statement, whose connection is free afterwards. */
export function createRowSource(
  { app, resource }: OperationContext,
  { actor, parent }: ResourceAddress,
  query: ListQuery,
): RowSource {
  const { database } = app
  const { replicas } = database
  const { select } = resource
  const scope = getListScope(resource, actor, parent)
  const compared = listComparedRelations(query)
  const packed = select.pack(query)
  // For each chunk, since a replica may fall behind.
  const getConnection = () => (replicas && getReplica(replicas, resource, actor, compared)) ?? database

  const read = async (position: Position | undefined, size: number): Promise<RowsRead> => {
    const connection = getConnection()
    try {
      const { rows } = await select.page(connection, query, { ...scope, position, size, packed })
      return { rows, hasMore: rows.length === size, connection }
    } catch (error) {
      if (!isStatementTimeout(error) || size === 1) throw error
      return read(position, Math.ceil(size / 2))
    }
  }

  return {
    read: (from) => read(from?.position, from?.size ?? Math.min(ROWS_PER_COST, select.largePage)),
    getConnection,
    rules: [{ source: resource, rule: scope.rule }],
  }
}

/** Creates the source that reads by the reader of a resource. It ends with the rows that there are now. */
export function createReaderSource(
  { app: { database } }: OperationContext,
  reader: RowReader,
  { actor }: ResourceAddress,
  query: ListQuery,
): RowSource {
  return {
    async read(from) {
      const bounds = { maxBytes: CHUNK_BYTES, until: from?.until }
      const page = await reader.readPage(actor, { ...query, limit: ROWS_PER_COST }, from?.position, bounds)
      const { rows, hasMore, end } = page
      return { rows, hasMore, until: from?.until ?? end, connection: database }
    },
    getConnection: () => database,
    rules: reader.getRules(actor),
  }
}

/**
 * Writes rows until they fill a piece. To serialize products and write each into a buffer takes 0.7 of the CPU of joining
 * their texts first.
 * @param start the index of the first row
 * @returns the piece, and the index of the row after its last one
 */
function writePiece(
  rows: readonly Row[],
  start: number,
  write: (row: Row) => string,
): { piece: Buffer; end: number } {
  const piece = Buffer.allocUnsafe(PIECE_BYTES)
  let length = 0
  let end = start
  for (let row = rows[end]; row; row = rows[end]) {
    const text = write(row)
    const free = PIECE_BYTES - length
    if (text.length * MAX_UTF8_BYTES > free && Buffer.byteLength(text) > free) {
      if (length === 0) return { piece: Buffer.from(text), end: end + 1 }
      break
    }
    length += piece.write(text, length)
    end += 1
  }
  return { piece: piece.subarray(0, length), end }
}

/** Rows as they are sent. */
export interface Chunk {
  pieces: Buffer[]
  bytes: number
  rows: number
  /** Where the next chunk begins; undefined after the last one. */
  next: ChunkStart | undefined
}

/** The limit of all exports of a process, so that the objects of many chunks do not fill the heap. */
const limitReads = createLimit(MAX_CONCURRENT_READS)

interface ChunkOptions {
  toPosition(row: Row): Position
  /** The most rows that a chunk may have. */
  maxRows: number
  write(row: Row): string
  /** Called after further rows were read. @throws Error if they may be too few */
  check(connection: Connection): Promise<void>
  signal: AbortSignal
}

/** Reads a chunk. Rows that do not fit into its bytes are dropped: the next chunk begins with them. */
export const readChunk = (
  source: RowSource,
  from: ChunkStart | undefined,
  { toPosition, maxRows, write, check, signal }: ChunkOptions,
): Promise<Chunk> =>
  limitReads(async () => {
    // The client may have left while the export waited for its turn.
    signal.throwIfAborted()
    const { rows, hasMore, until, connection } = await source.read(from)
    if (from) await check(connection)
    const pieces: Buffer[] = []
    let bytes = 0
    let end = 0
    while (end < rows.length && (end === 0 || bytes + PIECE_BYTES <= CHUNK_BYTES)) {
      signal.throwIfAborted()
      const start = end
      const written = await runPiece(() => writePiece(rows, start, write))
      // A long row behind others.
      if (bytes > 0 && bytes + written.piece.length > CHUNK_BYTES) break
      end = written.end
      bytes += written.piece.length
      for (let at = 0; at < written.piece.length; at += PIECE_BYTES)
        pieces.push(written.piece.subarray(at, at + PIECE_BYTES))
    }
    const last = rows[end - 1]
    if (!last || (end === rows.length && !hasMore)) return { pieces, bytes, rows: end, next: undefined }
    const size = Math.max(1, Math.floor((CHUNK_BYTES * end) / bytes))
    return {
      pieces,
      bytes,
      rows: end,
      next: {
        position: toPosition(last),
        size: Math.min(size, maxRows),
        until,
      },
    }
  })
