/** The handlers of list and read. */
import type { Ajv } from 'ajv'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Connection } from '../../../drizzle/client/types.ts'
import { type Actor, allows, getRule, narrowRule, type Rule, requireCredential } from '../../access/index.ts'
import { getLifetime } from '../../admission/request-lifetime.ts'
import {
  buildStrongTag,
  buildWeakTag,
  isNotModified,
  needsPrimary,
  sendNotModified,
} from '../../http/preconditions.ts'
import type { Pagination } from '../../versioning/representation/types.ts'
import type { Resource } from '../compile.ts'
import type { CollectionOptions } from '../options.ts'
import { BYTES_PER_COST, countReplyBytes } from '../request/cost.ts'
import { createCursors } from '../request/cursor.ts'
import { createListReader, getListIdentity, type ListQuery } from '../request/list-query.ts'
import { createNotFound, createResourceAddresses, type ResourceAddress } from '../request/resource-address.ts'
import { createSelectionReader, EVERYTHING } from '../request/selection.ts'
import { createResponseBuilder, getSerializer } from '../response-builder.ts'
import { readPosition } from '../sql/keyset.ts'
import { toTimestamp } from '../sql/row-mapper.ts'
import type { VersionedResource } from '../versions/apply-version.ts'
import { include } from './include.ts'
import { largePages, MAX_BYTES_AT_ONCE, serializeInPieces } from './large-replies.ts'
import { buildLinks } from './links.ts'
import { hasChunks, type Page, readPage } from './page.ts'

const CACHE_CONTROL = 'private, no-cache'

/**
 * Returns the access rule of a list. Under a parent it is already known to whom the rows belong; PostgreSQL would
 * otherwise evaluate both conditions and sort all rows.
 */
function getListRule(resource: Resource, actor: Actor, parent: string | undefined): Rule {
  const rule = getRule(resource.access, 'list', actor)
  if (!resource.parent || parent === undefined) return rule
  return narrowRule(rule, resource.parent.member, parent.toLowerCase(), actor)
}

