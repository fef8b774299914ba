/** Webhooks: creates deliveries of events to endpoints, and sends them. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { webhookEndpoints } from '../../drizzle/event-tables.ts'
import { getNextUpdatedAt } from '../../drizzle/updated-at.ts'
import type { Resource } from '../collection/compile.ts'
import { SYSTEM_ORIGIN } from '../outbox/origin.ts'
import { changeRows } from '../outbox/recorder.ts'
import { createAttempt } from './attempt.ts'
import { createDeliveryStep } from './create-deliveries.ts'
import type { AddressPolicy } from './delivery/addresses.ts'
import type { SecretBox } from './delivery/secret-box.ts'
import { createWebhookSender } from './delivery/sender.ts'
import type { EndpointCounts } from './delivery-store.ts'
import { createDispatcher } from './dispatcher.ts'
import { createMessageBuilder } from './message.ts'
import { pruneDeliveries } from './prune.ts'
import { reencryptSecrets } from './reencrypt.ts'
import { createReplays } from './replay-store.ts'

interface WebhookOptions {
  /** The resources whose changes are events. */
  resources: readonly Resource[]
  /** Returns the versions of the API that are served now. */
  listServed(): readonly number[]
  policy: AddressPolicy
  secretBox: SecretBox
  /** Attempts at the same time. */
  concurrency: number
  /** Milliseconds that an attempt may take. */
  timeoutMs: number
  /** The value of the header `user-agent`. */
  userAgent: string
}

interface Webhooks {
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

/**
 * Only while the endpoint has the URL of the attempt. Unless $4, only if no attempt has succeeded for 5 days: `failing_since`
 * is the first failure after the latest success.
 */
const DISABLE = `update webhook_endpoints set status = 'disabled', disabled_reason = $2, revision = revision + 1,
    updated_at = ${getNextUpdatedAt()}
  where id = $1 and status = 'enabled' and url = $3 and ($4::boolean or failing_since <= now() - interval '5 days')`

const REASONS = {
  gone: 'The endpoint answered 410 Gone',
  exhausted: 'All attempts of a delivery failed, and none of any delivery succeeded for 5 days',
} as const

/** Milliseconds in which attempts may end at a shutdown; then they are canceled, and made again later. */
const SHUTDOWN_MS = 10_000

/** An enabled endpoint has no reason. */
const DISABLE_PREVIOUS = `json_build_object('status', 'enabled', 'disabled_reason', null)`

async function webhooks(app: FastifyInstance, options: WebhookOptions) {
  const { database, events, feed, log, outbox } = app
  // Without events there is nothing to send.
  if (!feed) return
  const { resources, listServed, policy, secretBox, concurrency, timeoutMs, userAgent } = options
  const sender = createWebhookSender({ policy, timeoutMs })
  const buildMessage = createMessageBuilder({ mapper: events.mapper, resources, listServed })

  const dispatcher = createDispatcher({
    database,
    log,
    concurrency,
    timeoutMs,
    attempt: createAttempt({ sender, secretBox, userAgent, buildMessage }),
    advanceReplays: createReplays(resources).advance,
    async disable({ endpoint_id: endpointId, url }, kind) {
      const reason = REASONS[kind]
      const [endpoint] = await changeRows<{ id: string }>(
        database,
        { recorders: outbox.recorders, origin: SYSTEM_ORIGIN },
        webhookEndpoints,
        'updated',
        {
          text: DISABLE,
          params: [endpointId, reason, url, kind === 'gone'],
          previous: DISABLE_PREVIOUS,
          returning: 'id',
        },
      )
      if (!endpoint) return
      outbox.publish()
      // The path and the query may contain a token.
      const { origin } = new URL(url)
      log.warn({ endpoint_id: endpointId, origin, reason }, 'a webhook endpoint was disabled')
    },
  })

  const maintain = async (isWanted?: () => boolean) => {
    await pruneDeliveries(database, isWanted)
    const failures = await reencryptSecrets(database, secretBox)
    if (failures === 0) return
    log.warn(
      { secrets: failures },
      'secrets of webhook endpoints cannot be decrypted: set APP_SECRET_PREVIOUS to the former APP_SECRET',
    )
  }
  app.repeat(maintain, 'old deliveries could not be deleted, or secrets not encrypted again')

  app.decorate('webhooks', {
    maintain: () => maintain(),
    getLongestWait: dispatcher.getLongestWait,
    getCounts: dispatcher.getCounts,
    pause: dispatcher.pause,
  })
  feed.addBatchStep(createDeliveryStep(resources))
  feed.onAdvance(() => dispatcher.wake())
  app.addHook('onReady', async () => dispatcher.start())
  app.addHook('preClose', async () => dispatcher.pause())
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
