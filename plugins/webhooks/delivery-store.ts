/** The statements of deliveries: they are created, claimed, ended and deleted. Each serves many. */
import { and, eq, or, type SQL, sql } from 'drizzle-orm'
import { alias, type PgColumn } from 'drizzle-orm/pg-core'
import { prepare } from '../../drizzle/client/prepare.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import { events, webhookDeliveries, webhookEndpoints, webhookReplays } from '../../drizzle/event-tables.ts'
import { nextUpdatedAt, toNames } from '../../drizzle/expressions.ts'
import { users } from '../../drizzle/tables.ts'
import type { Role } from '../access/index.ts'
import { createPruning } from '../background/prune.ts'
import { buildReadableCondition, getRoleRules, type RecordedResource } from '../events/readable.ts'
import type { EventRow } from '../events/represent-event.ts'
import { type BatchStep, MAX_BATCH_BYTES } from '../events/sequencer.ts'
import type { SendResult } from './delivery/sender.ts'
import type { DueEndpoint } from './places.ts'

/** A delivery of which this process makes the next attempt, with what the attempt needs. */
export type ClaimedDelivery = {
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

/** The owner of an endpoint, in statements with events. */
export const owner = alias(users, 'owner')

/**
 * Builds the condition on rows of `events` that the owner of an endpoint may read.
 * @param resources those whose changes are events
 */
export const buildOwnerCondition = (resources: readonly RecordedResource[]): SQL | undefined =>
  or(
    ...OWNER_ROLES.map((role) =>
      and(
        sql`${owner.role} = ${sql.raw(`'${role}'`)}`,
        buildReadableCondition(resources, getRoleRules(resources, role), owner.id),
      ),
    ),
  )

const isEnabled = sql`${webhookEndpoints.status} = 'enabled'`

/** The condition that an endpoint asks for an event. */
export const isSubscribed = sql`${webhookEndpoints.event_types} ?| array['*', ${events.resource_type} || '.*', ${events.type}]`

/** The columns with values of a delivery that is created for an event. */
export const newDeliveryColumns = toNames(
  webhookDeliveries.endpoint_id,
  webhookDeliveries.user_id,
  webhookDeliveries.event_id,
  webhookDeliveries.event_type,
  webhookDeliveries.next_attempt_at,
)

/**
 * Creates deliveries in the transaction that assigns positions: none is lost, and no event has two for an endpoint. An
 * event that happened before its endpoint was created is not sent, although its position may be assigned later. An
 * endpoint that is being deleted is left out once it is: the lock waits for that.
 * @param resources those whose changes are events
 */
export function createDeliveryStep(resources: readonly RecordedResource[]): BatchStep {
  const insertDeliveries = prepare((db) =>
    db.execute(sql`insert into ${webhookDeliveries} (${newDeliveryColumns})
      select ${webhookEndpoints.id}, ${owner.id}, ${events.id}, ${events.type}, clock_timestamp()
      from ${webhookEndpoints}
      join ${users} as ${owner} on ${owner.id} = ${webhookEndpoints.user_id} and ${owner.status} = 'active'
      join ${events} on ${events.position} > ${sql.placeholder('after')} and ${events.position} <= ${sql.placeholder('last')}
        and ${events.created_at} >= ${webhookEndpoints.created_at} and ${isSubscribed}
      where ${isEnabled} and ${buildOwnerCondition(resources)}
      for key share of ${webhookEndpoints}`),
  )
  return (tx, { after, last }) => insertDeliveries(tx, { after, last })
}

/** Returns an assignment of UPDATE. */
const toTarget = (column: PgColumn, value: SQL) => sql`${toNames(column)} = ${value}`

const revise = sql`${toTarget(webhookDeliveries.revision, sql`${webhookDeliveries.revision} + 1`)},
  ${toTarget(webhookDeliveries.updated_at, nextUpdatedAt(webhookDeliveries))}`

const isPendingOf = (endpointId: SQL | PgColumn) =>
  sql`${webhookDeliveries.endpoint_id} = ${endpointId} and ${webhookDeliveries.status} = 'pending'`

const claimDeliveries = prepare((db) =>
  db.execute<ClaimedDelivery>(sql`with due as (
      select due.* from jsonb_each_text(${sql.placeholder('wanted')}::jsonb) as wanted
      cross join lateral (
        select ${webhookDeliveries.id} as id, ${webhookDeliveries.event_id} as event_id from ${webhookDeliveries}
        where ${isPendingOf(sql`wanted.key::uuid`)} and ${webhookDeliveries.next_attempt_at} <= now()
        order by ${webhookDeliveries.next_attempt_at} limit wanted.value::bigint for update skip locked
      ) as due
    ), fitting as (
      select id from (
        select due.id, sum(${events.bytes}) over (order by ${events.bytes}, due.id) - ${events.bytes} as bytes_before
        from due left join ${events} on ${events.id} = due.event_id
      ) as sized where coalesce(bytes_before, 0) < ${sql.raw(String(MAX_BATCH_BYTES))}
    ), claimed as (
      update ${webhookDeliveries} set ${toTarget(webhookDeliveries.attempts, sql`${webhookDeliveries.attempts} + 1`)}, ${revise},
        ${toTarget(webhookDeliveries.next_attempt_at, sql`statement_timestamp() + ${sql.placeholder('leaseMs')} * interval '1 millisecond'`)}
      from fitting where ${webhookDeliveries.id} = fitting.id
      returning ${webhookDeliveries.id} as id, ${webhookDeliveries.attempts} as attempts,
        ${webhookDeliveries.event_id} as event_id, ${webhookDeliveries.event_type} as event_type,
        ${webhookDeliveries.created_at} as created_at, ${webhookDeliveries.endpoint_id} as endpoint_id
    )
    select claimed.*, ${webhookEndpoints.url} as url, ${webhookEndpoints.api_version} as api_version,
      ${webhookEndpoints.status} as endpoint_status, ${webhookEndpoints.secret_box} as secret_box,
      case when ${webhookEndpoints.previous_secret_expires_at} > now()
        then ${webhookEndpoints.previous_secret_box} end as previous_secret_box,
      ${owner.id} as owner_id, ${owner.role} as owner_role, ${owner.status} as owner_status,
      to_jsonb(${events}) as event, ${events.created_at} as event_created_at,
      case when claimed.event_type = ${sql.raw(`'${TEST_EVENT_TYPE}'`)} then to_jsonb(${webhookEndpoints}) end as endpoint
    from claimed
    join ${webhookEndpoints} on ${webhookEndpoints.id} = claimed.endpoint_id
    join ${users} as ${owner} on ${owner.id} = ${webhookEndpoints.user_id}
    left join ${events} on ${events.id} = claimed.event_id`),
)

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
): Promise<ClaimedDelivery[]> => claimDeliveries(connection, { wanted: JSON.stringify(wanted), leaseMs })

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

