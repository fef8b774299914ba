/** Reads the rows of one page: one statement, or several where the rows are large. */
import type { Actor } from '@resource-api/api/actor'
import { invalidQuery } from '@resource-api/api/errors'
import { getRule, narrowRule } from '@resource-api/api/rules'
import type { Connection } from '@resource-api/database'
import type { RowId } from '@resource-api/database/key'
import type { ListQuery } from '../definition/query.ts'
import type { ListScope, PageScope, Resource } from '../definition/resource.ts'
import type { Row } from '../definition/store.ts'
import { MAX_BYTES_AT_ONCE } from '../response/page-response.ts'
import type { SourceRule } from '../sql/caller-keys.ts'
import type { Position } from '../sql/cursors.ts'
import { readPosition } from '../sql/keyset.ts'
import { DEFAULT_LIMIT, MAX_PAGE_BYTES } from '../sql/reply-size.ts'

export interface Page {
  rows: Row[]
  hasMore: boolean
  /** Estimated size of the rows in a response. */
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
  readRow(actor: Actor, id: RowId): Promise<Row>
}

/** Returns which rows a caller may list, under a parent if the resource has one. */
export function getListScope(
  { access, parent }: Resource,
  actor: Actor,
  parentId: RowId | undefined,
): ListScope {
  const listRule = getRule(access, 'list', actor)
  // Under a parent it is already known to whom the rows belong; PostgreSQL would otherwise evaluate both conditions and
  // sort all rows.
  const rule = parent && parentId ? narrowRule(listRule, parent.member, parentId, actor) : listRule
  return { rule, actor, parent: parentId }
}

/**
 * Reads one page: at most `limit` rows, and at most MAX_PAGE_BYTES or one row. Where that many rows may be larger, a
 * statement reads no more rows than the default limit, and each further one about MAX_BYTES_AT_ONCE, after the last row.
 * @throws ApiError 400 INVALID_CURSOR; 400 OUT_OF_RANGE if a page by number is too large
 */
export async function readPage(
  resource: Resource,
  connection: Connection,
  query: ListQuery,
  scope: Omit<PageScope, 'size'>,
): Promise<Page> {
  const { select } = resource
  const { limit, sorts } = query
  const page: Page = { rows: [], hasMore: false, bytes: 0, total: undefined }
  const { rows } = page
  let { position } = scope
  // One more row shows whether another page follows.
  let size = limit < select.largePage ? limit + 1 : DEFAULT_LIMIT + 1
  for (;;) {
    const found = await select.page(connection, query, { ...scope, position, size })
    page.total ??= found.total
    for (const row of found.rows) {
      const bytes = select.estimateRowBytes(row)
      const isTooLarge = rows.length > 0 && page.bytes + bytes > MAX_PAGE_BYTES
      if (isTooLarge && rows.length < limit && query.page !== undefined) {
        const message = `is too large: only ${rows.length} of these resources fit into one response; use a smaller limit or cursors`
        throw invalidQuery([{ field: 'limit', message, code: 'OUT_OF_RANGE' }])
      }
      if (isTooLarge || rows.length === limit) return { ...page, hasMore: true }
      rows.push(row)
      page.bytes += bytes
    }
    const last = rows.at(-1)
    if (!last || found.rows.length < size) return page
    position = readPosition(resource, sorts, last)
    const fitting = Math.max(1, Math.floor((MAX_BYTES_AT_ONCE * rows.length) / page.bytes))
    size = Math.min(limit + 1 - rows.length, fitting)
  }
}
