/** Times in which changes are not recorded (EVENTS=false): afterwards, no consumer goes on from a cursor of before. */
import type { Connection } from '../../drizzle/client/types.ts'
import { newId } from '../../lib/ids.ts'

/** The `removed_id` of the feed from the start of a process that does not record changes to that of one that does. */
const UNRECORDED = `'00000000-0000-0000-0000-000000000000'::uuid`

/** Skips a position. The feed then begins after it, so that all earlier cursors have expired. */
const buildInterruption = (id: string, condition: string) =>
  `update event_feed set last_position = last_position + 1, removed_position = last_position + 1, removed_id = ${id}
   where id = 1 and ${condition}`

const BEGIN = buildInterruption(UNRECORDED, 'true')
const REPEAT = buildInterruption(`case removed_id when ${UNRECORDED} then removed_id else $1 end`, 'true')
const END = buildInterruption('$1', `removed_id = ${UNRECORDED}`)

/** To be called when a process starts that does not record changes. */
export const beginInterruption = (connection: Connection) => connection.run(BEGIN)

/** To be called when it ends: processes that record changes may have given out cursors since. */
export const repeatInterruption = (connection: Connection) => connection.run(REPEAT, [newId()])

/** To be called when a process starts that records changes. */
export const endInterruption = (connection: Connection) => connection.run(END, [newId()])
