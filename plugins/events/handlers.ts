/** The handlers of `GET /events`, as a list or as a stream, and of `GET /events/{id}`. */
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Actor } from '../access/index.ts'
import { getLifetime } from '../admission/request-lifetime.ts'
import type { Handler, HandlerContext } from '../collection/options.ts'
import { MAX_PAGE_BYTES } from '../collection/reply-size.ts'
import { BYTES_PER_COST, countReplyBytes } from '../collection/request/cost.ts'
import { createCursors, invalidCursor } from '../collection/request/cursor.ts'
import {
  createListReader,
  getListIdentity,
  getQueryIdentity,
  type ListQuery,
} from '../collection/request/list-query.ts'
import { DEFAULT_LIMIT } from '../collection/request/parameters.ts'
import { createViolation } from '../collection/request/query-values.ts'
import { createNotFound, createResourceAddresses } from '../collection/request/resource-address.ts'
import { createSelectionReader, EVERYTHING } from '../collection/request/selection.ts'
import { largePages, MAX_BYTES_AT_ONCE, serializeInPieces } from '../collection/response/large-replies.ts'
import { setLinks } from '../collection/response/links.ts'
import {
  CACHE_CONTROL,
  createResponseBuilder,
  getSerializer,
} from '../collection/response/response-builder.ts'
import { toTimestamp } from '../collection/sql/row-mapper.ts'
import { ajv } from '../collection/validator.ts'
import { applyVersion } from '../collection/versions/apply-version.ts'
import { invalidQuery } from '../errors/index.ts'
import { buildStrongTag, buildWeakTag, isNotModified, sendNotModified } from '../http/preconditions.ts'
import { STREAM_TYPE } from '../versioning/accept.ts'
import { type EventPage, type FeedPosition, readEvent, readEventPage, readFeedState } from './page.ts'
import { canRead, getReadableRules, hideUnreadable } from './readable.ts'
import { BATCH_SIZE } from './streams.ts'

/** The order of the feed. Streams have no other. */
const FEED_ORDER = [{ name: 'position', descending: false }]

/** Parameters of a list that a stream does not have. */
const LIST_PARAMETERS = ['limit']

const isAscending = ({ sorts }: ListQuery) => sorts[0]?.descending === false

