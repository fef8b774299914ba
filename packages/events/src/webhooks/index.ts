/** Webhooks: creates deliveries of events to endpoints, and sends them. */

import { listServed } from '@resource-api/api/versions'
import { identity, release } from '@resource-api/database'
import { BackgroundTask } from '@resource-api/database/concurrency'
import { createConfiguredBox, type RunConfig, type SecretBox } from '@resource-api/http/config'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { deliveryChannel } from './channels.ts'
import { createUrlRules } from './delivery/addresses.ts'
import { createWebhookSender } from './delivery/sender.ts'
import { createDeliveryStep, endDisabled, MAX_ENDED } from './delivery-store.ts'
import { countEndpoints, type EndpointCounts, reencryptSecrets } from './endpoint-store.ts'
import { createDeliveryKind, createReplayKind } from './kinds.ts'
import { createReplays, pruneReplays } from './replay-store.ts'

export type WebhookConfig = Pick<RunConfig, 'APP_SECRET' | 'APP_SECRET_PREVIOUS' | 'NODE_ENV'> &
  Pick<RunConfig, 'WEBHOOK_CONCURRENCY' | 'WEBHOOK_PRIVATE_ADDRESSES' | 'WEBHOOK_TIMEOUT'>

interface Webhooks {
  /** Encrypts the secrets of endpoints. */
  secretBox: SecretBox
  /** Removes old replays, and encrypts secrets with the current key. */
  maintain(): Promise<void>
  /** Returns for how many seconds an endpoint has waited that is neither slow nor failing; -1 after a failure. */
  getLongestWait(): number
  /** Returns how many endpoints and owners there were when they were last counted; undefined after a failure. */
  getCounts(): EndpointCounts | undefined
  /** Counts no more. */
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
  const { database, events, feed, log, work } = app
  // Without events there is nothing to send.
  if (!feed) return
  const { mapper, resources } = events
  const { WEBHOOK_CONCURRENCY: concurrency, WEBHOOK_TIMEOUT: timeoutMs } = config
  const { policy } = createUrlRules(config)
  const secretBox = createConfiguredBox(config, 'webhook secrets')
  const sender = createWebhookSender({ policy, timeoutMs })
  const deliveries = createDeliveryKind(app, {
    ...{ concurrency, timeoutMs, database, sender, secretBox, mapper, resources },
    userAgent: `${identity.name}/${release}`,
    listServed: () => listServed(app.versions),
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

  const maintain = async (isWanted?: () => boolean) => {
    await pruneReplays(database, isWanted)
    const secrets = await reencryptSecrets(database, secretBox)
    if (secrets === 0) return
    const remedy = 'set APP_SECRET_PREVIOUS to the former APP_SECRET'
    log.warn({ secrets }, `secrets of webhook endpoints cannot be decrypted: ${remedy}`)
  }
  app.repeat(maintain, 'old replays could not be deleted, or secrets not encrypted again')

  app.decorate('webhooks', {
    secretBox,
    maintain: () => maintain(),
    getLongestWait: () => (work.hasFailed ? -1 : deliveries.slots.getLongestWait() / 1000),
    getCounts: () => (counting.hasFailed ? undefined : counts),
    pause: () => counting.stop(),
  })
  feed.addBatchStep(createDeliveryStep(resources))
  feed.onAdvance(() => work.wake())
  app.addHook('onReady', async () => {
    counting.start()
    await work.add(deliveries)
    await work.add(createReplayKind(app, createReplays(resources)))
  })
  app.addHook('preClose', () => app.webhooks.pause())
  app.addHook('onClose', async () => {
    const timer = setTimeout(() => sender.close(), SHUTDOWN_MS)
    await work.stop()
    clearTimeout(timer)
    sender.close()
  })
}

export default fp(webhooks, {
  name: 'webhooks',
  dependencies: ['database', 'background', 'events', 'outbox', 'work'],
})
