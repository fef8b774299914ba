/** Removes old events in the order of their positions, in small batches, in one process at a time. */
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { Database } from '../../drizzle/client/types.ts'
import { publishRemoved } from './channels.ts'

const BATCH_SIZE = 500

/** Arbitrary; unique among the advisory locks of this service. */
const LOCK_ID = 1_701_209_711

const LOCK = 'select pg_try_advisory_xact_lock($1) as is_locked'

/**
 * The first event that is young enough ends a batch, so that none before `removed_position` is left. `event_feed` is
 * locked only for this statement, and the sequencer skips it for that time.
 */
const REMOVE = `with oldest as materialized (
    select id, position, created_at from events order by position limit ${BATCH_SIZE}
  ), old as materialized (
    select id, position from oldest
    where position < coalesce(
      (select min(position) from oldest where created_at >= clock_timestamp() - make_interval(days => $1::int)),
      9223372036854775807
    )
  ), removed as (
    delete from events using old where events.id = old.id returning 1
  ), feed as (
    update event_feed set removed_position = last.position, removed_id = last.id
    from (select position, id from old order by position desc limit 1) as last
    where event_feed.id = 1 and last.position > removed_position
  ) select count(*) as count from removed`

/** @returns the number of removed events; 0 while another process removes some */
const removeBatch = (database: Database, days: number): Promise<number> =>
  database.transaction(async (tx) => {
    const [lock] = await queryRows<{ is_locked: boolean }>(tx, LOCK, [LOCK_ID])
    if (!lock?.is_locked) return 0
    const [row] = await queryRows<{ count: number }>(tx, REMOVE, [days])
    return row?.count ?? 0
  })

/**
 * Removes events that are older than a number of days, until none is left or `isWanted` returns false.
 * @returns the number of removed events
 */
export async function removeOldEvents(
  database: Database,
  days: number,
  isWanted: () => boolean,
): Promise<number> {
  let count = 0
  for (let last = BATCH_SIZE; last === BATCH_SIZE && isWanted(); count += last) {
    last = await removeBatch(database, days)
  }
  if (count > 0) publishRemoved(count)
  return count
}
