/** GET on a collection: a page of resources. */
import { requireCredential } from '@resource-api/api/access'
import { buildWeakTag, isNotModified, sendNotModified } from '@resource-api/api/preconditions'
import { getLifetime } from '@resource-api/api/requests'
import type { Pagination } from '@resource-api/api/results'
import type { Connection } from '@resource-api/database'
import { BYTES_PER_COST, countReplyBytes, getClientIp } from '@resource-api/http/internal'
import type { ListHandler } from '../definition/handlers.ts'
import type { ListQuery } from '../definition/query.ts'
import { createListQuery, getListIdentity, listComparedRelations } from '../request/list-query.ts'
import { checkQuery, createCheckRole } from '../request/query-check.ts'
import { ensureParent, type ResourceAddress, readAddress } from '../request/resource-address.ts'
import { largePages, MAX_BYTES_AT_ONCE, serializeInPieces, setLinks } from '../response/page-response.ts'
import { CACHE_CONTROL, showOnly } from '../response/response-builder.ts'
import { createCursors, type Position } from '../sql/cursors.ts'
import { readPosition } from '../sql/keyset.ts'
import { DEFAULT_LIMIT } from '../sql/reply-size.ts'
import { getReplica, type OperationContext } from './context.ts'
import { include } from './include.ts'
import { getListScope, type Page, type RowReader, readPage } from './read-page.ts'

/** @param reader reads the rows in the place of the engine */
export function createListHandler(
  { app, builder, options, resource }: OperationContext,
  reader?: RowReader,
): ListHandler {
  const { database } = app
  const { publicUrl } = options
  const cursors = createCursors(options.cursorKey)
  const checkRole = createCheckRole(resource, (view) => createListQuery(view, app.resourceWriter.mappings))
  const largePage = reader ? DEFAULT_LIMIT + 1 : resource.select.largePage

  const getConnection = ({ actor }: ResourceAddress, query: ListQuery): Connection => {
    const relations = [...query.include, ...listComparedRelations(query)]
    return (database.replicas && getReplica(database.replicas, resource, actor, relations)) ?? database
  }

  const readRows = (
    connection: Connection,
    { actor, parent }: ResourceAddress,
    query: ListQuery,
    position: Position | undefined,
  ): Promise<Page> => {
    if (reader) return reader.readPage(actor, query, position)
    const scope = { ...getListScope(resource, actor, parent), position }
    const read = (from: Connection) => readPage(resource, from, query, scope)
    // Several statements of a page with a total need one snapshot, which no replica offers.
    const needsSnapshot = query.page !== undefined && query.limit >= largePage
    return needsSnapshot ? database.transaction(read, { isSnapshot: true }) : read(connection)
  }

  const buildPagination = (query: ListQuery, page: Page, identity: string): Pagination => {
    const { total } = page
    if (total !== undefined && query.page !== undefined) {
      return { page: query.page, limit: query.limit, total, total_pages: Math.ceil(total / query.limit) }
    }
    const last = page.rows.at(-1)
    const end = page.hasMore && last ? readPosition(resource, query.sorts, last) : page.end
    return { cursor: end ? cursors.write(end, identity) : null, has_more: page.hasMore }
  }

  return async (request, reply) => {
    // 1. Caller (401), query string and cursor (400), the credential for included relations (403).
    const address = readAddress(resource, request)
    checkQuery(request, checkRole)
    const { query } = request
    const { actor, parent } = address
    const identity = getListIdentity(resource.name, query.identity, parent)
    const position = query.cursor ? cursors.read(query.cursor, identity) : undefined
    for (const required of query.requires) requireCredential(actor, required)

    const respond = async () => {
      // 2. The rows that the caller may read (400 OUT_OF_RANGE), or no parent (404).
      const connection = getConnection(address, query)
      const page = await readRows(connection, address, query, position)
      const { rows } = page
      if (rows.length === 0) await ensureParent(database, resource, parent)

      // 3. Their relations: one statement each.
      const names = query.include
      const included = names.length > 0 ? await include(connection, resource, rows, names, actor) : undefined
      const bytes = page.bytes + (included?.bytes ?? 0)
      if (bytes >= BYTES_PER_COST) await countReplyBytes(request, actor, bytes)

      // 4. The entity tag and preconditions (412, 304), before the headers: a 412 has none of those of a page.
      const pagination = buildPagination(query, page, identity)
      const revisions = rows.map(({ id, revision }) => `${id}/${revision}`).join()
      const shapeHash = builder.getShapeHash(request, query.shown ?? query.fields, included)
      const tag = buildWeakTag([shapeHash, revisions, JSON.stringify(pagination)].join('|'))
      const isUnchanged = isNotModified(request, tag)

      // 5. The page, which the version puts into its envelope; a large one is serialized in pieces.
      reply.header('etag', tag).header('cache-control', CACHE_CONTROL)
      setLinks(request, reply, publicUrl, pagination, query.limit)
      if (isUnchanged) return sendNotModified(reply)
      const entities = rows.map((row, i) =>
        showOnly(resource.toEntity(row, actor, query.fields, included?.relations[i]), query.shown),
      )
      const result = { entities, pagination, meta: included?.meta }
      if (bytes <= MAX_BYTES_AT_ONCE) return result
      reply.header('content-type', 'application/json; charset=utf-8')
      return serializeInPieces(reply, app.resourceWriter.toPage(result))
    }
    if (query.limit < largePage) return respond()
    const user = actor.credential === 'none' ? getClientIp(request) : actor.userId
    return largePages.run(user, respond, getLifetime(reply.raw).onQueue)
  }
}
