/** The statements of the dispatcher. Each serves many deliveries. */
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import { getNextUpdatedAt } from '../../drizzle/updated-at.ts'
import type { Role } from '../access/index.ts'
import type { EventRow } from '../events/represent-event.ts'
import { MAX_BATCH_BYTES } from '../events/sequencer.ts'
import type { DueEndpoint } from './places.ts'

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

/** Deliveries that one statement ends. */
export const MAX_ENDED = 10_000

const CLAIM = `with due as (
    select due.* from jsonb_each_text($1::jsonb) as wanted
    cross join lateral (
      select id, event_id from webhook_deliveries
      where endpoint_id = wanted.key::uuid and status = 'pending' and next_attempt_at <= now()
      order by next_attempt_at limit wanted.value::bigint for update skip locked
    ) as due
  ), fitting as (
    select id from (
      select due.id, sum(bytes) over (order by bytes, due.id) - bytes as bytes_before
      from due left join events on events.id = due.event_id
    ) as sized where coalesce(bytes_before, 0) < $3::bigint
  ), claimed as (
    update webhook_deliveries as d set attempts = d.attempts + 1, revision = d.revision + 1,
      next_attempt_at = statement_timestamp() + $2 * interval '1 millisecond',
      updated_at = ${getNextUpdatedAt('d.updated_at')}
    from fitting where d.id = fitting.id
    returning d.id, d.attempts, d.event_id, d.event_type, d.created_at, d.endpoint_id
  )
  select claimed.*, e.url, e.api_version, e.status as endpoint_status, e.secret_box,
    case when e.previous_secret_expires_at > now() then e.previous_secret_box end as previous_secret_box,
    e.user_id as owner_id, u.role as owner_role, u.status as owner_status,
    to_jsonb(events) as event, events.created_at as event_created_at,
    case when claimed.event_type = '${TEST_EVENT_TYPE}' then to_jsonb(e) end as endpoint
  from claimed
  join webhook_endpoints as e on e.id = claimed.endpoint_id
  join users as u on u.id = e.user_id
  left join events on events.id = claimed.event_id`

/**
 * Claims due deliveries: counts an attempt of each, and keeps other processes from it until the lease ends. Those of small
 * events come first, and the first one beyond 8 MiB is the last; the others stay due.
 * @param wanted how many of each endpoint at most
 * @param leaseMs the time after which other processes take the attempt for lost
 */
export const claim = (
  connection: Connection,
  wanted: Readonly<Record<string, number>>,
  leaseMs: number,
): Promise<ClaimedDelivery[]> =>
  queryRows<ClaimedDelivery>(connection, CLAIM, [JSON.stringify(wanted), leaseMs, MAX_BATCH_BYTES])

/** The result of an attempt, as it is stored. */
export interface StoredResult {
  id: string
  attempts: number
  /** Whether a request was made. Otherwise the attempt does not count. */
  is_sent: boolean
  status: 'pending' | 'succeeded' | 'failed'
  /** Milliseconds until the next attempt; null unless pending. */
  delay_ms: number | null
  response_status: number | null
  response_body: string | null
  error: string | null
  duration_ms: number | null
}

const RESULT_COLUMNS = ['response_status', 'response_body', 'error', 'duration_ms']

/** A claim that is given back leaves what the attempt before it has stored. */
const keepUnlessKnown = (column: string) =>
  `${column} = case when r.is_sent or r.error is not null then r.${column} else d.${column} end`

/**
 * Only of the attempt that was claimed: after its lease, another process may have begun the next one. A delivery that was
 * ended because its endpoint was disabled during the attempt gets the result all the same.
 */
const SAVE = `update webhook_deliveries as d
  set status = r.status, attempts = d.attempts - case when r.is_sent then 0 else 1 end,
    ${RESULT_COLUMNS.map(keepUnlessKnown).join(', ')},
    next_attempt_at = (statement_timestamp() at time zone 'UTC' + r.delay_ms * interval '1 millisecond') at time zone 'UTC',
    delivered_at = case when r.status = 'succeeded' then clock.now end, revision = d.revision + 1,
    updated_at = ${getNextUpdatedAt('d.updated_at')}
  from jsonb_to_recordset($1::jsonb) as r (id uuid, attempts bigint, is_sent boolean, status text, delay_ms float8,
    response_status bigint, response_body text, error text, duration_ms bigint),
    (select statement_timestamp() as now) as clock
  where d.id = r.id and d.attempts = r.attempts and d.status <> 'succeeded'`

