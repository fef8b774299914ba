/** Removes old events in the order of their positions, in small batches, in one process at a time. */
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { Database } from '../../drizzle/client/types.ts'
import { deleteInBatches } from '../background/prune.ts'
import { publishRemoved } from './channels.ts'
import { MAX_BATCH_BYTES } from './sequencer.ts'

const BATCH_SIZE = 500

/** Keeps other processes from removing events, and the sequencer from assigning any, which it then does later. */
const LOCK_FEED = 'select 1 from event_feed where id = 1 for update'

/**
 * The first event that is young enough ends a batch, so that none before `removed_position` is left. One from the future,
 * of a time when the clock was wrong, does not if a later event is old.
 */
const REMOVE = `with bounds as materialized (
    select cutoff, coalesce((
      select position from events where created_at < cutoff order by created_at desc limit 1
    ), 0) as last_old
    from (select statement_timestamp() - make_interval(days => $1::int) as cutoff) as times
  ), oldest as materialized (
    select id, position, created_at, sum(bytes) over (order by position) - bytes as bytes_before
    from (select id, position, created_at, bytes from events order by position limit ${BATCH_SIZE}) as first
  ), old as materialized (
    select id, position from oldest
    where bytes_before < ${MAX_BATCH_BYTES} and position < coalesce((
      select min(position) from oldest, bounds
      where created_at >= cutoff and (created_at <= statement_timestamp() or position > last_old)
    ), 9223372036854775807)
  ), removed as (
    delete from events using old where events.id = old.id returning 1
  ), feed as (
    update event_feed set removed_position = last.position, removed_id = last.id
    from (select position, id from old order by position desc limit 1) as last
    where event_feed.id = 1 and last.position > removed_position
  ) select count(*) as count from removed`

/** @returns the number of removed events */
const removeBatch = (database: Database, days: number): Promise<number> =>
  database.transaction(async (tx) => {
    await tx.run(LOCK_FEED)
    const [row] = await queryRows<{ count: number }>(tx, REMOVE, [days])
    return row?.count ?? 0
  })

/**
 * Removes events that are older than a number of days.
 * @returns the number of removed events
 */
export async function removeOldEvents(
  database: Database,
  days: number,
  isWanted: () => boolean = () => true,
): Promise<number> {
  // Bytes may end a batch before its number of rows.
  const count = await deleteInBatches(() => removeBatch(database, days), 1, isWanted)
  if (count > 0) publishRemoved(count)
  return count
}
