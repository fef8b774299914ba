/** Disables endpoints that want no more events, or that have failed for long. */
import { and, eq, sql } from 'drizzle-orm'
import type { FastifyInstance } from 'fastify'
import { webhookEndpoints } from '../../drizzle/event-tables.ts'
import { nextUpdatedAt } from '../../drizzle/expressions.ts'
import { SYSTEM_ORIGIN } from '../outbox/origin.ts'
import { changeRows } from '../outbox/recorder.ts'
import type { Outcome } from './delivery-store.ts'

/** Whether no attempt has succeeded for 5 days: `failing_since` is the first failure after the latest success. */
const HAS_FAILED_FOR_LONG = sql`${webhookEndpoints.failing_since} <= now() - interval '5 days'`

/** An enabled endpoint has no reason. */
const PREVIOUS = sql`json_build_object('status', 'enabled', 'disabled_reason', null)`

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
    const context = { connection: database, recorders: outbox.recorders, origin: SYSTEM_ORIGIN }
    const change = database
      .update(webhookEndpoints)
      .set({
        status: 'disabled',
        disabled_reason: reason,
        revision: sql`${webhookEndpoints.revision} + 1`,
        updated_at: nextUpdatedAt(webhookEndpoints),
      })
      .where(
        and(
          eq(webhookEndpoints.id, endpoint_id),
          eq(webhookEndpoints.status, 'enabled'),
          // The URL of the attempt.
          eq(webhookEndpoints.url, url),
          disables === 'gone' ? undefined : HAS_FAILED_FOR_LONG,
        ),
      )
    const [endpoint] = await changeRows(context, webhookEndpoints, 'updated', change, {
      previous: PREVIOUS,
      returning: { id: webhookEndpoints.id },
    })
    if (!endpoint) return
    outbox.publish()
    // The path and the query may contain a token.
    log.warn({ endpoint_id, origin: new URL(url).origin, reason }, 'a webhook endpoint was disabled')
  }
