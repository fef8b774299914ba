/** Makes the attempt of a claimed delivery: decides whether the event may be sent, builds, signs and sends the message. */
import type { Actor } from '@resource-api/api/actor'
import type { Connection } from '@resource-api/database'
import { getBuiltInName } from '@resource-api/database/application'
import type { Role } from '@resource-api/database/roles'
import type { SecretBox } from '@resource-api/http/config'
import { type Resource, toTimestamp } from '@resource-api/resources/internal'
import type { WorkResult } from '@resource-api/work'
import { EventDecisions, listRelated } from '../events/decisions.ts'
import { getRoleRules, type ReadableRules } from '../events/readable.ts'
import type { EventMapper, RepresentedEvent } from '../events/represent-event.ts'
import { getRetryDelayMs } from './delivery/retry-schedule.ts'
import type { SendResult, WebhookSender } from './delivery/sender.ts'
import { signWebhook } from './delivery/signature.ts'
import { type DeliveryDetails, DISABLED, OWNER_ROLES, TEST_EVENT_TYPE } from './delivery-store.ts'

export interface AttemptOptions {
  database: Connection
  sender: WebhookSender
  secretBox: SecretBox
  /** The value of the header `user-agent`. */
  userAgent: string
  mapper: EventMapper
  /** The resources whose changes are events. */
  resources: readonly Resource[]
  /** Returns the versions of the API that are served now. */
  listServed(): readonly number[]
}

/** After which time a delivery is tried again that an operator's mistake keeps from being sent. */
const MISTAKE_DELAY_MS = 600_000

const GONE = 410

export interface DeliveryResult extends WorkResult {
  /** Why the endpoint may have to be disabled, if its URL is still this one. */
  disables?: { reason: 'gone' | 'exhausted'; url: string }
}

/** @param attempts how many were made, with this one */
function toResult(attempts: number, url: string, sent: SendResult): DeliveryResult {
  const { error, responseStatus, responseBody, durationMs, retryAfterMs } = sent
  const outcome = { code: responseStatus, text: responseBody, durationMs }
  const isSuccess = error === null && responseStatus !== null && responseStatus >= 200 && responseStatus < 300
  if (isSuccess) return { status: 'succeeded', error, outcome }
  if (responseStatus === GONE) return { status: 'failed', error, outcome, disables: { reason: 'gone', url } }
  const delayMs = getRetryDelayMs(attempts, retryAfterMs)
  if (delayMs !== null) return { status: 'pending', delayMs, error, outcome }
  return { status: 'failed', error, outcome, disables: { reason: 'exhausted', url } }
}

/** Returns the event of a delivery with timestamps as in a row; undefined if it was removed. That of a test is not stored. */
function getEvent(delivery: DeliveryDetails): RepresentedEvent | undefined {
  const { endpoint, endpoint_id, event, event_id, event_created_at, created_at, owner_id } = delivery
  if (!endpoint) {
    return event && event_created_at !== null
      ? { ...event, created_at: event_created_at, updated_at: event_created_at }
      : undefined
  }
  return {
    id: event_id,
    position: null,
    type: TEST_EVENT_TYPE,
    resource_type: getBuiltInName('webhook-endpoints'),
    resource_id: endpoint_id,
    revision: Number(endpoint.revision),
    columns: endpoint,
    previous: null,
    owner_id,
    actor_id: null,
    credential: 'system',
    credential_id: null,
    request_id: null,
    created_at,
    updated_at: created_at,
  }
}

/** Returns the function that makes the attempt of a delivery. It throws nothing after the request was sent. */
export function createAttempt(options: AttemptOptions) {
  const { database, sender, secretBox, userAgent, mapper, resources, listServed } = options
  const related = listRelated(resources)
  const rulesByRole = new Map<Role, ReadableRules>(
    OWNER_ROLES.map((role) => [role, getRoleRules(resources, role)]),
  )

  /** Returns the body: the event as the version of the endpoint represents it; or why it must not be sent. */
  const buildBody = async (delivery: DeliveryDetails): Promise<{ body: string } | { refusal: string }> => {
    const { api_version: version, owner_id: userId, owner_role: role } = delivery
    if (delivery.endpoint_status !== 'enabled') return { refusal: DISABLED }
    if (delivery.owner_status !== 'active') return { refusal: 'the owner of the endpoint is not active' }
    const rules = rulesByRole.get(role)
    if (!rules) return { refusal: 'the owner of the endpoint may no longer have webhooks' }
    if (!listServed().includes(version))
      return { refusal: `version ${version} of the API is no longer served` }
    const event = getEvent(delivery)
    if (!event) return { refusal: 'the event was removed' }
    // The owner reads events as with an access token.
    const owner: Actor = { userId, role, scopes: new Set(['*']), credential: 'token' }
    const reader = { rules, actor: owner }
    const decisions = new EventDecisions(related)
    await decisions.add(database, [reader], [event])
    if (!decisions.canRead(reader, event))
      return { refusal: 'the owner of the endpoint may not read the event' }
    const data = mapper.toData(decisions.hideUnreadable(reader, event), owner, version)
    return { body: JSON.stringify({ type: event.type, timestamp: toTimestamp(event.created_at), data }) }
  }

  /** Signs with both secrets during a rotation. @throws Error if a secret cannot be decrypted */
  const sign = (delivery: DeliveryDetails, timestampSeconds: number, body: string): string => {
    const { endpoint_id: endpointId, event_id: id, secret_box: box, previous_secret_box: previous } = delivery
    const boxes = previous === null ? [box] : [box, previous]
    const secrets = boxes.map((each) => secretBox.decrypt(each, endpointId))
    return signWebhook({ id, timestampSeconds, body, secrets })
  }

  return async (attempts: number, delivery: DeliveryDetails): Promise<DeliveryResult> => {
    const message = await buildBody(delivery)
    // It may be large, and the attempt long.
    delivery.event = null
    if ('refusal' in message) return { status: 'failed', error: message.refusal, isUncounted: true }
    const timestampSeconds = Math.floor(Date.now() / 1000)
    let signature: string
    try {
      signature = sign(delivery, timestampSeconds, message.body)
    } catch {
      const error = 'the secret of the endpoint cannot be decrypted'
      return { status: 'pending', delayMs: MISTAKE_DELAY_MS, isUncounted: true, error }
    }
    const sent = await sender.send({
      url: delivery.url,
      headers: {
        'content-type': 'application/json; charset=utf-8',
        'user-agent': userAgent,
        'webhook-id': delivery.event_id,
        'webhook-timestamp': String(timestampSeconds),
        'webhook-signature': signature,
      },
      body: message.body,
    })
    return toResult(attempts, delivery.url, sent)
  }
}
