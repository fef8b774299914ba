/** The statements of deliveries: they are created, claimed, ended and deleted. Each serves many. */
import { type Connection, nextUpdatedAt, prepare, users } from '@resource-api/database'
import { getBuiltInName } from '@resource-api/database/application'
import {
  webhookDeliveries as deliveries,
  webhookEndpoints as endpoints,
  events,
  type Role,
  staff,
  toNames,
  webhookReplays,
} from '@resource-api/database/internal'
import { createPruning } from '@resource-api/http/internal'
import { and, or, type SQL, sql } from 'drizzle-orm'
import { alias, type PgColumn } from 'drizzle-orm/pg-core'
import { buildReadableCondition, getRoleRules, type RecordedResource } from '../events/readable.ts'
import type { EventRow } from '../events/represent-event.ts'
import { type BatchStep, MAX_BATCH_BYTES } from '../events/sequencer.ts'
import type { SendResult } from './delivery/sender.ts'

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

export const TEST_EVENT_TYPE = `${getBuiltInName('webhook-endpoints')}.test`

/** The roles whose users may have endpoints. */
export const OWNER_ROLES: readonly Role[] = ['admin', ...staff]

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

export const isEnabled = sql`${endpoints.status} = 'enabled'`

/** The condition that an endpoint asks for an event. */
export const isSubscribed = sql`${endpoints.event_types} ?| array['*', ${events.resource_type} || '.*', ${events.type}]`

/** The columns with values of a delivery that is created for an event. */
export const newDeliveryColumns = toNames(
  ...[deliveries.endpoint_id, deliveries.user_id, deliveries.event_id, deliveries.event_type],
  deliveries.next_attempt_at,
)

/**
 * Creates deliveries in the transaction that assigns positions: none is lost, and no event has two for an endpoint. An
 * event that happened before its endpoint was created is not sent, although its position may be assigned later. An
 * endpoint that is being deleted is left out once it is: the lock waits for that.
 * @param resources those whose changes are events
 */
export function createDeliveryStep(resources: readonly RecordedResource[]): BatchStep {
  const insertDeliveries = prepare((db) =>
    db.execute(sql`insert into ${deliveries} (${newDeliveryColumns})
      select ${endpoints.id}, ${owner.id}, ${events.id}, ${events.type}, clock_timestamp()
      from ${endpoints}
      join ${users} as ${owner} on ${owner.id} = ${endpoints.user_id} and ${owner.status} = 'active'
      join ${events} on ${events.position} > ${sql.placeholder('after')} and ${events.position} <= ${sql.placeholder('last')}
        and ${events.created_at} >= ${endpoints.created_at} and ${isSubscribed}
      where ${isEnabled} and ${buildOwnerCondition(resources)}
      for key share of ${endpoints}`),
  )
  return (tx, { after, last }) => insertDeliveries(tx, { after, last })
}

export const isPendingOf = (endpointId: SQL | PgColumn) =>
  sql`${deliveries.endpoint_id} = ${endpointId} and ${deliveries.status} = 'pending'`

const revise = { revision: sql`${deliveries.revision} + 1`, updated_at: nextUpdatedAt(deliveries) }

