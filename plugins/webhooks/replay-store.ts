/** The statements of replays: which events they are about, and the creation of their deliveries. */
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { Connection, Database } from '../../drizzle/client/types.ts'
import { getNextUpdatedAt } from '../../drizzle/expressions.ts'
import type { RecordedResource } from '../events/readable.ts'
import { buildOwnerCondition, TEST_EVENT_TYPE } from './delivery-store.ts'

/** Events that one statement reads. */
const BATCH_SIZE = 1_000
/** Further deliveries are created while fewer have not been sent, so that new events do not wait behind a whole replay. */
const MAX_UNSENT = 500
/** Replays that are advanced in turn by one call. */
const MAX_REPLAYS = 5

type ReplayStatus = 'failed' | 'all'

/** What a replay is about. */
interface ReplayRange {
  endpoint_id: string
  since: string
  until: string
  status: ReplayStatus
}

interface OpenReplay extends ReplayRange {
  id: string
  queued: number
  sent: number
  reached_at: string | null
  is_enabled: boolean
  unsent: number
}

interface ReplayBatch {
  created: number
  /** The time of the last event that was read; null if there was none. */
  reached_at: string | null
}

/** Of one replay, which no other process advances at the same time. */
const LOCK_REPLAY = `select r.id, r.endpoint_id, r.since, r.until, r.status, r.queued, r.sent, r.reached_at,
    e.status = 'enabled' as is_enabled,
    (select count(*) from webhook_deliveries as d
      where d.replay_id = r.id and d.status = 'pending' and d.duration_ms is null) as unsent
  from webhook_replays as r join webhook_endpoints as e on e.id = r.endpoint_id
  where r.id = $1 and r.completed_at is null for update of r skip locked`

/** In the order of their ids; after the last one the first ones follow. */
const SELECT_OPEN = `select id from webhook_replays where completed_at is null
  order by id <= $1, id limit ${MAX_REPLAYS}`

const UPDATE = `update webhook_replays set queued = $2, sent = $3, total = greatest(total, $2), reached_at = $4,
    completed_at = case when $5::boolean then clock_timestamp() end, revision = revision + 1,
    updated_at = ${getNextUpdatedAt()}
  where id = $1`

const FIRST_ID = '00000000-0000-0000-0000-000000000000'

/** What the replays of one status read. */
interface ReplaySource {
  table: string
  /** The name of its rows in the conditions. */
  rows: string
  /** The columns with the id and the type of the event. */
  event: string
  /** Counts events. */
  count: string
  /** The condition on the rows that are read; $1 is the endpoint. */
  isRead: string
  /** The condition on those of them that are sent, over the endpoint `e` and its owner `u`. */
  isMeant: string
}

/** Builds the statements that count the events of a replay, and that create its next deliveries. $2 and $3 are the time. */
function buildStatements({ table, rows, event, count, isRead, isMeant }: ReplaySource) {
  const isInTime = `${isRead} and ${rows}.created_at >= $2 and ${rows}.created_at < $3`
  const isSent = `join webhook_endpoints as e on e.id = $1 join users as u on u.id = e.user_id where ${isMeant}`
  return {
    count: `select ${count} as count from (select * from ${table} where ${isInTime}) as ${rows} ${isSent}`,
    insert: `with ${rows} as (
        select * from ${table} where ${isInTime} and ($4::timestamptz is null or ${rows}.created_at > $4::timestamptz)
        order by ${rows}.created_at fetch first ${BATCH_SIZE} rows with ties
      ), created as (
        insert into webhook_deliveries (endpoint_id, user_id, event_id, event_type, next_attempt_at, replay_id)
        select distinct e.id, e.user_id, ${event}, statement_timestamp(), $5::uuid from ${rows} ${isSent}
        returning 1
      ) select (select count(*) from created) as created, max(created_at) as reached_at from ${rows}`,
  }
}

/**
 * Creates the functions for replays.
 * @param resources those whose changes are events
 */
export function createReplays(resources: readonly RecordedResource[]) {
  const statements = {
    failed: buildStatements({
      table: 'webhook_deliveries as failed',
      rows: 'failed',
      event: 'failed.event_id, failed.event_type',
      count: 'count(distinct failed.event_id)',
      isRead: `failed.endpoint_id = $1 and failed.status = 'failed' and failed.event_type <> '${TEST_EVENT_TYPE}'`,
      isMeant: 'true',
    }),
    all: buildStatements({
      table: 'events',
      rows: 'events',
      event: 'events.id, events.type',
      count: 'count(*)',
      isRead: 'true',
      isMeant: `e.event_types ?| array['*', events.resource_type || '.*', events.type]
        and ${buildOwnerCondition(resources, 'u')}`,
    }),
  }

  /** Creates the next deliveries of a replay. @returns whether it read any events, so that more may follow */
  async function advance(tx: Connection, id: string): Promise<boolean> {
    const [replay] = await queryRows<OpenReplay>(tx, LOCK_REPLAY, [id])
    if (!replay) return false
    const { endpoint_id, since, until, status, reached_at, is_enabled, unsent } = replay
    const isWaiting = is_enabled && unsent >= MAX_UNSENT
    let batch: ReplayBatch | undefined
    if (is_enabled && !isWaiting) {
      const params = [endpoint_id, since, until, reached_at, id]
      ;[batch] = await queryRows<ReplayBatch>(tx, statements[status].insert, params)
    }
    const { created = 0, reached_at: next = null } = batch ?? {}
    const hasRead = next !== null
    const queued = replay.queued + created
    const sent = replay.queued - unsent
    const isComplete = !hasRead && !isWaiting && unsent === 0
    if (isComplete || hasRead || sent !== replay.sent)
      await tx.run(UPDATE, [id, queued, sent, next ?? reached_at, isComplete])
    return hasRead
  }

  let last = FIRST_ID

  return {
    /** Returns the number of events that a replay would send. */
    async count(connection: Connection, { endpoint_id, since, until, status }: ReplayRange): Promise<number> {
      const params = [endpoint_id, since, until]
      const [row] = await queryRows<{ count: number }>(connection, statements[status].count, params)
      return row?.count ?? 0
    },

    /** Creates the next deliveries of open replays. @returns whether more may follow */
    async advance(database: Database): Promise<boolean> {
      const open = await queryRows<{ id: string }>(database, SELECT_OPEN, [last])
      let hasMore = false
      for (const { id } of open) {
        // Before: the next call continues after one that fails.
        last = id
        if (await database.transaction((tx) => advance(tx, id))) hasMore = true
      }
      return hasMore
    },
  }
}
