/** The statements of replays: which events they are about, and the creation of their deliveries. */
import { type Connection, nextUpdatedAt, prepare, users } from '@resource-api/database'
import { events, toNames, webhookEndpoints, webhookReplays, work } from '@resource-api/database/tables'
import { createPruning, getUuidBefore } from '@resource-api/work'
import { and, eq, getTableColumns, gte, isNull, lt, type SQL, sql } from 'drizzle-orm'
import { alias, type PgColumn } from 'drizzle-orm/pg-core'
import type { RecordedResource } from '../events/readable.ts'
import {
  buildOwnerCondition,
  deliveryKind,
  isSubscribed,
  newDeliveryColumns,
  owner,
  TEST_EVENT_TYPE,
} from './delivery-store.ts'

/** Events that one statement reads. */
const BATCH_SIZE = 1_000
/** Further deliveries are created while fewer have not been sent, so that new events do not wait behind a whole replay. */
const MAX_UNSENT = 500

/** What a replay is about. */
interface ReplayRange {
  endpoint_id: string
  since: string
  until: string
  status: 'failed' | 'all'
}

type ReplayBatch = {
  created: number
  /** The time of the last event that was read; null if there was none. */
  reached_at: string | null
}

/** Of one replay. */
const lockReplay = prepare((db) =>
  db
    .select({
      ...getTableColumns(webhookReplays),
      is_enabled: sql<boolean>`${webhookEndpoints.status} = 'enabled'`.as('is_enabled'),
      unsent: sql<number>`(select count(*) from ${work}
        where ${work.replay_id} = ${webhookReplays.id} and ${work.status} = 'pending' and ${work.duration_ms} is null)`.as(
        'unsent',
      ),
    })
    .from(webhookReplays)
    .innerJoin(webhookEndpoints, eq(webhookEndpoints.id, webhookReplays.endpoint_id))
    .where(and(eq(webhookReplays.id, sql.placeholder('id')), isNull(webhookReplays.completed_at)))
    .for('update', { of: webhookReplays }),
)

/** Deletes replays that were created more than 30 days ago. */
export const pruneReplays = createPruning({
  table: webhookReplays,
  column: webhookReplays.id,
  until: getUuidBefore(30),
})

/** Deliveries that failed, beside those that are created. */
const failed = alias(work, 'failed')

const endpointId = sql`${sql.placeholder('endpoint_id')}::uuid`

interface ReplaySource {
  /** What is read, events or failed deliveries, and where from. */
  table: typeof events | typeof failed
  from: SQL
  eventId: PgColumn
  eventType: PgColumn
  /** The condition on the rows that are read, apart from the time. */
  isRead?: SQL
  /** The condition on those of them that are sent, over the endpoint and its owner. */
  isMeant?: SQL | undefined
}

/** Prepares the statements of one status: how many events a replay sends, and its next deliveries. */
function prepareReplay({ table, from, eventId, eventType, isRead, isMeant = sql`true` }: ReplaySource) {
  const createdAt = table.created_at
  const isInTime = and(
    isRead,
    gte(createdAt, sql.placeholder('since')),
    lt(createdAt, sql.placeholder('until')),
  )
  const ofEndpoint = sql`join ${webhookEndpoints} on ${webhookEndpoints.id} = ${endpointId}
    join ${users} as ${owner} on ${owner.id} = ${webhookEndpoints.user_id} where ${isMeant}`
  const reachedAt = sql`${sql.placeholder('reached_at')}::timestamptz`
  return {
    count: prepare((db) =>
      db.execute<{ count: number }>(sql`select count(distinct ${eventId}) as count
        from (select * from ${from} where ${isInTime}) as ${table} ${ofEndpoint}`),
    ),
    createDeliveries: prepare((db) =>
      db.execute<ReplayBatch>(sql`with ${table} as (
          select * from ${from} where ${isInTime} and (${reachedAt} is null or ${createdAt} > ${reachedAt})
          order by ${createdAt} fetch first ${sql.raw(String(BATCH_SIZE))} rows with ties
        ), created as (
          insert into ${work} (${newDeliveryColumns}, ${toNames(work.replay_id)})
          select distinct ${deliveryKind}, ${webhookEndpoints.id}, ${owner.id}, ${eventId}, ${eventType},
            ${table.bytes}, ${sql.placeholder('id')}::uuid from ${table} ${ofEndpoint}
          returning 1
        ) select (select count(*) from created) as created, max(${createdAt}) as reached_at from ${table}`),
    ),
  }
}

/**
 * Creates the functions for replays.
 * @param resources those whose changes are events
 */
export function createReplays(resources: readonly RecordedResource[]) {
  const statements = {
    failed: prepareReplay({
      table: failed,
      from: sql`${work} as ${failed}`,
      eventId: failed.event_id,
      eventType: failed.event_type,
      isRead: sql`${failed.endpoint_id} = ${endpointId} and ${failed.status} = 'failed'
        and ${failed.event_type} <> ${sql.raw(`'${TEST_EVENT_TYPE}'`)}`,
    }),
    all: prepareReplay({
      table: events,
      from: sql`${events}`,
      eventId: events.id,
      eventType: events.type,
      isMeant: and(isSubscribed, buildOwnerCondition(resources)),
    }),
  }

  return {
    /** Returns the number of events that a replay would send. */
    async count(connection: Connection, { status, ...range }: ReplayRange): Promise<number> {
      const [row] = await statements[status].count(connection, range)
      return row?.count ?? 0
    },

    /** Creates the next deliveries of a replay, in a transaction. @returns whether it is complete, and whether it read events */
    async advance(tx: Connection, id: string): Promise<{ isComplete: boolean; hasRead: boolean }> {
      const [replay] = await lockReplay(tx, { id })
      if (!replay) return { isComplete: true, hasRead: false }
      const { endpoint_id, since, until, status, reached_at, is_enabled, unsent } = replay
      const isWaiting = is_enabled && unsent >= MAX_UNSENT
      const range = { id, endpoint_id, since, until, reached_at }
      const [batch] = is_enabled && !isWaiting ? await statements[status].createDeliveries(tx, range) : []
      const { created = 0, reached_at: next = null } = batch ?? {}
      const hasRead = next !== null
      const queued = replay.queued + created
      const sent = replay.queued - unsent
      const isComplete = !hasRead && !isWaiting && unsent === 0
      if (isComplete || hasRead || sent !== replay.sent)
        await tx
          .update(webhookReplays)
          .set({
            ...{ queued, sent, reached_at: next ?? reached_at },
            total: Math.max(replay.total, queued),
            completed_at: isComplete ? sql`clock_timestamp()` : null,
            revision: sql`${webhookReplays.revision} + 1`,
            updated_at: nextUpdatedAt(webhookReplays),
          })
          .where(eq(webhookReplays.id, id))
      return { isComplete, hasRead }
    },
  }
}