/** Returns the columns of `results`. Absent ones are NULL. */
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

const results = sql`jsonb_to_recordset(${sql.placeholder('results')}::jsonb) as r (id uuid, attempts bigint,
  is_sent boolean, status text, delay_ms float8, response_status bigint, response_body text, error text,
  duration_ms bigint), (select statement_timestamp() as now) as clock`

/** A claim that is given back leaves what the attempt before it has stored. */
const keepUnlessKnown = (column: PgColumn, value: SQL) =>
  sql`case when r.is_sent or r.error is not null then ${value} else ${column} end`

/**
 * Only of the attempt that was claimed: after its lease, another process may have begun the next one. A delivery that was
 * ended because its endpoint was disabled during the attempt gets the result all the same.
 */
const saveResults = prepare((db) =>
  db
    .update(webhookDeliveries)
    .set({
      status: sql`r.status`,
      attempts: sql`${webhookDeliveries.attempts} - case when r.is_sent then 0 else 1 end`,
      response_status: keepUnlessKnown(webhookDeliveries.response_status, sql`r.response_status`),
      response_body: keepUnlessKnown(webhookDeliveries.response_body, sql`r.response_body`),
      error: keepUnlessKnown(webhookDeliveries.error, sql`r.error`),
      duration_ms: keepUnlessKnown(webhookDeliveries.duration_ms, sql`r.duration_ms`),
      next_attempt_at: sql`(statement_timestamp() at time zone 'UTC' + r.delay_ms * interval '1 millisecond') at time zone 'UTC'`,
      delivered_at: sql`case when r.status = 'succeeded' then clock.now end`,
      revision: sql`${webhookDeliveries.revision} + 1`,
      updated_at: nextUpdatedAt(webhookDeliveries),
    })
    .from(results)
    .where(
      sql`${webhookDeliveries.id} = r.id and ${webhookDeliveries.attempts} = r.attempts and ${webhookDeliveries.status} <> 'succeeded'`,
    ),
)

export async function saveOutcomes(connection: Connection, outcomes: readonly Outcome[]): Promise<void> {
  if (outcomes.length > 0) await saveResults(connection, { results: JSON.stringify(outcomes.map(toResult)) })
}

const duration = sql`${sql.placeholder('durationMs')}::bigint`
const isFailingNow = sql`${sql.placeholder('isFailing')}::boolean`

