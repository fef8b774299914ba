/** The statements of consumers: they are registered and claimed, and their cursors move. */
import { type Connection, isAnyOf, prepare } from '@resource-api/database'
import { eventConsumers as consumers, eventFeed, toNames } from '@resource-api/database/internal'
import { clearClaim, isClaimed, isFree, leaseRemainder, setClaim } from '@resource-api/http/internal'
import { sql } from 'drizzle-orm'
import { type FeedPosition, readFirstPosition, readLastPosition } from '../events/feed-state.ts'
import type { Consumer } from './definition.ts'

/** In the order of the names, so that processes that start together wait for each other, and not in a circle. */
const insertConsumers = prepare((db) =>
  db.execute(sql`insert into ${consumers} (${toNames(consumers.name, consumers.position, consumers.event_id)})
    select name, position, id
    from jsonb_to_recordset(${sql.placeholder('rows')}::jsonb) as r (name text, position bigint, id uuid)
    order by name on conflict do nothing`),
)

/** Stores the consumers that are new, with the cursor at which they begin. */
export async function register(connection: Connection, listed: readonly Consumer[]): Promise<void> {
  const cursors = { end: await readLastPosition(connection), beginning: await readFirstPosition(connection) }
  const rows = listed.map(({ name, from }) => ({ name, ...cursors[from] }))
  await insertConsumers(connection, { rows: JSON.stringify(rows) })
}

/** A consumer as it is stored, and the state of the feed. */
export type ConsumerState = {
  name: string
  position: number
  event_id: string
  failures: number
  last_position: number
  /** The milliseconds until its claim ends, and until the next attempt; null or negative without one. */
  leased_for_ms: number | null
  attempt_in_ms: number | null
  is_claimed: boolean
}

const attemptIn = sql`(extract(epoch from ${consumers.next_attempt_at} - statement_timestamp()) * 1000)::float8`
const lastPosition = sql`(select ${eventFeed.last_position} from ${eventFeed} where ${eventFeed.id} = 1)`
const wanted = isAnyOf(consumers.name, sql.placeholder('names'))

/** The feed ends before the cursor if the database was restored from an older backup. */
const claimConsumers = prepare((db) =>
  db.execute<ConsumerState>(sql`with claimed as (
      update ${consumers} set ${setClaim(consumers)}
      where ${wanted} and ${isFree(consumers)} and ${consumers.position} <> ${lastPosition}
        and (${consumers.next_attempt_at} is null or ${consumers.next_attempt_at} <= statement_timestamp())
      returning ${consumers.name}
    ) select ${consumers.name}, ${consumers.position}, ${consumers.event_id}, ${consumers.failures},
      ${lastPosition} as last_position, ${leaseRemainder(consumers)} as leased_for_ms,
      ${attemptIn} as attempt_in_ms, claimed.name is not null as is_claimed
    from ${consumers} left join claimed on claimed.name = ${consumers.name} where ${wanted}`),
)

/** Claims the consumers that have events before them. @returns the states of all before that */
export const claim = (
  connection: Connection,
  names: readonly string[],
  claimId: string,
  leaseMs: number,
): Promise<ConsumerState[]> => claimConsumers(connection, { names, claimId, leaseMs })

/** How far a claimed consumer is. */
export interface Progress {
  name: string
  claimId: string
  cursor: FeedPosition
  /** The failures since the last success. */
  failures: number
}

const failures = sql`${sql.placeholder('failures')}::bigint`

/** Without failures, nothing is left of the last one. */
const setProgress = sql.join(
  [
    sql`${toNames(consumers.position)} = ${sql.placeholder('position')}::bigint`,
    sql`${toNames(consumers.event_id)} = ${sql.placeholder('eventId')}::uuid`,
    sql`${toNames(consumers.failures)} = ${failures}`,
    ...[consumers.error, consumers.next_attempt_at, consumers.failed_position, consumers.failed_event_id].map(
      (column) => sql`${toNames(column)} = case when ${failures} > 0 then ${column} end`,
    ),
  ],
  sql`, `,
)

const toValues = ({ name, claimId, cursor, failures: count }: Progress) => ({
  name,
  claimId,
  position: cursor.position,
  eventId: cursor.id,
  failures: count,
})

const saveProgress = prepare((db) =>
  db.execute(sql`update ${consumers} set ${setProgress}
    where ${isClaimed(consumers)} returning ${consumers.name}`),
)

/** Stores the cursor. @returns no row if another process has claimed the consumer */
export const save = (connection: Connection, progress: Progress): Promise<unknown[]> =>
  saveProgress(connection, toValues(progress))

const releaseClaim = prepare((db) =>
  db.execute(sql`update ${consumers} set ${setProgress}, ${clearClaim(consumers)}
    where ${isClaimed(consumers)} returning ${consumers.name}`),
)

/** Stores the cursor, and gives the claim back. */
export const release = (connection: Connection, progress: Progress): Promise<unknown[]> =>
  releaseClaim(connection, toValues(progress))

const endFailed = prepare((db) =>
  db.execute(sql`update ${consumers} set ${clearClaim(consumers)},
      ${toNames(consumers.position)} = ${sql.placeholder('position')}::bigint,
      ${toNames(consumers.event_id)} = ${sql.placeholder('eventId')}::uuid,
      ${toNames(consumers.failures)} = ${failures},
      ${toNames(consumers.error)} = ${sql.placeholder('error')}::text,
      ${toNames(consumers.next_attempt_at)} = statement_timestamp() + ${sql.placeholder('delayMs')} * interval '1 millisecond',
      ${toNames(consumers.failed_position)} = ${sql.placeholder('failedPosition')}::bigint,
      ${toNames(consumers.failed_event_id)} = ${sql.placeholder('failedId')}::uuid
    where ${isClaimed(consumers)} returning ${consumers.name}`),
)

interface Failure {
  error: string
  delayMs: number
  /** The event that could not be handled; undefined if none could be read. */
  failed: FeedPosition | undefined
}

/** Stores a failure after the cursor, and gives the claim back. */
export const fail = (connection: Connection, progress: Progress, failure: Failure): Promise<unknown[]> =>
  endFailed(connection, {
    ...toValues(progress),
    error: failure.error,
    delayMs: failure.delayMs,
    failedPosition: failure.failed?.position ?? null,
    failedId: failure.failed?.id ?? null,
  })

const skipFailed = prepare((db) =>
  db.execute<{ position: number; event_id: string }>(sql`update ${consumers}
    set ${toNames(consumers.position)} = ${consumers.failed_position},
      ${toNames(consumers.event_id)} = ${consumers.failed_event_id},
      ${toNames(consumers.failures)} = 0, ${toNames(consumers.error)} = null,
      ${toNames(consumers.next_attempt_at)} = null, ${toNames(consumers.failed_position)} = null,
      ${toNames(consumers.failed_event_id)} = null
    where ${consumers.name} = ${sql.placeholder('name')} and ${consumers.failed_position} is not null
      and ${isFree(consumers)}
    returning ${consumers.position}, ${consumers.event_id}`),
)

/** Moves the cursor after the event that fails. @returns no row if none fails, or if it is being handled */
export const skip = (connection: Connection, name: string) => skipFailed(connection, { name })
