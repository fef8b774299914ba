/** Builds the body of a webhook: the event as the version of the endpoint represents it. */
import type { Actor } from '../access/index.ts'
import type { Resource } from '../collection/compile.ts'
import { toTimestamp } from '../collection/sql/row-mapper.ts'
import { canRead, getRoleRules, hideUnreadable } from '../events/readable.ts'
import type { EventMapper, EventRow, RepresentedEvent } from '../events/represent-event.ts'
import { type ClaimedDelivery, DISABLED, TEST_EVENT_TYPE } from './delivery-store.ts'
import { isOwnerRole } from './owners.ts'

/** The body, or why the event must not be sent. */
type Message = { body: string } | { refusal: string }

export type MessageBuilder = (delivery: ClaimedDelivery) => Message

interface MessageOptions {
  mapper: EventMapper
  /** The resources whose changes are events. */
  resources: readonly Resource[]
  /** Returns the versions of the API that are served now. */
  listServed(): readonly number[]
}

/** Returns the event of a test, which is not stored. */
function createTestEvent(delivery: ClaimedDelivery, endpoint: Record<string, unknown>): RepresentedEvent {
  return {
    id: delivery.event_id,
    position: null,
    type: TEST_EVENT_TYPE,
    resource_type: 'webhook-endpoints',
    resource_id: delivery.endpoint_id,
    revision: Number(endpoint.revision),
    columns: endpoint,
    previous: null,
    owner_id: delivery.owner_id,
    actor_id: null,
    credential: 'system',
    credential_id: null,
    request_id: null,
    created_at: delivery.created_at,
    updated_at: delivery.created_at,
  }
}

/** Returns the event with timestamps as in a row. */
const toRow = ({ event, event_created_at }: ClaimedDelivery): EventRow | undefined =>
  event && event_created_at !== null
    ? { ...event, created_at: event_created_at, updated_at: event_created_at }
    : undefined

export function createMessageBuilder({ mapper, resources, listServed }: MessageOptions): MessageBuilder {
  const rules = { admin: getRoleRules(resources, 'admin'), manager: getRoleRules(resources, 'manager') }

  return (delivery) => {
    const { api_version: version, endpoint, owner_id: userId, owner_role: role } = delivery
    if (delivery.endpoint_status !== 'enabled') return { refusal: DISABLED }
    if (delivery.owner_status !== 'active') return { refusal: 'the owner of the endpoint is not active' }
    if (!isOwnerRole(role)) return { refusal: 'the owner of the endpoint may no longer have webhooks' }
    if (!listServed().includes(version))
      return { refusal: `version ${version} of the API is no longer served` }
    const row = endpoint ? createTestEvent(delivery, endpoint) : toRow(delivery)
    if (!row) return { refusal: 'the event was removed' }
    // The owner reads events as with an access token.
    const owner: Actor = { userId, role, scopes: new Set(['*']), credential: 'token' }
    if (!canRead(rules[role], row, owner)) {
      return { refusal: 'the owner of the endpoint may not read the event' }
    }
    const data = mapper.toData(hideUnreadable(rules[role], row, owner), owner, version)
    return { body: JSON.stringify({ type: row.type, timestamp: toTimestamp(row.created_at), data }) }
  }
}
