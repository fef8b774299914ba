/** The sequencer: moves changes from the outbox to the events, and assigns their positions in the feed. */
import { type Connection, type Database, prepare } from '@resource-api/database'
import { eventFeed, events, outbox, toNames } from '@resource-api/database/tables'
import { eq, getTableColumns, sql } from 'drizzle-orm'
import { assignedChannel } from './channels.ts'
import { createFeedRow } from './feed-state.ts'

/** Events that one transaction assigns. */
const BATCH_SIZE = 1_000
/** The bytes of their resources. It takes up to 0.4 s to move them. */
export const MAX_BATCH_BYTES = 8 * 1024 * 1024

/**
 * Also makes the next statement use indexes. Its plan is kept, and one that was made while the outbox was empty reads the
 * whole table each time, with all rows deleted since the last vacuum.
 */
const lockFeed = prepare((db) =>
  db
    .select({
      last_position: eventFeed.last_position,
      seqscan: sql`set_config('enable_seqscan', 'off', true)`.as('seqscan'),
    })
    .from(eventFeed)
    .where(eq(eventFeed.id, 1))
    .for('update', { skipLocked: true }),
)

/** The columns that an event takes over from its change: all others have the same name in both tables. */
const { sequence, ...kept } = getTableColumns(outbox)
const keptNames = toNames(...Object.values(kept))
const lastPosition = sql`${sql.placeholder('after')}::bigint`

/**
 * Runs after `lockFeed`, as a statement of its own: with READ COMMITTED its snapshot is taken while the row is locked, and
 * so contains the events of all transactions that were committed before any event that another batch has assigned.
 */
const assignPositions = prepare((db) =>
  db.execute<{ delays: number[]; found: number }>(sql`with waiting as materialized (
      select sequence, sum(bytes) over (order by sequence) - bytes as bytes_before
      from (
        select ${outbox.sequence}, ${outbox.bytes} from ${outbox}
        order by ${outbox.sequence} limit ${sql.placeholder('limit')}::bigint
      ) as first
    ), moved as (
      delete from ${outbox} where ${outbox.sequence} in (
        select sequence from waiting where bytes_before < ${sql.placeholder('maxBytes')}::bigint
      ) returning *
    ), placed as (
      insert into ${events} (${toNames(events.position, events.resource_type)}, ${keptNames})
      select ${lastPosition} + row_number() over (order by ${toNames(sequence)}),
        split_part(${toNames(kept.type)}, '.', 1), ${keptNames} from moved
      returning extract(epoch from ${events.updated_at} - ${events.created_at})::float8 as delay
    ), feed as (
      update ${eventFeed} set ${toNames(eventFeed.last_position)} = ${lastPosition} + (select count(*) from moved)
      where ${eventFeed.id} = 1 and exists (select 1 from moved)
    ) select coalesce(json_agg(delay), '[]') as delays, (select count(*) from waiting) as found,
      set_config('enable_seqscan', 'on', true) from placed`),
)

/** The events of one batch: those with `after < position <= last`. */
interface EventBatch {
  after: number
  last: number
}

/** Work in the transaction that assigns the positions of a batch. */
export type BatchStep = (tx: Connection, batch: EventBatch) => Promise<unknown>

interface Assignment {
  /** Whether another process is assigning positions. If so, nothing else is known. */
  isBusy: boolean
  /** Whether more events may wait for a position. */
  isFull: boolean
  /** The last position of the feed. */
  last: number
}

/**
 * Assigns positions to one batch of events.
 *
 * Events of one row are in the order of its revisions: a change gets the lock of its row only after the change before it
 * was committed, and draws its sequence value after that. Each snapshot that has its event therefore has the event before
 * it, with a smaller sequence value. Events of open transactions are not visible yet and delay no other event.
 * @param share the share of the largest batch that this one may have
 */
export async function assignBatch(
  database: Database,
  steps: readonly BatchStep[],
  share = 1,
): Promise<Assignment> {
  const limit = Math.ceil(BATCH_SIZE * share)
  const maxBytes = Math.ceil(MAX_BATCH_BYTES * share)
  const assign = async (tx: Connection) => {
    const [feed] = await lockFeed(tx)
    if (!feed) return undefined
    const after = feed.last_position
    const [assigned] = await assignPositions(tx, { after, limit, maxBytes })
    if (!assigned) throw new Error('An aggregate returned no row')
    const { delays, found } = assigned
    const last = after + delays.length
    if (last > after) for (const step of steps) await step(tx, { after, last })
    return { delays, last, isFull: found === limit || found > delays.length }
  }
  let assigned = await database.transaction(assign)
  if (!assigned) {
    // The row is locked, or missing.
    await createFeedRow(database)
    assigned = await database.transaction(assign)
  }
  if (!assigned) return { isBusy: true, isFull: false, last: 0 }
  const { delays, ...assignment } = assigned
  if (delays.length > 0) assignedChannel.publish({ delays })
  return { isBusy: false, ...assignment }
}

/** Planned each time: a plan that was made while the outbox was empty would read the whole table. */
const selectPending = prepare(
  (db) =>
    db
      .select({
        age: sql<number>`extract(epoch from clock_timestamp() - ${outbox.created_at})::float8`.as('age'),
      })
      .from(outbox)
      .orderBy(outbox.sequence)
      .limit(1),
  { customPlan: true },
)

/** Returns the age in seconds of the oldest change without a position; undefined if there is none. */
export async function readPendingAge(connection: Connection): Promise<number | undefined> {
  const [oldest] = await selectPending(connection)
  return oldest && Math.max(0, oldest.age)
}
