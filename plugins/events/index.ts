/** The event feed: assigns positions, serves streams, and removes old events. Without EVENTS, it only ends the cursors. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Connection } from '../../drizzle/client/types.ts'
import { readActor } from '../auth/index.ts'
import { createCursors } from '../collection/cursors.ts'
import type { Resource } from '../collection/resource.ts'
import { getViewTag } from '../collection/restrictions.ts'
import type { Representation } from '../versioning/representation/types.ts'
import { listRelated, type RelatedResources } from './decisions.ts'
import { createFeed, type Feed } from './feed.ts'
import { beginInterruption, endInterruption, repeatInterruption, toPosition } from './feed-state.ts'
import { createPageReader, type ReadEventPage } from './page.ts'
import { ensureDecidable } from './readable.ts'
import { createEventMapper, type EventMapper } from './represent-event.ts'
import { removeOldEvents } from './retention.ts'
import { createStreamFormat } from './stream.ts'
import { EventStreams } from './streams.ts'

interface EventsOptions {
  /** The compiled resource of events; undefined if they are not recorded. */
  resource: Resource | undefined
  /** The resources whose changes are recorded. */
  resources: readonly Resource[]
  representations: readonly Representation[]
  /** Signs cursors. */
  cursorKey: Buffer
  maxStreams: number
  /** Days after which events are removed; 0 keeps them all. */
  retentionDays: number
}

/** What the handlers of events use. */
interface Events extends Pick<Feed, 'assignAll' | 'getPendingAge' | 'stop'> {
  resource: Resource
  resources: readonly Resource[]
  related: RelatedResources
  mapper: EventMapper
  readPage: ReadEventPage
  streams: EventStreams
  /** Removes old events now. @returns their number */
  removeOld(): Promise<number>
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined without EVENTS. */
    feed: Feed | undefined
    /** Only with EVENTS, on which the routes of events depend. */
    events: Events
  }
}

async function events(app: FastifyInstance, options: EventsOptions) {
  const { resource, resources, representations, cursorKey, maxStreams, retentionDays } = options
  const { database, log, outbox } = app
  const interrupt = (change: (database: Connection) => PromiseLike<unknown>) => async () => {
    try {
      await change(database)
    } catch (err) {
      log.warn({ err }, 'cursors of events could not be ended')
    }
  }
  if (!resource) {
    app.decorate('feed', undefined)
    app.addHook('onReady', interrupt(beginInterruption))
    app.addHook('onClose', interrupt(repeatInterruption))
    return
  }
  ensureDecidable(resources)
  const feed = createFeed(database, log, () => streams.size > 0)
  const mapper = createEventMapper(resource, resources, representations)
  const readPage = createPageReader(resources)
  const related = listRelated(resources)
  const cursors = createCursors(cursorKey)
  const byName = new Map(resources.map((each) => [each.name, each]))
  const streams: EventStreams = new EventStreams({
    database,
    log,
    readPage,
    related,
    maxStreams,
    readActor,
    onOpen: feed.reschedule,
    format: createStreamFormat({
      mapper,
      writeCursor: (position, identity) => cursors.write(toPosition(position), identity),
      getViewTag(resourceType, actor) {
        const recorded = byName.get(resourceType)
        return recorded ? getViewTag(recorded, actor) : ''
      },
    }),
  })
  feed.onAdvance((last) => streams.advance(last))
  outbox.subscribe(() => feed.wake())

  const removeOld = async (isWanted?: () => boolean) =>
    retentionDays === 0 ? 0 : removeOldEvents(database, retentionDays, isWanted)
  app.repeat(removeOld, 'old events could not be removed')

  app.decorate('feed', feed)
  app.decorate('events', { ...feed, resource, resources, related, mapper, readPage, streams, removeOld })
  app.addHook('onReady', interrupt(endInterruption))
  app.addHook('onReady', async () => feed.start())
  app.addHook('preClose', async () => streams.closeAll())
  // Fastify runs onClose hooks in reverse order, so this one runs before the database closes.
  app.addHook('onClose', async () => {
    await Promise.all([feed.stop(), streams.stop()])
  })
}

export default fp(events, {
  name: 'events',
  dependencies: ['errors', 'database', 'background', 'limits', 'outbox', 'shutdown'],
})