/** Changes neither `revision` nor `updated_at`, so that it writes no event. */
const saveEndpoint = prepare((db) =>
  db
    .update(webhookEndpoints)
    .set({
      last_delivered_at: sql`case when ${duration} is null then ${webhookEndpoints.last_delivered_at} else clock.now end`,
      last_duration_ms: sql`coalesce(${duration}, ${webhookEndpoints.last_duration_ms})`,
      failing_since: sql`case when ${isFailingNow} then coalesce(${webhookEndpoints.failing_since}, clock.now) end`,
    })
    .from(sql`(select statement_timestamp() as now) as clock`)
    .where(
      and(
        eq(webhookEndpoints.id, sql.placeholder('id')),
        sql`(${duration} is not null or ${isFailingNow} <> (${webhookEndpoints.failing_since} is not null))`,
      ),
    ),
)

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
  await Promise.all([...states].map(([id, state]) => saveEndpoint(connection, { id, ...state })))
}

/** Reads one delivery of each endpoint. */
const selectDue = prepare((db) =>
  db.execute<DueEndpoint>(sql`select ${webhookEndpoints.id} as id, ${webhookEndpoints.user_id} as owner_id,
      ${webhookEndpoints.failing_since} is not null as is_failing,
      ${webhookEndpoints.last_duration_ms} as last_duration_ms,
      (extract(epoch from first.next_attempt_at - clock_timestamp()) * 1000)::float8 as due_in_ms
    from ${webhookEndpoints} cross join lateral (
      select ${webhookDeliveries.next_attempt_at} as next_attempt_at from ${webhookDeliveries}
      where ${isPendingOf(webhookEndpoints.id)} order by ${webhookDeliveries.next_attempt_at} limit 1
    ) as first
    where ${isEnabled} and first.next_attempt_at <= now() + ${sql.placeholder('withinMs')} * interval '1 millisecond'`),
)

/**
 * Returns the endpoints that have due deliveries.
 * @param withinMs also those whose first delivery is due in this time
 */
export const readDue = (connection: Connection, withinMs: number): Promise<DueEndpoint[]> =>
  selectDue(connection, { withinMs })

const ofOwners = sql`count(distinct ${webhookEndpoints.user_id})`

const selectCounts = prepare((db) =>
  db
    .select({
      disabled: sql<number>`count(*) filter (where ${webhookEndpoints.disabled_reason} is not null)`.as(
        'disabled',
      ),
      owners: sql<number>`${ofOwners} filter (where ${isEnabled})`.as('owners'),
      failing_owners:
        sql<number>`${ofOwners} filter (where ${isEnabled} and ${webhookEndpoints.failing_since} is not null)`.as(
          'failing_owners',
        ),
    })
    .from(webhookEndpoints),
)

/** Counts for metrics. */
export interface EndpointCounts {
  /** The endpoints that the service has disabled. Those that their owners disabled have no reason. */
  disabled: number
  /** The users who have enabled endpoints, and those of them who have one that fails. */
  owners: number
  failing_owners: number
}

export async function countEndpoints(connection: Connection): Promise<EndpointCounts> {
  const [counts] = await selectCounts(connection)
  if (!counts) throw new Error('An aggregate returned no row')
  return counts
}

export const DISABLED = 'the endpoint is disabled'

/** Deliveries that one statement ends. */
export const MAX_ENDED = 10_000

const maxEnded = sql.raw(String(MAX_ENDED))

/** The array makes PostgreSQL look the deliveries up by their index, however many it expects. */
const endDeliveries = prepare((db) =>
  db.execute<{ count: number }>(sql`with ended as (
      update ${webhookDeliveries} set ${toTarget(webhookDeliveries.status, sql`'failed'`)},
        ${toTarget(webhookDeliveries.error, sql`${DISABLED}`)}, ${toTarget(webhookDeliveries.next_attempt_at, sql`null`)}, ${revise}
      where ${webhookDeliveries.id} = any(array(
        select pending.id from ${webhookEndpoints} cross join lateral (
          select ${webhookDeliveries.id} as id from ${webhookDeliveries} where ${isPendingOf(webhookEndpoints.id)}
          limit ${maxEnded} for update skip locked
        ) as pending
        where ${webhookEndpoints.status} = 'disabled' limit ${maxEnded}
      )) returning 1
    ) select count(*) as count from ended`),
)

/** Ends the deliveries that wait for disabled endpoints, up to 10,000. @returns their number */
export async function endDisabled(connection: Connection): Promise<number> {
  const [ended] = await endDeliveries(connection)
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