/** Creates the handlers of events in one version. */
export function createEventHandlers(context: HandlerContext): { list: Handler; read: Handler } {
  const { app, representation, publicUrl, cursorKey } = context
  const { database, addressing, refusal } = app
  const { resource, resources, mapper, streams } = app.events
  const versioned = applyVersion(resource, representation.version)
  const addresses = createResourceAddresses(resource)
  const builder = createResponseBuilder(versioned, representation)
  const cursors = createCursors(cursorKey)
  const readListQuery = createListReader(ajv, versioned)
  const readSelection = createSelectionReader(ajv, versioned)

  const getRules = (actor: Actor) => getReadableRules(resources, actor)

  /** @throws ApiError 400 INVALID_CURSOR */
  const readCursor = (cursor: string, identity: string): FeedPosition => {
    const [text = '', id = ''] = cursors.read(cursor, identity)
    const position = Number(text)
    if (!Number.isSafeInteger(position)) throw invalidCursor()
    return { position, id }
  }

  const writeCursor = ({ position, id }: FeedPosition, identity: string) =>
    cursors.write([String(position), id], identity)

  /** Returns the cursor after a page. In the order of the feed there always is one, from which a consumer goes on. */
  const buildCursor = (page: EventPage, query: ListQuery, identity: string): string | null => {
    const last = page.events.at(-1)
    if (page.hasMore && last) return writeCursor(last, identity)
    return isAscending(query) ? writeCursor(page.feed.last, identity) : null
  }

  const listPage = async (request: FastifyRequest, reply: FastifyReply, actor: Actor, query: ListQuery) => {
    const identity = getListIdentity(resource.name, query.identity, undefined)
    const from = query.cursor === undefined ? undefined : readCursor(query.cursor, identity)
    const rules = getRules(actor)
    const page = await readEventPage(database, {
      filters: query,
      reader: { resources, rules, userId: actor.userId },
      from,
      isDescending: !isAscending(query),
      limit: query.limit,
      maxBytes: MAX_PAGE_BYTES,
    })
    if (page.bytes >= BYTES_PER_COST) await countReplyBytes(request, actor, page.bytes)

    const pagination = { cursor: buildCursor(page, query, identity), has_more: page.hasMore }
    const positions = page.events.map(({ position }) => position).join()
    const shapeHash = builder.getShapeHash(request, query.fields)
    const tag = buildWeakTag([shapeHash, positions, JSON.stringify(pagination)].join('|'))
    const isUnchanged = isNotModified(request, tag)
    reply.header('etag', tag).header('cache-control', CACHE_CONTROL)
    // A page without events has no successor, although it has a cursor.
    const linked = page.hasMore ? pagination : { cursor: null, has_more: false }
    setLinks(request, reply, publicUrl, linked, query.limit)
    if (isUnchanged) return sendNotModified(reply)
    const entities = page.events.map((event) =>
      mapper.toEntity(hideUnreadable(rules, event, actor), actor, representation.version, query.fields),
    )
    const body = representation.many(entities, pagination)
    if (page.bytes <= MAX_BYTES_AT_ONCE) return body
    reply.header('content-type', 'application/json; charset=utf-8')
    return serializeInPieces(getSerializer(reply, 200), body)
  }

  /** @throws ApiError 400 for parameters that a stream does not have */
  const ensureStreamable = (request: FastifyRequest, query: ListQuery) => {
    const sent = new URLSearchParams(addressing.getAddress(request.raw).query)
    const refused = [...LIST_PARAMETERS, ...(isAscending(query) ? [] : ['sort', 'order'])].filter((name) =>
      sent.has(name),
    )
    if (refused.length === 0) return
    throw invalidQuery(
      refused.map((name) => createViolation(name, 'is not available for a stream', 'CONFLICTING_PARAMETERS')),
    )
  }

  /** Returns where a stream starts: after a cursor, or now; and the last position of the feed. */
  const findStart = async (request: FastifyRequest, query: ListQuery, identity: string) => {
    const { 'last-event-id': lastEventId } = request.headers
    // A client that reconnects sends the same query string again, with an older cursor.
    const cursor = typeof lastEventId === 'string' && lastEventId !== '' ? lastEventId : query.cursor
    const from = cursor === undefined ? undefined : readCursor(cursor, identity)
    const { last } = await readFeedState(database, from)
    // A process that has just started may not know the position yet.
    streams.advance(last)
    return { from: from ?? last, last }
  }

  /** Returns a function that counts a page of earlier events as a list of as many events is counted. */
  const createPageCounter = ({ routeOptions }: FastifyRequest, actor: Actor) => {
    const cost = routeOptions.config.getCost?.({ limit: BATCH_SIZE }) ?? 1
    return (bytes: number) => app.limits.countLater(actor, cost + Math.floor(bytes / BYTES_PER_COST))
  }

  const stream = async (request: FastifyRequest, reply: FastifyReply, actor: Actor, query: ListQuery) => {
    ensureStreamable(request, query)
    const identity = getListIdentity(
      resource.name,
      getQueryIdentity({ ...query, sorts: FEED_ORDER }),
      undefined,
    )
    streams.ensureRoom(actor.userId)
    const start = await findStart(request, query, identity)
    const isHead = request.method === 'HEAD'
    const body = isHead
      ? Readable.from([])
      : streams.open(
          {
            actor,
            headers: request.headers,
            filters: query,
            rules: getRules(actor),
            version: representation.version,
            fields: query.fields,
            identity,
            envelope: app.getErrorEnvelope(request.raw),
            requestId: request.id,
            ...start,
            countPage: createPageCounter(request, actor),
          },
          reply,
        )
    // The stream lasts as long as the client wants.
    if (!isHead) clearTimeout(request.timeout ?? undefined)
    reply
      .header('content-type', STREAM_TYPE)
      .header('cache-control', 'no-store, no-transform')
      .header('x-accel-buffering', 'no')
    // Not the reply: a promise of it would be pending, and the request at work, until the stream ends.
    return body
  }

  const list = async (request: FastifyRequest, reply: FastifyReply) => {
    const { actor } = addresses.read(request)
    const query = readListQuery(request)
    if (addressing.getAddress(request.raw).stream) return stream(request, reply, actor, query)
    if (query.limit <= DEFAULT_LIMIT) return listPage(request, reply, actor, query)
    return largePages.run(
      actor.userId,
      () => listPage(request, reply, actor, query),
      getLifetime(reply.raw).onQueue,
    )
  }

  const read = async (request: FastifyRequest, reply: FastifyReply) => {
    const { actor, id, hasQuery } = addresses.read(request)
    const { fields } = hasQuery ? readSelection(request) : EVERYTHING
    addresses.ensureUuids(id)
    const event = await readEvent(database, id)
    if (!event) throw createNotFound(resource, id)
    const rules = getRules(actor)
    if (!canRead(rules, event, actor)) throw refusal(() => createNotFound(resource, id))

    // Events never change.
    const tag = buildStrongTag(event.position, builder.getShapeHash(request, fields))
    const updatedAt = toTimestamp(event.updated_at)
    reply.header('etag', tag).header('cache-control', CACHE_CONTROL)
    reply.header('last-modified', new Date(updatedAt).toUTCString())
    if (isNotModified(request, tag, updatedAt)) return sendNotModified(reply)
    const shown = hideUnreadable(rules, event, actor)
    return representation.one(mapper.toEntity(shown, actor, representation.version, fields))
  }

  return { list, read }
}
