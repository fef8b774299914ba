/**
 * Reads the rows of one page: in one statement, or in chunks where the rows may be large.
 *
 * Not with a sum of bytes in SQL, as events (events/page.ts) and relations (sql/related.ts) have it: in the embedded database
 * a statement of 8 MiB blocks the event loop for 18 ms, a chunk for 1 ms; and for 21 short rows the sum takes PostgreSQL
 * from 42 to 73 us. Events store their size, so that one statement with many of them is short; the rows of a relation are
 * limited for each parent, which chunks cannot do.
 */
import type { Connection } from '../../../drizzle/client/types.ts'
import type { Actor } from '../../access/actor.ts'
import { getRule, narrowRule } from '../../access/rules.ts'
import { invalidQuery } from '../../errors/index.ts'
import type { Position } from '../cursors.ts'
import type { ListQuery } from '../query.ts'
import { MAX_PAGE_BYTES } from '../reply-size.ts'
import type { ListScope, PageScope, Resource, Select } from '../resource.ts'
import { MAX_BYTES_AT_ONCE } from '../response/page-response.ts'
import type { SourceRule } from '../sql/caller-keys.ts'
import { readPosition } from '../sql/keyset.ts'
import type { Row } from '../store.ts'

export interface Page {
  rows: Row[]
  hasMore: boolean
  /** Estimated size of the rows in a response; 0 if the schema keeps it small. */
  bytes: number
  /** The number of all rows of the list; undefined for cursor pagination. */
  total: number | undefined
  /** Where the list goes on when it has more rows; undefined if its last page ends it. */
  end?: Position | undefined
}

/** Reads the rows of a resource whose access is decided for each row: those that the caller may read, in one version. */
export interface RowReader {
  /**
   * @param position after which the page begins; undefined for the first page
   * @param bounds of an export: the bytes of the page, and the position after which it has no row
   */
  readPage(
    actor: Actor,
    query: ListQuery,
    position: Position | undefined,
    bounds?: { maxBytes: number; until: Position | undefined },
  ): Promise<Page>
  /** Returns the rules that decide which rows the caller may read. */
  getRules(actor: Actor): SourceRule[]
  /** @throws ApiError 404; 403, or 404 with HIDE_FORBIDDEN, if the caller may not read the row */
  readRow(actor: Actor, id: string): Promise<Row>
}

/** Returns which rows a caller may list, under a parent if the resource has one. */
export function getListScope(
  { access, parent }: Resource,
  actor: Actor,
  parentId: string | undefined,
): ListScope {
  const listRule = getRule(access, 'list', actor)
  // Under a parent it is already known to whom the rows belong; PostgreSQL would otherwise evaluate both conditions and
  // sort all rows.
  const rule =
    parent && parentId ? narrowRule(listRule, parent.member, parentId.toLowerCase(), actor) : listRule
  return { rule, actor, parent: parentId }
}

const sumBytes = (select: Select, rows: readonly Row[]) =>
  rows.reduce((sum, row) => sum + select.estimateRowBytes(row), 0)

/** Estimated size of the chunks after the first. Small chunks block the event loop only briefly. */
const MAX_CHUNK_BYTES = 524_288

/** Reads chunks until there are enough rows, enough bytes, or no more rows. */
async function readChunks(
  select: Select,
  connection: Connection,
  query: ListQuery,
  scope: PageScope,
): Promise<Pick<Page, 'rows' | 'total'>> {
  const rows: Row[] = []
  let total: number | undefined
  // One more row shows whether another page follows.
  const wanted = query.limit + 1
  const { chunkSize } = query
  let position = scope.position
  let nextSize = chunkSize
  for (let bytes = 0; rows.length < wanted && bytes <= MAX_PAGE_BYTES; ) {
    const size = Math.min(nextSize, wanted - rows.length)
    const { rows: chunk, total: counted } = await select.page(connection, query, { ...scope, position, size })
    total ??= counted
    rows.push(...chunk)
    const last = chunk.at(-1)
    if (!last || chunk.length < size) break
    bytes += sumBytes(select, chunk)
    nextSize = Math.min(chunkSize, Math.max(1, Math.floor((MAX_CHUNK_BYTES * rows.length) / bytes)))
    position = readPosition(last, query.terms)
  }
  return { rows, total }
}

/** Returns whether a page is read in chunks, whose number depends on the sizes of its rows. */
export const hasChunks = ({ limit, chunkSize }: ListQuery): boolean => limit >= chunkSize

/**
 * Reads one page. With cursor pagination, a page of large rows may have fewer rows than `limit`.
 * @throws ApiError 400 INVALID_CURSOR; 400 OUT_OF_RANGE if a page by number is too large
 */
export async function readPage(
  select: Select,
  connection: Connection,
  query: ListQuery,
  scope: PageScope,
): Promise<Page> {
  const { limit } = query
  if (!hasChunks(query)) {
    const { rows, total } = await select.page(connection, query, { size: limit + 1, ...scope })
    const page = rows.slice(0, limit)
    const bytes = select.maxRowBytes * limit > MAX_BYTES_AT_ONCE ? sumBytes(select, page) : 0
    return { rows: page, hasMore: rows.length > limit, bytes, total }
  }
  const { rows, total } = await readChunks(select, connection, query, scope)
  const page: Row[] = []
  let bytes = 0
  for (const row of rows.slice(0, limit)) {
    const size = select.estimateRowBytes(row)
    // At least one row.
    if (page.length > 0 && bytes + size > MAX_PAGE_BYTES) break
    bytes += size
    page.push(row)
  }
  if (query.page !== undefined && page.length < Math.min(limit, rows.length)) {
    const message = `is too large: only ${page.length} of these resources fit into one response; use a smaller limit or cursors`
    throw invalidQuery([{ field: 'limit', message, code: 'OUT_OF_RANGE' }])
  }
  return { rows: page, hasMore: rows.length > page.length, bytes, total }
}