const claimDeliveries = prepare((db) => {
  const { id, attempts, event_id, event_type, created_at, endpoint_id } = deliveries
  const claim = db
    .update(deliveries)
    .set({
      ...revise,
      attempts: sql`${attempts} + 1`,
      next_attempt_at: sql`statement_timestamp() + ${sql.placeholder('leaseMs')} * interval '1 millisecond'`,
    })
    .from(sql`fitting`)
    .where(sql`${id} = fitting.due_id`)
    .returning({ id, attempts, event_id, event_type, created_at, endpoint_id })
  return db.execute<ClaimedDelivery>(sql`with due as (
      select due.* from jsonb_each_text(${sql.placeholder('wanted')}::jsonb) as wanted
      cross join lateral (
        select ${deliveries.id} as due_id, ${deliveries.event_id} from ${deliveries}
        where ${isPendingOf(sql`wanted.key::uuid`)} and ${deliveries.next_attempt_at} <= now()
        order by ${deliveries.next_attempt_at} limit wanted.value::bigint for update skip locked
      ) as due
    ), fitting as (
      select due_id from (
        select due_id, sum(${events.bytes}) over (order by ${events.bytes}, due_id) - ${events.bytes} as bytes_before
        from due left join ${events} on ${events.id} = due.event_id
      ) as sized where coalesce(bytes_before, 0) < ${sql.raw(String(MAX_BATCH_BYTES))}
    ), claimed as (${claim.getSQL()})
    select claimed.*, ${endpoints.url}, ${endpoints.api_version}, ${endpoints.status} as endpoint_status,
      ${endpoints.secret_box},
      case when ${endpoints.previous_secret_expires_at} > now() then ${endpoints.previous_secret_box} end as previous_secret_box,
      ${owner.id} as owner_id, ${owner.role} as owner_role, ${owner.status} as owner_status,
      to_jsonb(${events}) as event, ${events.created_at} as event_created_at,
      case when claimed.event_type = ${sql.raw(`'${TEST_EVENT_TYPE}'`)} then to_jsonb(${endpoints}) end as endpoint
    from claimed
    join ${endpoints} on ${endpoints.id} = claimed.endpoint_id
    join ${users} as ${owner} on ${owner.id} = ${endpoints.user_id}
    left join ${events} on ${events.id} = claimed.event_id`)
})

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
    .update(deliveries)
    .set({
      status: sql`r.status`,
      attempts: sql`${deliveries.attempts} - case when r.is_sent then 0 else 1 end`,
      response_status: keepUnlessKnown(deliveries.response_status, sql`r.response_status`),
      response_body: keepUnlessKnown(deliveries.response_body, sql`r.response_body`),
      error: keepUnlessKnown(deliveries.error, sql`r.error`),
      duration_ms: keepUnlessKnown(deliveries.duration_ms, sql`r.duration_ms`),
      next_attempt_at: sql`(statement_timestamp() at time zone 'UTC' + r.delay_ms * interval '1 millisecond') at time zone 'UTC'`,
      delivered_at: sql`case when r.status = 'succeeded' then clock.now end`,
      ...revise,
    })
    .from(results)
    .where(
      sql`${deliveries.id} = r.id and ${deliveries.attempts} = r.attempts and ${deliveries.status} <> 'succeeded'`,
    ),
)

export async function saveOutcomes(connection: Connection, outcomes: readonly Outcome[]): Promise<void> {
  if (outcomes.length > 0) await saveResults(connection, { results: JSON.stringify(outcomes.map(toResult)) })
}

export const DISABLED = 'the endpoint is disabled'

/** Deliveries that one statement ends. */
export const MAX_ENDED = 10_000
const maxEnded = sql.raw(String(MAX_ENDED))

/** The array makes PostgreSQL look the deliveries up by their index, however many it expects. */
const endDeliveries = prepare((db) => {
  const end = db
    .update(deliveries)
    .set({ ...revise, status: 'failed', error: DISABLED, next_attempt_at: null })
    .where(
      sql`${deliveries.id} = any(array(
        select pending.id from ${endpoints} cross join lateral (
          select ${deliveries.id} from ${deliveries} where ${isPendingOf(endpoints.id)}
          limit ${maxEnded} for update skip locked
        ) as pending
        where ${endpoints.status} = 'disabled' limit ${maxEnded}
      ))`,
    )
    .returning({ id: deliveries.id })
  return db.execute<{ count: number }>(
    sql`with ended as (${end.getSQL()}) select count(*) as count from ended`,
  )
})

/** Ends the deliveries that wait for disabled endpoints, up to 10,000. @returns their number */
export async function endDisabled(connection: Connection): Promise<number> {
  const [ended] = await endDeliveries(connection)
  return ended?.count ?? 0
}

/** The ids are UUIDv7, so the least one of that time. A pending delivery of that age waits for an endpoint that is too slow. */
const until = sql`(lpad(to_hex((extract(epoch from now() - interval '30 days') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid`

const prunings = [deliveries, webhookReplays].map((table) =>
  createPruning({ table, column: table.id, until }),
)

/** Deletes deliveries and replays that were created more than 30 days ago. */
export async function pruneDeliveries(connection: Connection, isWanted?: () => boolean): Promise<void> {
  for (const prune of prunings) await prune(connection, isWanted)
}
