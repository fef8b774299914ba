/** The handlers of events: the engine's list, export and read over the events that the caller may read, and the stream. */
import { Readable } from 'node:stream'
import { invalidQuery } from '@resource-api/api/errors'
import { checkRequest, createViolation } from '@resource-api/api/validation'
import { STREAM_TYPES } from '@resource-api/api/versions'
import { BYTES_PER_COST } from '@resource-api/http/internal'
import {
  createCursors,
  createListOrExportHandler,
  createNotFound,
  createReadHandler,
  getListIdentity,
  getQueryIdentity,
  type ListHandler,
  type ListQuery,
  MAX_PAGE_BYTES,
  type OperationContext,
  type ReadHandler,
  type RowReader,
  readAddress,
} from '@resource-api/resources/internal'
import type { FastifyRequest } from 'fastify'
import { EventDecisions } from './decisions.ts'
import { BATCH_SIZE } from './distributor.ts'
import { readLastPosition, toFeedPosition, toPosition } from './feed-state.ts'
import { readEvent } from './page.ts'
import { getReadableRules } from './readable.ts'

function createEventReader({ app }: OperationContext): RowReader {
  const { database, events, refusal } = app
  const { version } = app.resourceWriter
  const { resource, resources, related, mapper } = events

  return {
    async readPage(actor, query, position, bounds) {
      const eventReader = { rules: getReadableRules(resources, actor), actor }
      const isDescending = query.sorts[0]?.descending !== false
      const page = await events.readPage(database, {
        filters: query,
        reader: eventReader,
        from: position && toFeedPosition(position),
        isDescending,
        limit: query.limit,
        maxBytes: bounds?.maxBytes ?? MAX_PAGE_BYTES,
      })
      const end = bounds?.until ? toFeedPosition(bounds.until).position : Number.POSITIVE_INFINITY
      const found = page.events.filter(({ position: at }) => at <= end)
      const decisions = new EventDecisions(related)
      await decisions.add(database, [eventReader], found)
      return {
        rows: found.map((event) =>
          mapper.toRow(decisions.hideUnreadable(eventReader, event), actor, version, query.fields),
        ),
        hasMore: page.hasMore && found.length === page.events.length,
        bytes: page.bytes,
        total: undefined,
        // In the order of the feed, a consumer goes on from its end.
        end: isDescending ? undefined : toPosition(page.last),
      }
    },

    getRules(actor) {
      const rules = getReadableRules(resources, actor)
      return resources.map((source) => ({ source, rule: rules.get(source.name) ?? false }))
    },

    async readRow(actor, id) {
      const event = await readEvent(database, String(id))
      if (!event) throw createNotFound(resource, id)
      const eventReader = { rules: getReadableRules(resources, actor), actor }
      const decisions = new EventDecisions(related)
      await decisions.add(database, [eventReader], [event])
      if (!decisions.canRead(eventReader, event)) throw refusal(() => createNotFound(resource, id))
      return mapper.toRow(decisions.hideUnreadable(eventReader, event), actor, version)
    },
  }
}

/** The order of the feed. Streams have no other. */
const FEED_ORDER = [{ name: 'position', descending: false }]

/** Answers `GET /events` with `Accept: text/event-stream`. */
function createStreamHandler({ app, options, resource }: OperationContext): ListHandler {
  const { addressing, database, events, limits } = app
  const { streams, resources } = events
  const cursors = createCursors(options.cursorKey)

  /** @throws ApiError 400 for parameters that a stream does not have */
  const ensureStreamable = (request: FastifyRequest, { sorts }: ListQuery) => {
    const sent = new URLSearchParams(addressing.getAddress(request.raw).query)
    const absent = ['limit', ...(sorts[0]?.descending === false ? [] : ['sort', 'order'])]
    const violations = absent
      .filter((name) => sent.has(name))
      .map((name) => createViolation(name, 'is not available for a stream', 'CONFLICTING_PARAMETERS'))
    if (violations.length > 0) throw invalidQuery(violations)
  }

  /** Returns where a stream starts: after a cursor, or now; and the last position of the feed. */
  const findStart = async ({ headers }: FastifyRequest, query: ListQuery, identity: string) => {
    // A client that reconnects sends the same query string again, with an older cursor.
    const cursor = String(headers['last-event-id'] ?? '') || query.cursor
    const from = cursor ? toFeedPosition(cursors.read(cursor, identity)) : undefined
    const last = await readLastPosition(database, from)
    // A process that has just started may not know the position yet.
    streams.advance(last)
    return { from: from ?? last, last }
  }

  return async (request, reply) => {
    const { actor } = readAddress(resource, request)
    checkRequest(request)
    const { query } = request
    ensureStreamable(request, query)
    const queryIdentity = getQueryIdentity({ ...query, sorts: FEED_ORDER })
    const identity = getListIdentity(resource.name, queryIdentity, undefined)
    streams.ensureRoom(actor.userId)
    const start = await findStart(request, query, identity)
    // A page of earlier events is counted as a list of as many events.
    const pageCost = request.routeOptions.config.getCost?.({ limit: BATCH_SIZE }) ?? 1
    const streamOptions = {
      actor,
      request,
      filters: query,
      rules: getReadableRules(resources, actor),
      version: app.resourceWriter.version,
      fields: query.fields,
      identity,
      envelope: app.getErrorEnvelope(request.raw),
      requestId: request.id,
      ...start,
      countPage: (bytes: number) => limits.countLater(actor, pageCost + Math.floor(bytes / BYTES_PER_COST)),
    }
    const isHead = request.method === 'HEAD'
    const body = isHead ? Readable.from([]) : streams.open(streamOptions, reply)
    // The stream lasts as long as the client wants.
    if (!isHead) clearTimeout(request.timeout ?? undefined)
    reply
      .header('content-type', STREAM_TYPES.events)
      .header('cache-control', 'no-store, no-transform')
      .header('x-accel-buffering', 'no')
    // Not the reply: a promise of it would be pending, and the request at work, until the stream ends.
    return body
  }
}

/** Creates the handler of `GET /events`: a page, an export or a stream. */
export function createEventList(context: OperationContext): ListHandler {
  const { addressing } = context.app
  const listOrExport = createListOrExportHandler(context, createEventReader(context))
  const follow = createStreamHandler(context)
  return (request, reply) => {
    const { stream } = addressing.getAddress(request.raw)
    return stream === 'events' ? follow(request, reply) : listOrExport(request, reply)
  }
}

/** Creates the handler of `GET /events/{id}`. */
export const createEventRead = (context: OperationContext): ReadHandler =>
  createReadHandler(context, createEventReader(context))
