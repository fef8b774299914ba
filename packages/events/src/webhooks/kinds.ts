/** The kinds of work of webhooks: deliveries, and the replays that create them. */
import { DELIVERY } from '@resource-api/database/tables'
import { createSlots, POLL_INTERVAL_MS, toErrorText, type WorkKind } from '@resource-api/work'
import type { FastifyInstance } from 'fastify'
import { type AttemptOptions, createAttempt, type DeliveryResult } from './attempt.ts'
import { attemptChannel, deliveryChannel } from './channels.ts'
import { type DeliveryDetails, loadDeliveries } from './delivery-store.ts'
import { createEndpointSlots } from './endpoint-slots.ts'
import { createDisabling, enabledEndpoints, saveEndpoints } from './endpoint-store.ts'
import type { createReplays } from './replay-store.ts'

/** A claim lasts this much longer than an attempt: the time of the quick ones before it, and in which its result is stored. */
const LEASE_MARGIN_MS = 30_000
/** After which time what failed because of the service is tried again. */
const RETRY_DELAY_MS = 5_000
/** The time of one step of a replay, and the pause before the next one. */
const STEP_TIMEOUT_MS = 60_000
const PAUSE_MS = 5
const MAX_REPLAYS = 5

export const REPLAY = 'replay'

/**
 * @param concurrency attempts at the same time
 * @param timeoutMs that an attempt may take
 */
export function createDeliveryKind(
  app: FastifyInstance,
  { concurrency, timeoutMs, ...options }: AttemptOptions & { concurrency: number; timeoutMs: number },
): WorkKind<DeliveryDetails, DeliveryResult> {
  const { database, log } = app
  const attempt = createAttempt(options)
  const disableEndpoint = createDisabling(app)
  return {
    name: DELIVERY,
    groups: enabledEndpoints,
    slots: createEndpointSlots(concurrency),
    // The sender ends each attempt by itself.
    timeoutMs: timeoutMs + LEASE_MARGIN_MS,
    leaseMs: timeoutMs + LEASE_MARGIN_MS,
    isPatient: true,
    // One that is pending then waits for an endpoint that is too slow.
    ...{ keepDays: 30, deletesWaiting: true },
    load: (rows) => loadDeliveries(database, rows),
    async run({ attempts }, { details }) {
      if (!details) throw new Error('The delivery has no endpoint')
      const result = await attempt(attempts, details)
      if (result.status !== 'pending') deliveryChannel.publish({ result: result.status })
      if (result.outcome)
        attemptChannel.publish({ result: result.status === 'succeeded' ? 'succeeded' : 'failed' })
      return result
    },
    // Nothing was sent. What is wrong with the service does not concern the owner of the endpoint.
    fail({ id }, err) {
      log.warn({ err, id }, 'a delivery of a webhook could not be attempted')
      return { status: 'pending', delayMs: RETRY_DELAY_MS, isUncounted: true }
    },
    async afterSave(ended) {
      const disablings = ended.map((each) => () => disableEndpoint(each))
      // What fails for one endpoint does not concern the others.
      for (const save of [() => saveEndpoints(database, ended), ...disablings])
        await save().catch((err) => log.warn({ err }, 'the state of an endpoint could not be stored'))
    },
  }
}

export function createReplayKind(
  { database, log, work }: FastifyInstance,
  { advance }: ReturnType<typeof createReplays>,
): WorkKind {
  return {
    name: REPLAY,
    slots: createSlots(MAX_REPLAYS),
    timeoutMs: STEP_TIMEOUT_MS,
    async run({ key }) {
      const { isComplete, hasRead } = await database.transaction((tx) => advance(tx, key ?? ''))
      if (isComplete) return { status: 'succeeded', isRemoved: true }
      if (hasRead) work.wake()
      return { status: 'pending', delayMs: hasRead ? PAUSE_MS : POLL_INTERVAL_MS, isUncounted: true }
    },
    fail({ key }, err) {
      log.warn({ err, replay_id: key }, 'a replay of webhooks could not be continued')
      return { status: 'pending', delayMs: RETRY_DELAY_MS, error: toErrorText(err) }
    },
  }
}
