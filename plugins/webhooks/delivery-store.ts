/** The statements of the dispatcher. Each serves many deliveries. */
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import { getNextUpdatedAt } from '../../drizzle/updated-at.ts'
import type { Role } from '../access/index.ts'
import type { EventRow } from '../events/represent-event.ts'

/** A delivery of which this process makes the next attempt, with what the attempt needs. */
export interface ClaimedDelivery {
  id: string
  /** The number of the attempt, from 1. No other process has this number. */
  attempts: number
  event_id: string
  event_type: string
  created_at: string
  endpoint_id: string
  url: string
  api_version: number
  endpoint_status: 'enabled' | 'disabled'
  failing_since: string | null
  secret_box: string
  /** Null if it has expired. */
  previous_secret_box: string | null
  owner_id: string
  owner_role: Role
  owner_status: string
  /** The event, with timestamps as `to_jsonb` writes them; null if it was removed, and for a test. */
  event: EventRow | null
  event_created_at: string | null
  /** The columns of the endpoint, for a test; otherwise null. */
  endpoint: Record<string, unknown> | null
}

export const TEST_EVENT_TYPE = 'webhook-endpoints.test'

/**
 * Each endpoint has an allowance, so that one with many due deliveries leaves room for the others: $1 by the id of the
 * endpoint, $2 for those that are not in $1. The candidates are locked by a second read: a lock in the lateral read would
 * lock rows that the limit then leaves out.
 */
const CLAIM = `with candidate as (
    select due.id from webhook_endpoints as endpoint
    left join jsonb_each_text($1::jsonb) as known on known.key = endpoint.id::text
    cross join lateral (
      select id, next_attempt_at from webhook_deliveries
      where endpoint_id = endpoint.id and status = 'pending' and next_attempt_at <= now()
      order by next_attempt_at limit coalesce(known.value::bigint, $2)
    ) as due
    order by due.next_attempt_at limit $3
  ), locked as (
    select id from webhook_deliveries
    where id = any(array(select id from candidate)) and status = 'pending' and next_attempt_at <= now()
    for update skip locked
  ), claimed as (
    update webhook_deliveries as d set attempts = d.attempts + 1, revision = d.revision + 1,
      next_attempt_at = statement_timestamp() + $4 * interval '1 millisecond',
      updated_at = ${getNextUpdatedAt('d.updated_at')}
    from locked where d.id = locked.id
    returning d.id, d.attempts, d.event_id, d.event_type, d.created_at, d.endpoint_id
  )
  select claimed.*, e.url, e.api_version, e.status as endpoint_status, e.failing_since, e.secret_box,
    case when e.previous_secret_expires_at > now() then e.previous_secret_box end as previous_secret_box,
    e.user_id as owner_id, u.role as owner_role, u.status as owner_status,
    to_jsonb(events) as event, events.created_at as event_created_at,
    case when claimed.event_type = '${TEST_EVENT_TYPE}' then to_jsonb(e) end as endpoint
  from claimed
  join webhook_endpoints as e on e.id = claimed.endpoint_id
  join users as u on u.id = e.user_id
  left join events on events.id = claimed.event_id`

interface ClaimLimits {
  /** How many deliveries may be claimed of endpoints, by their id. */
  allowances: Readonly<Record<string, number>>
  /** How many may be claimed of any other endpoint. */
  defaultAllowance: number
  /** How many may be claimed of all. */
  limit: number
  /** After this time, other processes take the attempt for lost. */
  leaseMs: number
}

/** Claims due deliveries: counts an attempt of each, and keeps other processes from it until the lease ends. */
export const claim = (
  connection: Connection,
  { allowances, defaultAllowance, limit, leaseMs }: ClaimLimits,
): Promise<ClaimedDelivery[]> =>
  queryRows<ClaimedDelivery>(connection, CLAIM, [
    JSON.stringify(allowances),
    defaultAllowance,
    limit,
    leaseMs,
  ])

/** Only of the attempt that was claimed: after its lease, another process may have begun the next one. */
const IS_CLAIMED = `d.id = r.id and d.attempts = r.attempts and d.status = 'pending'`

