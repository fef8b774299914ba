/** Times in which changes are not recorded (EVENTS=false): afterwards, no consumer goes on from a cursor of before. */
import { eq, type SQL, sql } from 'drizzle-orm'
import type { Connection } from '../../drizzle/client/types.ts'
import { eventFeed } from '../../drizzle/event-tables.ts'
import { newId } from '../../lib/ids.ts'

/** The `removed_id` of the feed from the start of a process that does not record changes to that of one that does. */
const UNRECORDED = '00000000-0000-0000-0000-000000000000'

const isUnrecorded = eq(eventFeed.removed_id, UNRECORDED)

/** Skips a position. The feed then begins after it, so that all earlier cursors have expired. */
const skipPosition = (connection: Connection, removed_id: string | SQL) => {
  const next = sql`${eventFeed.last_position} + 1`
  return connection.update(eventFeed).set({ last_position: next, removed_position: next, removed_id })
}

/** To be called when a process starts that does not record changes. */
export const beginInterruption = (connection: Connection) => skipPosition(connection, UNRECORDED)

/** To be called when it ends: processes that record changes may have given out cursors since. */
export const repeatInterruption = (connection: Connection) =>
  skipPosition(
    connection,
    sql`case when ${isUnrecorded} then ${eventFeed.removed_id} else ${newId()}::uuid end`,
  )

/** To be called when a process starts that records changes. */
export const endInterruption = (connection: Connection) =>
  skipPosition(connection, newId()).where(isUnrecorded)
