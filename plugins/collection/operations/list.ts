/** GET on a collection: a page of resources. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Connection } from '../../../drizzle/client/types.ts'
import { requireCredential } from '../../access/guards.ts'
import { getLifetime } from '../../admission/request-lifetime.ts'
import { buildWeakTag, isNotModified, sendNotModified } from '../../http/preconditions.ts'
import { BYTES_PER_COST, countReplyBytes } from '../../rate-limit/cost.ts'
import type { Pagination } from '../../versioning/representation/types.ts'
import { createCursors } from '../cursors.ts'
import type { ListHandler } from '../handlers.ts'
import type { ListQuery } from '../query.ts'
import { DEFAULT_LIMIT } from '../reply-size.ts'
import { listComparedRelations } from '../request/filters.ts'
import { createListQuery, getListIdentity } from '../request/list-query.ts'
import { checkQuery, createCheckRole } from '../request/query-check.ts'
import { ensureParent, type ResourceAddress, readAddress } from '../request/resource-address.ts'
import { largePages, MAX_BYTES_AT_ONCE, serializeInPieces, setLinks } from '../response/page-response.ts'
import { CACHE_CONTROL, getSerializer } from '../response/response-builder.ts'
import { readPosition } from '../sql/keyset.ts'
import { getReplica, type OperationContext } from './context.ts'
import { include } from './include.ts'
import { getListScope, hasChunks, type Page, type RowReader, readPage } from './read-page.ts'

/** @param reader reads the rows in the place of the engine */
export function createListHandler(
  { app, builder, options, resource }: OperationContext,
  reader?: RowReader,
): ListHandler {
  const { database } = app
  const { representation, publicUrl } = options
  const { select } = resource
  const cursors = createCursors(options.cursorKey)
  const checkRole = createCheckRole(resource, createListQuery)

  const buildPagination = (query: ListQuery, page: Page, identity: string): Pagination => {
    const { total } = page
    if (total !== undefined && query.page !== undefined) {
      return { page: query.page, limit: query.limit, total, total_pages: Math.ceil(total / query.limit) }
    }
    const last = page.rows.at(-1)
    const end = page.hasMore && last ? readPosition(last, query.terms) : page.end
    return { cursor: end ? cursors.write(end, identity) : null, has_more: page.hasMore }
  }

  const listPage = async (
    request: FastifyRequest,
    reply: FastifyReply,
    { actor, parent: parentId }: ResourceAddress,
    query: ListQuery,
  ) => {
    // 2. The cursor (400), the credential for included relations (403).
    const identity = getListIdentity(resource.name, query.identity, parentId)
    const position = query.cursor ? cursors.read(query.cursor, identity) : undefined
    for (const required of query.requires) requireCredential(actor, required)

    // 3. The rows that the caller may read: one statement, or chunks.
    const scope = { ...getListScope(resource, actor, parentId), position }
    const { replicas } = database
    const getRelations = () => [...query.include, ...listComparedRelations(query)]
    const connection = (replicas && getReplica(replicas, resource, actor, getRelations())) ?? database
    let page: Page
    if (reader) {
      page = await reader.readPage(actor, query, position)
    } else if (query.page !== undefined && hasChunks(query)) {
      // All chunks of a page with a total are read in one snapshot, which no replica offers.
      const read = (tx: Connection) => readPage(select, tx, query, scope)
      page = await database.transaction(read, { isSnapshot: true })
    } else {
      page = await readPage(select, connection, query, scope)
    }
    const { rows } = page
    if (rows.length === 0) await ensureParent(database, resource, parentId)

    // 4. Their relations: one statement each.
    const names = query.include
    const included = names.length > 0 ? await include(connection, resource, rows, names, actor) : undefined
    const bytes = page.bytes + (included?.bytes ?? 0)
    if (bytes >= BYTES_PER_COST) await countReplyBytes(request, actor, bytes)

    // 5. The entity tag and preconditions (412, 304), before the headers: a 412 has none of those of a page.
    const pagination = buildPagination(query, page, identity)
    const revisions = rows.map(({ id, revision }) => `${id}/${revision}`).join()
    const shapeHash = builder.getShapeHash(request, query.fields, included)
    const tag = buildWeakTag([shapeHash, revisions, JSON.stringify(pagination)].join('|'))
    const isUnchanged = isNotModified(request, tag)

    // 6. The response. Fastify serializes it by the schema of the route, or a large one is serialized in pieces.
    reply.header('etag', tag).header('cache-control', CACHE_CONTROL)
    setLinks(request, reply, publicUrl, pagination, query.limit)
    if (isUnchanged) return sendNotModified(reply)
    const entities = rows.map((row, i) => resource.toEntity(row, actor, query.fields, included?.relations[i]))
    const body = representation.many(entities, pagination, included?.meta)
    if (bytes <= MAX_BYTES_AT_ONCE) return body
    reply.header('content-type', 'application/json; charset=utf-8')
    return serializeInPieces(getSerializer(reply, 200), body)
  }

  return async (request, reply) => {
    // 1. Caller (401), query string (400), the id of the parent in the path (404).
    const address = readAddress(resource, request)
    checkQuery(request, checkRole)
    const { query } = request
    const isLarge = reader ? query.limit > DEFAULT_LIMIT : hasChunks(query)
    if (!isLarge) return listPage(request, reply, address, query)
    const { credential, userId } = address.actor
    return largePages.run(
      credential === 'none' ? request.ip : userId,
      () => listPage(request, reply, address, query),
      getLifetime(reply.raw).onQueue,
    )
  }
}
