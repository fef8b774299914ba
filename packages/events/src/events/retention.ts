/** Removes old events in the order of their positions, in small batches, in one process at a time. */
import { type Database, prepare } from '@resource-api/database'
import { eventFeed, events, toNames } from '@resource-api/database/tables'
import { deleteInBatches } from '@resource-api/work'
import { eq, sql } from 'drizzle-orm'
import { removedChannel } from './channels.ts'
import { MAX_BATCH_BYTES } from './sequencer.ts'

const BATCH_SIZE = 500

/** Keeps other processes from removing events, and the sequencer from assigning any, which it then does later. */
const lockFeed = prepare((db) =>
  db.select({ id: eventFeed.id }).from(eventFeed).where(eq(eventFeed.id, 1)).for('update'),
)

/**
 * The first event that is young enough ends a batch, so that none before `removed_position` is left. One from the future,
 * of a time when the clock was wrong, does not if a later event is old.
 */
const removeOldest = prepare((db) =>
  db.execute<{ count: number }>(sql`with bounds as materialized (
      select cutoff, coalesce((
        select ${events.position} from ${events} where ${events.created_at} < cutoff
        order by ${events.created_at} desc limit 1
      ), 0) as last_old
      from (select statement_timestamp() - make_interval(days => ${sql.placeholder('days')}::int) as cutoff) as times
    ), oldest as materialized (
      select id, position, created_at, sum(bytes) over (order by position) - bytes as bytes_before
      from (
        select ${events.id}, ${events.position}, ${events.created_at}, ${events.bytes} from ${events} order by ${events.position} limit ${sql.raw(String(BATCH_SIZE))}
      ) as first
    ), old as materialized (
      select id, position from oldest
      where bytes_before < ${sql.raw(String(MAX_BATCH_BYTES))} and position < coalesce((
        select min(position) from oldest, bounds
        where created_at >= cutoff and (created_at <= statement_timestamp() or position > last_old)
      ), 9223372036854775807)
    ), removed as (
      delete from ${events} using old where ${events.id} = old.id returning 1
    ), feed as (
      update ${eventFeed} set ${toNames(eventFeed.removed_position)} = last.position,
        ${toNames(eventFeed.removed_id)} = last.id
      from (select position, id from old order by position desc limit 1) as last
      where ${eventFeed.id} = 1 and last.position > ${eventFeed.removed_position}
    ) select count(*) as count from removed`),
)

/**
 * Removes events that are older than a number of days.
 * @returns the number of removed events
 */
export async function removeOldEvents(
  database: Database,
  days: number,
  isWanted: () => boolean = () => true,
): Promise<number> {
  const removeBatch = (): Promise<number> =>
    database.transaction(async (tx) => {
      await lockFeed(tx)
      const [row] = await removeOldest(tx, { days })
      return row?.count ?? 0
    })
  // Bytes may end a batch before its number of rows.
  const count = await deleteInBatches(removeBatch, 1, isWanted)
  if (count > 0) removedChannel.publish({ count })
  return count
}
