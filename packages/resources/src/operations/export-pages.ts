/** The pages of an export: each is read by one statement, and kept as the bytes that are sent, outside of the heap. */
import type { Connection } from '@resource-api/database'
import { isStatementTimeout } from '@resource-api/database/errors'
import createLimit from 'p-limit'
import type { ListQuery } from '../definition/query.ts'
import type { Row } from '../definition/store.ts'
import { listComparedRelations } from '../request/list-query.ts'
import type { ResourceAddress } from '../request/resource-address.ts'
import { runPiece } from '../response/page-response.ts'
import type { SourceRule } from '../sql/caller-keys.ts'
import type { Position } from '../sql/cursors.ts'
import { getReplica, type OperationContext } from './context.ts'
import { getListScope, type RowReader } from './read-page.ts'

/** An export counts as one request for this many rows. The first page has no more. */
export const ROWS_PER_COST = 100
const MAX_ROWS = 1_000
/** Bytes of a page, which are serialized in one step, in about 1 ms. A larger row is a page of its own. */
const PAGE_BYTES = 131_072
/** Pages that a process reads at the same time: their rows are objects, and their connections are not those of others. */
const MAX_CONCURRENT_READS = 2

/** Where a page begins. */
interface PageStart {
  /** Undefined for the first page. */
  position: Position | undefined
  /** Rows to be read. */
  size: number
  /** The position after which the export has no row. */
  until?: Position | undefined
}

interface RowsRead {
  rows: readonly Row[]
  hasMore: boolean
  end?: Position | undefined
  /** From which the rows were read. */
  connection: Connection
}

/** Where an export has its rows from. */
export interface RowSource {
  read(start: PageStart): Promise<RowsRead>
  /** The connection for the first rows. */
  getConnection(): Connection
  /** The rules that decide which rows there are. */
  rules: readonly SourceRule[]
}

/** Creates the source that reads by keyset: each page with one statement, whose connection is free afterwards. */
export function createRowSource(
  { app: { database }, resource }: OperationContext,
  { actor, parent }: ResourceAddress,
  query: ListQuery,
): RowSource {
  const { replicas } = database
  const scope = getListScope(resource, actor, parent)
  const compared = listComparedRelations(query)
  // For each page, since a replica may fall behind.
  const getConnection = () => (replicas && getReplica(replicas, resource, actor, compared)) ?? database

  const read = async ({ position, size }: PageStart): Promise<RowsRead> => {
    const connection = getConnection()
    try {
      const { rows } = await resource.select.page(connection, query, { ...scope, position, size })
      return { rows, hasMore: rows.length === size, connection }
    } catch (error) {
      if (!isStatementTimeout(error) || size === 1) throw error
      return read({ position, size: Math.ceil(size / 2) })
    }
  }
  return { read, getConnection, rules: [{ source: resource, rule: scope.rule }] }
}

/** Creates the source that reads by the reader of a resource. It ends with the rows that there are now. */
export function createReaderSource(
  { app: { database } }: OperationContext,
  reader: RowReader,
  { actor }: ResourceAddress,
  query: ListQuery,
): RowSource {
  return {
    async read({ position, size, until }) {
      const bounds = { maxBytes: PAGE_BYTES, until }
      const page = await reader.readPage(actor, { ...query, limit: size }, position, bounds)
      return { ...page, connection: database }
    },
    getConnection: () => database,
    rules: reader.getRules(actor),
  }
}

/** Writes rows until they fill a page. A row longer than that fills one. */
function writeRows(rows: readonly Row[], write: (row: Row) => string) {
  const lines: Buffer[] = []
  let length = 0
  for (const row of rows) {
    const line = Buffer.from(write(row))
    if (length > 0 && length + line.length > PAGE_BYTES) break
    lines.push(line)
    length += line.length
  }
  return { bytes: Buffer.concat(lines, length), count: lines.length }
}

/** The limit of all exports of a process. */
const limitReads = createLimit(MAX_CONCURRENT_READS)

/** Rows as they are sent. */
interface ExportPage {
  bytes: Buffer
  rows: number
  /** From which the rows were read. */
  connection: Connection
  /** Where the next page begins; undefined after the last one. */
  next: PageStart | undefined
}

interface PageOptions {
  /** That one statement may read. */
  maxRows: number
  toPosition(row: Row): Position
  write(row: Row): string
  signal: AbortSignal
}

/**
 * Creates the function that reads a page. A page has as many rows as would fit into its bytes if they were as long as those
 * of the page before, and no more than one statement may read; those that do not fit are left to the next page.
 */
export const createPageReader =
  (source: RowSource, { maxRows, toPosition, write, signal }: PageOptions) =>
  (start: PageStart = { position: undefined, size: Math.min(ROWS_PER_COST, maxRows) }): Promise<ExportPage> =>
    limitReads(async () => {
      // The client may have left while the export waited for its turn.
      signal.throwIfAborted()
      const { rows, hasMore, end, connection } = await source.read(start)
      const { bytes, count } = await runPiece(() => writeRows(rows, write))
      const page = { bytes, rows: count, connection, next: undefined }
      const last = rows[count - 1]
      if (!last || (count === rows.length && !hasMore)) return page
      const fitting = Math.max(1, Math.floor((PAGE_BYTES * count) / bytes.length))
      const size = Math.min(MAX_ROWS, maxRows, fitting)
      return { ...page, next: { position: toPosition(last), size, until: start.until ?? end } }
    })