const RELEASE = `update webhook_deliveries as d
  set attempts = d.attempts - 1, revision = d.revision + 1, next_attempt_at = statement_timestamp(),
    updated_at = ${getNextUpdatedAt('d.updated_at')}
  from jsonb_to_recordset($1::jsonb) as r (id uuid, attempts bigint) where ${IS_CLAIMED}`

/** Gives up claims whose attempts have not begun. */
export async function release(
  connection: Connection,
  deliveries: readonly Pick<ClaimedDelivery, 'id' | 'attempts'>[],
): Promise<void> {
  if (deliveries.length === 0) return
  const claims = deliveries.map(({ id, attempts }) => ({ id, attempts }))
  await connection.run(RELEASE, [JSON.stringify(claims)])
}

/** The result of an attempt, as it is stored. */
export interface StoredResult {
  id: string
  attempts: number
  status: 'pending' | 'succeeded' | 'failed'
  /** Milliseconds until the next attempt; null unless pending. */
  delay_ms: number | null
  response_status: number | null
  response_body: string | null
  error: string | null
  duration_ms: number | null
}

const SAVE = `update webhook_deliveries as d
  set status = r.status, response_status = r.response_status, response_body = r.response_body, error = r.error,
    duration_ms = r.duration_ms,
    next_attempt_at = (statement_timestamp() at time zone 'UTC' + r.delay_ms * interval '1 millisecond') at time zone 'UTC',
    delivered_at = case when r.status = 'succeeded' then clock.now end, revision = d.revision + 1,
    updated_at = ${getNextUpdatedAt('d.updated_at')}
  from jsonb_to_recordset($1::jsonb) as r (id uuid, attempts bigint, status text, delay_ms float8,
    response_status bigint, response_body text, error text, duration_ms bigint),
    (select statement_timestamp() as now) as clock
  where ${IS_CLAIMED}`

export async function saveResults(connection: Connection, results: readonly StoredResult[]): Promise<void> {
  if (results.length > 0) await connection.run(SAVE, [JSON.stringify(results)])
}

/** What the latest attempts say about an endpoint. */
export interface EndpointState {
  id: string
  /** Whether an attempt succeeded. */
  hasDelivered: boolean
  /** Whether the latest attempt failed. */
  isFailing: boolean
}

/** Changes neither `revision` nor `updated_at`, so that it writes no event. */
const SAVE_ENDPOINT = `update webhook_endpoints as e set
    last_delivered_at = case when $2::boolean then clock.now else e.last_delivered_at end,
    failing_since = case when $3::boolean then coalesce(e.failing_since, clock.now) end
  from (select statement_timestamp() as now) as clock
  where e.id = $1 and ($2::boolean or $3::boolean <> (e.failing_since is not null))`

/** One statement each: one for all could deadlock with that of another process. */
export async function saveEndpoints(connection: Connection, states: readonly EndpointState[]): Promise<void> {
  const save = ({ id, hasDelivered, isFailing }: EndpointState) =>
    connection.run(SAVE_ENDPOINT, [id, hasDelivered, isFailing])
  await Promise.all(states.map(save))
}

const SELECT_STATE = `select (extract(epoch from min(first.next_attempt_at) - clock_timestamp()) * 1000)::float8 as due_in_ms,
    (select count(*) from webhook_endpoints where disabled_reason is not null) as disabled
  from webhook_endpoints as endpoint cross join lateral (
    select next_attempt_at from webhook_deliveries
    where endpoint_id = endpoint.id and status = 'pending' order by next_attempt_at limit 1
  ) as first`

/** What the dispatcher knows without claiming a delivery. */
export interface DeliveryState {
  /** The milliseconds until a delivery is due, negative if one is overdue; null if none is pending. */
  due_in_ms: number | null
  /** The number of endpoints that the service has disabled. Those that their owners disabled have no reason. */
  disabled: number
}

export async function readDeliveryState(connection: Connection): Promise<DeliveryState> {
  const [state] = await queryRows<DeliveryState>(connection, SELECT_STATE)
  if (!state) throw new Error('An aggregate returned no row')
  return state
}
