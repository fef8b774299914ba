/** Disables endpoints that want no more events, or that have failed for long. */
import type { FastifyInstance } from 'fastify'
import { webhookEndpoints } from '../../drizzle/event-tables.ts'
import { getNextUpdatedAt } from '../../drizzle/expressions.ts'
import { SYSTEM_ORIGIN } from '../outbox/origin.ts'
import { changeRows } from '../outbox/recorder.ts'
import type { Outcome } from './delivery-store.ts'

/**
 * Only while the endpoint has the URL of the attempt. Unless $4, only if no attempt has succeeded for 5 days: `failing_since`
 * is the first failure after the latest success.
 */
const DISABLE = `update webhook_endpoints set status = 'disabled', disabled_reason = $2, revision = revision + 1,
    updated_at = ${getNextUpdatedAt()}
  where id = $1 and status = 'enabled' and url = $3 and ($4::boolean or failing_since <= now() - interval '5 days')`

/** An enabled endpoint has no reason. */
const PREVIOUS = `json_build_object('status', 'enabled', 'disabled_reason', null)`

const REASONS = {
  gone: 'The endpoint answered 410 Gone',
  exhausted: 'All attempts of a delivery failed, and none of any delivery succeeded for 5 days',
} as const

/** Creates the function that disables the endpoint of an attempt, as an event of the service, if the outcome says so. */
export const createDisabling =
  ({ database, log, outbox }: FastifyInstance) =>
  async ({ delivery: { endpoint_id, url }, disables }: Outcome): Promise<void> => {
    if (!disables) return
    const reason = REASONS[disables]
    const context = { recorders: outbox.recorders, origin: SYSTEM_ORIGIN }
    const [endpoint] = await changeRows<{ id: string }>(database, context, webhookEndpoints, 'updated', {
      text: DISABLE,
      params: [endpoint_id, reason, url, disables === 'gone'],
      previous: PREVIOUS,
      returning: 'id',
    })
    if (!endpoint) return
    outbox.publish()
    // The path and the query may contain a token.
    log.warn({ endpoint_id, origin: new URL(url).origin, reason }, 'a webhook endpoint was disabled')
  }
