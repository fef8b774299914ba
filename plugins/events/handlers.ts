/** The handlers of events: the engine's list and read over the events that the caller may read, and the stream. */

import type { HandlerContext } from '../collection/definition.ts'
import {
  createOperationContext,
  type ListHandler,
  type ReadHandler,
} from '../collection/operations/context.ts'
import { createListHandler } from '../collection/operations/list.ts'
import { createReadHandler } from '../collection/operations/read.ts'
import type { RowReader } from '../collection/operations/read-page.ts'
import { MAX_PAGE_BYTES } from '../collection/reply-size.ts'
import { createNotFound } from '../collection/request/resource-address.ts'
import { toFeedPosition, toPosition } from './feed-state.ts'
import { readEvent } from './page.ts'
import { canRead, getReadableRules, hideUnreadable } from './readable.ts'
import { createStreamHandler } from './stream-handler.ts'

function createEventReader({ app, representation }: HandlerContext): RowReader {
  const { database, events, refusal } = app
  const { resource, resources, mapper } = events

  return {
    async readPage(actor, query, position) {
      const rules = getReadableRules(resources, actor)
      const isDescending = query.sorts[0]?.descending !== false
      const page = await events.readPage(database, {
        filters: query,
        reader: { rules, actor },
        from: position && toFeedPosition(position),
        isDescending,
        limit: query.limit,
        maxBytes: MAX_PAGE_BYTES,
      })
      return {
        rows: page.events.map((event) =>
          mapper.toRow(hideUnreadable(rules, event, actor), actor, representation.version, query.fields),
        ),
        hasMore: page.hasMore,
        bytes: page.bytes,
        total: undefined,
        // In the order of the feed, a consumer goes on from its end.
        end: isDescending ? undefined : toPosition(page.last),
      }
    },

    async readRow(actor, id) {
      const event = await readEvent(database, id)
      if (!event) throw createNotFound(resource, id)
      const rules = getReadableRules(resources, actor)
      if (!canRead(rules, event, actor)) throw refusal(() => createNotFound(resource, id))
      return mapper.toRow(hideUnreadable(rules, event, actor), actor, representation.version)
    },
  }
}

/** Creates the handlers of events in one version. */
export function createEventHandlers(handlerContext: HandlerContext): {
  list: ListHandler
  read: ReadHandler
} {
  const { app } = handlerContext
  const context = createOperationContext(app, handlerContext, app.events.resource)
  const reader = createEventReader(handlerContext)
  const list = createListHandler(context, reader)
  const stream = createStreamHandler(context)
  return {
    list: (request, reply) =>
      app.addressing.getAddress(request.raw).stream ? stream(request, reply) : list(request, reply),
    read: createReadHandler(context, reader),
  }
}
