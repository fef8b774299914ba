/** What happens after changes: the feed of events, webhooks, and the project's work, jobs and consumers. */

import { readActor } from '@resource-api/accounts/internal'
import type { Connection } from '@resource-api/database'
import { getBuiltInName } from '@resource-api/database/application'
import { deriveKey, type RunConfig } from '@resource-api/http/config'
import { createCursors, getViewTag, isRecorded, type Resource } from '@resource-api/resources/internal'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import consumers, { type ConsumersOptions } from '../consumers/index.ts'
import jobs, { type JobsOptions } from '../jobs/index.ts'
import { addEventMetrics } from '../metrics.ts'
import webhooks, { type WebhookConfig } from '../webhooks/index.ts'
import ownWork, { type OwnWorkOptions } from '../work/index.ts'
import { listRelated, type RelatedResources } from './decisions.ts'
import { createFeed, type Feed } from './feed.ts'
import { beginInterruption, endInterruption, repeatInterruption, toPosition } from './feed-state.ts'
import { createPageReader, type ReadEventPage } from './page.ts'
import { ensureDecidable } from './readable.ts'
import { createEventMapper, type EventMapper } from './represent-event.ts'
import { removeOldEvents } from './retention.ts'
import { createStreamFormat } from './stream.ts'
import { EventStreams } from './streams.ts'

type FeedConfig = Pick<RunConfig, 'APP_SECRET' | 'EVENTS_RETENTION_DAYS' | 'EVENT_STREAMS'>

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

/** The feed: assigns positions, serves streams, and removes old events. Without EVENTS, it only ends the cursors. */
async function feedPlugin(app: FastifyInstance, config: FeedConfig) {
  const { database, log, outbox } = app
  const resource = app.resources.find(({ name }) => name === getBuiltInName('events'))
  const resources = app.resources.filter(isRecorded)
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
  const mapper = createEventMapper(
    resource,
    resources,
    app.versions.map(({ representation }) => representation),
  )
  const readPage = createPageReader(resources)
  const related = listRelated(resources)
  const cursors = createCursors(deriveKey(config.APP_SECRET, 'cursors'))
  const byName = new Map(resources.map((each) => [each.name, each]))
  const streams: EventStreams = new EventStreams({
    database,
    log,
    readPage,
    related,
    maxStreams: config.EVENT_STREAMS,
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

  const { EVENTS_RETENTION_DAYS: days } = config
  const removeOld = async (isWanted?: () => boolean) =>
    days === 0 ? 0 : removeOldEvents(database, days, isWanted)
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

const eventFeed = fp(feedPlugin, {
  name: 'events',
  dependencies: ['errors', 'database', 'background', 'limits', 'outbox', 'resources', 'shutdown'],
})

async function events(
  app: FastifyInstance,
  options: FeedConfig & WebhookConfig & OwnWorkOptions & JobsOptions & ConsumersOptions,
) {
  await app.register(eventFeed, options)
  await app.register(webhooks, options)
  await app.register(ownWork, options)
  await app.register(jobs, options)
  await app.register(consumers, options)
  if (app.addMetric) addEventMetrics(app, app.addMetric)
}

export default fp(events)
