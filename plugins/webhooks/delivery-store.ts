/** The statements of deliveries: they are created, claimed, ended and deleted. Each serves many. */
import { sql } from 'drizzle-orm'
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import { webhookDeliveries, webhookReplays } from '../../drizzle/event-tables.ts'
import { getNextUpdatedAt } from '../../drizzle/expressions.ts'
import type { Role } from '../access/index.ts'
import { createPruning } from '../background/prune.ts'
import { buildReadableCondition, getRoleRules, type RecordedResource } from '../events/readable.ts'
import type { EventRow } from '../events/represent-event.ts'
import { type BatchStep, MAX_BATCH_BYTES } from '../events/sequencer.ts'
import type { SendResult } from './delivery/sender.ts'
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

/** The roles whose users may have endpoints. */
const OWNER_ROLES = ['admin', 'manager'] as const

type OwnerRole = (typeof OWNER_ROLES)[number]

export const isOwnerRole = (role: string): role is OwnerRole => OWNER_ROLES.some((each) => each === role)

/**
 * Builds the condition on rows of `events` that the owner of an endpoint may read.
 * @param resources those whose changes are events
 * @param owner the alias of the owner's row of `users`
 */
export const buildOwnerCondition = (resources: readonly RecordedResource[], owner: string): string => {
  const byRole = OWNER_ROLES.map((role) => {
    const isReadable = buildReadableCondition(resources, getRoleRules(resources, role), () => `${owner}.id`)
    return `(${owner}.role = '${role}' and ${isReadable})`
  })
  return `(${byRole.join(' or ')})`
}

/**
 * Creates deliveries in the transaction that assigns positions: none is lost, and no event has two for an endpoint. An
 * event that happened before its endpoint was created is not sent, although its position may be assigned later. An
 * endpoint that is being deleted is left out once it is: the lock waits for that.
 * @param resources those whose changes are events
 */
export function createDeliveryStep(resources: readonly RecordedResource[]): BatchStep {
  const statement = `insert into webhook_deliveries (endpoint_id, user_id, event_id, event_type, next_attempt_at)
    select e.id, u.id, events.id, events.type, clock_timestamp()
    from webhook_endpoints as e
    join users as u on u.id = e.user_id and u.status = 'active'
    join events on events.position > $1 and events.position <= $2 and events.created_at >= e.created_at
      and e.event_types ?| array['*', events.resource_type || '.*', events.type]
    where e.status = 'enabled' and ${buildOwnerCondition(resources, 'u')}
    for key share of e`
  return async (tx, { after, last }) => {
    await tx.run(statement, [after, last])
  }
}

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

/** What became of a claim. */
export interface Outcome {
  delivery: ClaimedDelivery
  status: 'pending' | 'succeeded' | 'failed'
  /** Milliseconds until the next attempt, for a delivery that is pending. */
  delayMs?: number | undefined
  /** Why the attempt was not made, or got no complete response. */
  error: string | null
  /** The response; undefined if no request was made, so that the attempt does not count. */
  sent?: SendResult
  /** Why the endpoint may have to be disabled. */
  disables?: 'gone' | 'exhausted'
}

/** Returns the members of `jsonb_to_recordset` in SAVE. Absent ones are NULL. */
const toResult = ({ delivery: { id, attempts }, status, delayMs, error, sent }: Outcome) => ({
  id,
  attempts,
  is_sent: sent !== undefined,
  status,
  delay_ms: delayMs,
  response_status: sent?.responseStatus,
  response_body: sent?.responseBody,
  error,
  duration_ms: sent?.durationMs,
})

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

export async function saveOutcomes(connection: Connection, outcomes: readonly Outcome[]): Promise<void> {
  if (outcomes.length > 0) await connection.run(SAVE, [JSON.stringify(outcomes.map(toResult))])
}

/** Changes neither `revision` nor `updated_at`, so that it writes no event. */
const SAVE_ENDPOINT = `update webhook_endpoints as e set
    last_delivered_at = case when $2::bigint is null then e.last_delivered_at else clock.now end,
    last_duration_ms = coalesce($2::bigint, e.last_duration_ms),
    failing_since = case when $3::boolean then coalesce(e.failing_since, clock.now) end
  from (select statement_timestamp() as now) as clock
  where e.id = $1 and ($2::bigint is not null or $3::boolean <> (e.failing_since is not null))`

/**
 * Stores what the latest attempts say about their endpoints: whether the last one failed, and how long the last one that
 * succeeded took. One statement each: one for all could deadlock with that of another process.
 */
export async function saveEndpoints(connection: Connection, outcomes: readonly Outcome[]): Promise<void> {
  const states = new Map<string, { isFailing: boolean; durationMs: number | null }>()
  for (const { delivery, status, sent } of outcomes) {
    if (!sent) continue
    const isFailing = status !== 'succeeded'
    const durationMs = isFailing ? (states.get(delivery.endpoint_id)?.durationMs ?? null) : sent.durationMs
    states.set(delivery.endpoint_id, { isFailing, durationMs })
  }
  await Promise.all(
    [...states].map(([id, { isFailing, durationMs }]) =>
      connection.run(SAVE_ENDPOINT, [id, durationMs, isFailing]),
    ),
  )
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

/** The ids are UUIDv7, so the least one of that time. A pending delivery of that age waits for an endpoint that is too slow. */
const until = sql`(lpad(to_hex((extract(epoch from now() - interval '30 days') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid`

const prunings = [webhookDeliveries, webhookReplays].map((table) =>
  createPruning({ table, column: table.id, until }),
)

/** Deletes deliveries and replays that were created more than 30 days ago. */
export async function pruneDeliveries(connection: Connection, isWanted?: () => boolean): Promise<void> {
  for (const prune of prunings) await prune(connection, isWanted)
}