export async function saveResults(connection: Connection, results: readonly StoredResult[]): Promise<void> {
  if (results.length > 0) await connection.run(SAVE, [JSON.stringify(results)])
}

/** What the latest attempts say about an endpoint. */
export interface EndpointState {
  id: string
  /** How long the latest successful attempt took; undefined if none succeeded. */
  durationMs: number | undefined
  /** Whether the latest attempt failed. */
  isFailing: boolean
}

/** Changes neither `revision` nor `updated_at`, so that it writes no event. */
const SAVE_ENDPOINT = `update webhook_endpoints as e set
    last_delivered_at = case when $2::bigint is null then e.last_delivered_at else clock.now end,
    last_duration_ms = coalesce($2::bigint, e.last_duration_ms),
    failing_since = case when $3::boolean then coalesce(e.failing_since, clock.now) end
  from (select statement_timestamp() as now) as clock
  where e.id = $1 and ($2::bigint is not null or $3::boolean <> (e.failing_since is not null))`

/** One statement each: one for all could deadlock with that of another process. */
export async function saveEndpoints(connection: Connection, states: readonly EndpointState[]): Promise<void> {
  const save = ({ id, durationMs, isFailing }: EndpointState) =>
    connection.run(SAVE_ENDPOINT, [id, durationMs ?? null, isFailing])
  await Promise.all(states.map(save))
}

/** Reads one delivery of each endpoint. */
const SELECT_DUE = `select endpoint.id, endpoint.user_id as owner_id, endpoint.failing_since is not null as is_failing,
    endpoint.last_duration_ms,
    (extract(epoch from first.next_attempt_at - clock_timestamp()) * 1000)::float8 as due_in_ms
  from webhook_endpoints as endpoint cross join lateral (
    select next_attempt_at from webhook_deliveries
    where endpoint_id = endpoint.id and status = 'pending' order by next_attempt_at limit 1
  ) as first
  where endpoint.status = 'enabled' and first.next_attempt_at <= now() + $1 * interval '1 millisecond'`

/**
 * Returns the endpoints that have due deliveries.
 * @param withinMs also those whose first delivery is due in this time
 */
export const readDue = (connection: Connection, withinMs: number): Promise<DueEndpoint[]> =>
  queryRows<DueEndpoint>(connection, SELECT_DUE, [withinMs])

const SELECT_COUNTS = `select count(*) filter (where disabled_reason is not null) as disabled,
    count(distinct user_id) filter (where status = 'enabled') as owners,
    count(distinct user_id) filter (where status = 'enabled' and failing_since is not null) as failing_owners
  from webhook_endpoints`

/** Counts for metrics. */
export interface EndpointCounts {
  /** The endpoints that the service has disabled. Those that their owners disabled have no reason. */
  disabled: number
  /** The users who have enabled endpoints, and those of them who have one that fails. */
  owners: number
  failing_owners: number
}

export async function countEndpoints(connection: Connection): Promise<EndpointCounts> {
  const [counts] = await queryRows<EndpointCounts>(connection, SELECT_COUNTS)
  if (!counts) throw new Error('An aggregate returned no row')
  return counts
}

export const DISABLED = 'the endpoint is disabled'

/** The array makes PostgreSQL look the deliveries up by their index, however many it expects. */
const END_DISABLED = `with ended as (
    update webhook_deliveries as d set status = 'failed', error = $1, next_attempt_at = null, revision = d.revision + 1,
      updated_at = ${getNextUpdatedAt('d.updated_at')}
    where d.id = any(array(
      select pending.id from webhook_endpoints as endpoint cross join lateral (
        select id from webhook_deliveries where endpoint_id = endpoint.id and status = 'pending'
        limit ${MAX_ENDED} for update skip locked
      ) as pending
      where endpoint.status = 'disabled' limit ${MAX_ENDED}
    )) returning 1
  ) select count(*) as count from ended`

/** Ends the deliveries that wait for disabled endpoints, up to 10,000. @returns their number */
export async function endDisabled(connection: Connection): Promise<number> {
  const [ended] = await queryRows<{ count: number }>(connection, END_DISABLED, [DISABLED])
  return ended?.count ?? 0
}