/** Creates the handlers of one resource in one version. */
export function createReadHandlers(
  versioned: VersionedResource,
  app: FastifyInstance,
  options: CollectionOptions,
  ajv: Ajv,
) {
  const { resource } = versioned
  const { representation, publicUrl } = options
  const { database, refusal, addressing } = app
  const { access, parent, select } = resource
  const addresses = createResourceAddresses(resource)
  const builder = createResponseBuilder(versioned, representation)
  const cursors = createCursors(options.cursorKey)
  const readListQuery = createListReader(ajv, versioned)
  const readSelection = createSelectionReader(ajv, versioned)

  /** Returns the replica for a request; undefined if the resource or one that it includes is read from the primary. */
  const getReplica = (actor: Actor, names: readonly string[]): Connection | undefined => {
    const read = [resource, ...names.map((name) => resource.relations[name]?.to)]
    return read.some((each) => each?.readsPrimary) ? undefined : database.replicas?.getReader(actor.userId)
  }

  const buildPagination = (query: ListQuery, page: Page, identity: string): Pagination => {
    const { total } = page
    if (total !== undefined && query.page !== undefined) {
      return { page: query.page, limit: query.limit, total, total_pages: Math.ceil(total / query.limit) }
    }
    const last = page.rows.at(-1)
    const hasNext = page.hasMore && last !== undefined
    return {
      cursor: hasNext ? cursors.write(readPosition(last, query.terms), identity) : null,
      has_more: page.hasMore,
    }
  }

  const setLinks = (request: FastifyRequest, reply: FastifyReply, pagination: Pagination, limit: number) => {
    const { form, path, query } = addressing.getAddress(request.raw)
    const links = buildLinks(`${publicUrl ?? ''}${form}${path}`, query, pagination, limit)
    // A deprecated version has set a link to its successor.
    const earlier = reply.getHeader('link')
    reply.header('link', earlier ? `${earlier}, ${links}` : links)
  }

  const listPage = async (
    request: FastifyRequest,
    reply: FastifyReply,
    { actor, parent: parentId }: ResourceAddress,
    query: ListQuery,
  ) => {
    const identity = getListIdentity(resource.name, query.identity, parentId)
    const position = query.cursor === undefined ? undefined : cursors.read(query.cursor, identity)
    for (const rule of query.requires) requireCredential(actor, rule)
    addresses.ensureUuids(parentId)

    const scope = { rule: getListRule(resource, actor, parentId), actor, parent: parentId }
    const connection = getReplica(actor, query.include) ?? database
    const readFrom = (from: Connection) => readPage(select, from, query, { ...scope, position })
    // All chunks of a page with a total are read in one snapshot, which no replica offers.
    const isSnapshot = query.page !== undefined && hasChunks(query)
    const page = await (isSnapshot ? database.transaction(readFrom, { isSnapshot }) : readFrom(connection))
    const { rows } = page
    if (rows.length === 0) await addresses.ensureParent(database, parentId)
    const names = query.include
    const included = names.length > 0 ? await include(connection, resource, rows, names, actor) : undefined
    const bytes = page.bytes + (included?.bytes ?? 0)
    if (bytes >= BYTES_PER_COST) await countReplyBytes(request, actor, bytes)

    const pagination = buildPagination(query, page, identity)
    const revisions = rows.map(({ id, revision }) => `${id}/${revision}`).join()
    const shapeHash = builder.getShapeHash(request, query.fields, included)
    const tag = buildWeakTag([shapeHash, revisions, JSON.stringify(pagination)].join('|'))
    // Before the headers: a 412 has none of those of a page.
    const isUnchanged = isNotModified(request, tag)
    reply.header('etag', tag).header('cache-control', CACHE_CONTROL)
    setLinks(request, reply, pagination, query.limit)
    if (isUnchanged) return sendNotModified(reply)
    const entities = rows.map((row, i) => resource.toEntity(row, actor, query.fields, included?.relations[i]))
    const body = representation.many(entities, pagination, included?.meta)
    if (bytes <= MAX_BYTES_AT_ONCE) return body
    reply.header('content-type', 'application/json; charset=utf-8')
    return serializeInPieces(getSerializer(reply, 200), body)
  }

  const list = async (request: FastifyRequest, reply: FastifyReply) => {
    const address = addresses.read(request)
    const query = readListQuery(request)
    if (!hasChunks(query)) return listPage(request, reply, address, query)
    const { credential, userId } = address.actor
    return largePages.run(
      credential === 'none' ? request.ip : userId,
      () => listPage(request, reply, address, query),
      getLifetime(reply.raw).onQueue,
    )
  }

  const read = async (request: FastifyRequest, reply: FastifyReply) => {
    const { actor, id, parent: parentId, hasQuery } = addresses.read(request)
    const { fields, include: names, requires } = hasQuery ? readSelection(request) : EVERYTHING
    for (const required of requires) requireCredential(actor, required)
    addresses.ensureUuids(id, parentId)

    const rule = getRule(access, 'read', actor)
    const find = async (connection: Connection) => {
      const row = await select.one(connection, id, { fields, include: names, rule, role: actor.role })
      if (!row || (parent && row[parent.member] !== parentId)) throw createNotFound(resource, id)
      if (!allows(rule, row, actor)) throw refusal(() => createNotFound(resource, id))
      const included = names.length > 0 ? await include(connection, resource, [row], names, actor) : undefined
      return { row, included }
    }
    const replica = needsPrimary(request) ? undefined : getReplica(actor, names)
    // A replica may lag behind: only the primary decides that a row does not exist or may not be read.
    const onReplica = replica && (await find(replica).catch(() => undefined))
    const { row, included } = onReplica ?? (await find(database))
    const rowBytes = select.maxRowBytes < BYTES_PER_COST ? 0 : select.estimateRowBytes(row)
    const bytes = rowBytes + (included?.bytes ?? 0)
    if (bytes >= BYTES_PER_COST) await countReplyBytes(request, actor, bytes)

    const tag = buildStrongTag(row.revision, builder.getShapeHash(request, fields, included))
    const updatedAt = included ? undefined : toTimestamp(row.updated_at)
    reply.header('etag', tag).header('cache-control', CACHE_CONTROL)
    if (updatedAt !== undefined) reply.header('last-modified', new Date(updatedAt).toUTCString())
    if (isNotModified(request, tag, updatedAt)) return sendNotModified(reply)
    const [relations] = included?.relations ?? []
    return representation.one(resource.toEntity(row, actor, fields, relations), included?.meta)
  }

  return { list, read }
}
