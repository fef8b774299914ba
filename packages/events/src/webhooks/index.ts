/** Webhooks: creates deliveries of events to endpoints, and sends them. */

import { identity } from '@resource-api/database'
import { BackgroundTask, release } from '@resource-api/database/internal'
import { createConfiguredBox, listServed, type RunConfig, type SecretBox } from '@resource-api/http/internal'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { POLL_INTERVAL_MS } from '../events/feed.ts'
import { createAttempt } from './attempt.ts'
import { deliveryChannel } from './channels.ts'
import { createUrlRules } from './delivery/addresses.ts'
import { createWebhookSender } from './delivery/sender.ts'
import { createDeliveryStep, endDisabled, MAX_ENDED, pruneDeliveries } from './delivery-store.ts'
import { createDispatcher } from './dispatcher.ts'
import { countEndpoints, createDisabling, type EndpointCounts, reencryptSecrets } from './endpoint-store.ts'
import { createReplays } from './replay-store.ts'

export type WebhookConfig = Pick<RunConfig, 'APP_SECRET' | 'APP_SECRET_PREVIOUS' | 'NODE_ENV'> &
  Pick<RunConfig, 'WEBHOOK_CONCURRENCY' | 'WEBHOOK_PRIVATE_ADDRESSES' | 'WEBHOOK_TIMEOUT'>

interface Webhooks {
  /** Encrypts the secrets of endpoints. */
  secretBox: SecretBox
  /** Removes old deliveries, and encrypts secrets with the current key. */
  maintain(): Promise<void>
  /** Returns for how many seconds an endpoint has waited that is neither slow nor failing; -1 after a failure. */
  getLongestWait(): number
  /** Returns how many endpoints and owners there were when they were last counted; undefined after a failure. */
  getCounts(): EndpointCounts | undefined
  /** Claims no more deliveries, and waits for the statements that run. Attempts go on. */
  pause(): Promise<void>
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Only with EVENTS. */
    webhooks: Webhooks
  }
}

/** How often endpoints are counted for metrics, and deliveries of disabled ones are ended. */
const COUNT_INTERVAL_MS = 5_000
/** Pause while there is more to do. */
const PAUSE_MS = 5
/** Pause after a failure of the database. */
const RETRY_DELAY_MS = 1_000
/** Milliseconds in which attempts may end at a shutdown; then they are canceled, and made again later. */
const SHUTDOWN_MS = 10_000

async function webhooks(app: FastifyInstance, config: WebhookConfig) {
  const { database, events, feed, log, outbox } = app
  // Without events there is nothing to send.
  if (!feed) return
  const { mapper, resources } = events
  const { WEBHOOK_CONCURRENCY: concurrency, WEBHOOK_TIMEOUT: timeoutMs } = config
  const { policy } = createUrlRules(config)
  const secretBox = createConfiguredBox(config, 'webhook secrets')
  const sender = createWebhookSender({ policy, timeoutMs })
  const dispatcher = createDispatcher({
    database,
    log,
    concurrency,
    timeoutMs,
    getPollInterval: feed.getPollInterval,
    attempt: createAttempt({
      ...{ database, sender, secretBox, mapper, resources },
      userAgent: `${identity.name}/${release}`,
      listServed: () => listServed(app.versions),
    }),
    disableEndpoint: createDisabling(app),
  })

  const { advance } = createReplays(resources)
  let replayed = { isOpen: false, hasMore: false }
  const replays = new BackgroundTask({
    async work() {
      replayed = await advance(database)
      if (replayed.hasMore) dispatcher.wake()
    },
    getDelay() {
      if (replayed.hasMore) return PAUSE_MS
      return replayed.isOpen ? POLL_INTERVAL_MS : feed.getPollInterval()
    },
    retryDelay: RETRY_DELAY_MS,
    onFailure: (err) => log.warn({ err }, 'a replay of webhooks could not be continued'),
  })

  let counts: EndpointCounts = { disabled: 0, owners: 0, failing_owners: 0 }
  let ended = 0
  const counting = new BackgroundTask({
    async work() {
      counts = await countEndpoints(database)
      ended = await endDisabled(database)
      for (let i = 0; i < ended; i++) deliveryChannel.publish({ result: 'failed' })
    },
    getDelay: () => (ended === MAX_ENDED ? PAUSE_MS : COUNT_INTERVAL_MS),
    retryDelay: RETRY_DELAY_MS,
    onFailure: (err) => log.warn({ err }, 'webhook endpoints could not be counted'),
  })

  const pause = async () => void (await Promise.all([dispatcher.pause(), replays.stop(), counting.stop()]))

  const maintain = async (isWanted?: () => boolean) => {
    await pruneDeliveries(database, isWanted)
    const secrets = await reencryptSecrets(database, secretBox)
    if (secrets === 0) return
    const remedy = 'set APP_SECRET_PREVIOUS to the former APP_SECRET'
    log.warn({ secrets }, `secrets of webhook endpoints cannot be decrypted: ${remedy}`)
  }
  app.repeat(maintain, 'old deliveries could not be deleted, or secrets not encrypted again')

  app.decorate('webhooks', {
    secretBox,
    maintain: () => maintain(),
    getLongestWait: dispatcher.getLongestWait,
    getCounts: () => (counting.hasFailed ? undefined : counts),
    pause,
  })
  feed.addBatchStep(createDeliveryStep(resources))
  feed.onAdvance(() => dispatcher.wake())
  // A commit may have created a replay, or a delivery without an event.
  outbox.subscribe(() => {
    dispatcher.readSoon()
    replays.wake()
  })
  app.addHook('onReady', async () => {
    for (const task of [dispatcher, replays, counting]) task.start()
  })
  app.addHook('preClose', pause)
  app.addHook('onClose', async () => {
    const timer = setTimeout(() => sender.close(), SHUTDOWN_MS)
    await dispatcher.stop().catch((err) => log.warn({ err }, 'the results of webhooks could not be stored'))
    clearTimeout(timer)
    sender.close()
  })
}

export default fp(webhooks, {
  name: 'webhooks',
  dependencies: ['database', 'background', 'events', 'outbox'],
})
