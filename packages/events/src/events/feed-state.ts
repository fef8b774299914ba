/** The state of the feed: its last position, the position up to which events were removed, and the cursors that it ends. */
import { apiError } from '@resource-api/api/errors'
import { type Connection, newId, prepare } from '@resource-api/database'
import { eventFeed, events, toNames } from '@resource-api/database/tables'
import { NIL_UUID } from '@resource-api/database/values'
import { invalidCursor, type Position } from '@resource-api/resources/internal'
import { eq, type SQL, type SQLWrapper, sql } from 'drizzle-orm'

/** A place in the feed: the position of an event and its id. Before the first event, the id is that of the feed. */
export interface FeedPosition {
  position: number
  id: string
}

/** Reads the position in a cursor. @throws ApiError 400 INVALID_CURSOR */
export function toFeedPosition([text, id = '']: Position): FeedPosition {
  const position = Number(text)
  if (!Number.isSafeInteger(position)) throw invalidCursor()
  return { position, id }
}

/** Returns the position for a cursor: that of a list by `position`. */
export const toPosition = ({ position, id }: FeedPosition): Position => [String(position), id]

export type FeedState = {
  last_position: number
  last_id: string
  /** The highest position of an event that was removed. */
  removed_position: number
  /** The id that a cursor at the position that was asked for has now. */
  from_id: string
}

/** Builds the expression for the id that a cursor at a position has. The event of `removed_position` may be removed. */
const buildId = (position: SQLWrapper) => sql<string>`coalesce((
  select ${events.id} from ${events} where ${events.position} = nullif(${position}, ${eventFeed.removed_position})
), ${eventFeed.removed_id})`

/** Builds the statement for the state of the feed. The placeholder `from` is the position of a cursor, or null. */
export const buildFeedState = (db: Connection) =>
  db
    .select({
      last_position: eventFeed.last_position,
      last_id: buildId(eventFeed.last_position).as('last_id'),
      removed_position: eventFeed.removed_position,
      from_id: buildId(sql`${sql.placeholder('from')}::bigint`).as('from_id'),
    })
    .from(eventFeed)
    .where(sql`${eventFeed.id} = 1`)

const selectState = prepare(buildFeedState)

/**
 * Creates the row of the feed if there is none. Not in a transaction: other processes would wait for its commit. Without
 * the condition, it would wait for a process that is changing the row.
 */
export const createFeedRow = prepare((db) =>
  db.execute(sql`insert into ${eventFeed} (${toNames(eventFeed.id)})
    select 1 where not exists (select 1 from ${eventFeed}) on conflict do nothing`),
)

/** Runs a statement that reads the state of the feed, and so has no rows until there is one. */
export async function readWithState<R extends FeedState>(connection: Connection, read: () => Promise<R[]>) {
  for (;;) {
    const rows = await read()
    const [first] = rows
    if (first) return { rows, first }
    await createFeedRow(connection)
  }
}

/**
 * Checks that no event after a cursor is missing: removed after its retention, or lost with a database that was restored
 * from an older backup. Positions are given a second time then, to events with other ids.
 * @throws ApiError 410 EVENTS_EXPIRED
 */
export function ensureAvailable(from: FeedPosition, state: FeedState, isDescending = false): void {
  // Older events are removed first: a list of the newest first just ends earlier.
  if (isDescending && from.position < state.removed_position) return
  const isKept = from.position >= state.removed_position && from.position <= state.last_position
  if (!isKept || from.id !== state.from_id) throw apiError('EVENTS_EXPIRED')
}

/**
 * Reads the last position of the feed.
 * @throws ApiError 410 EVENTS_EXPIRED if `from` is a cursor after which an event is missing
 */
export async function readLastPosition(connection: Connection, from?: FeedPosition): Promise<FeedPosition> {
  const values = { from: from?.position ?? null }
  const { first } = await readWithState(connection, () => selectState(connection, values))
  if (from) ensureAvailable(from, first)
  return { position: first.last_position, id: first.last_id }
}

/** Reads the position before the first event that the feed still has. */
export async function readFirstPosition(connection: Connection): Promise<FeedPosition> {
  const { first } = await readWithState(connection, () => selectState(connection, { from: null }))
  return { position: first.removed_position, id: first.from_id }
}

/** The feed has this `removed_id` from the start of a process that does not record changes to that of one that does. */
const isUnrecorded = eq(eventFeed.removed_id, NIL_UUID)

/** Skips a position. The feed then begins after it, so that all earlier cursors have expired. */
const skipPosition = (connection: Connection, removed_id: string | SQL) => {
  const next = sql`${eventFeed.last_position} + 1`
  return connection.update(eventFeed).set({ last_position: next, removed_position: next, removed_id })
}

/** Ends all cursors, when a process starts that does not record changes. */
export const beginInterruption = (connection: Connection): PromiseLike<unknown> =>
  skipPosition(connection, NIL_UUID)

/** Ends all cursors, when that process ends: processes that record changes may have given out some since. */
export const repeatInterruption = (connection: Connection): PromiseLike<unknown> =>
  skipPosition(
    connection,
    sql`case when ${isUnrecorded} then ${eventFeed.removed_id} else ${newId()}::uuid end`,
  )

/** Ends the cursors of an interruption, when a process starts that records changes. */
export const endInterruption = (connection: Connection): PromiseLike<unknown> =>
  skipPosition(connection, newId()).where(isUnrecorded)
