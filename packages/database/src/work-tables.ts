/** The table of work: what processes do in the background, a row for each piece of it. */
import { type SQL, sql } from 'drizzle-orm'
import { index, jsonb, type PgColumn, pgTable, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import { common, integer, moment, text, uuidv7 } from './columns.ts'
import { webhookEndpoints } from './event-tables.ts'
import { NIL_UUID } from './lib/ids.ts'

/** What an index and the statements that use it compare: the endpoint of a delivery, else a constant. */
export const workGroup = (endpointId: SQL | PgColumn): SQL =>
  sql`coalesce(${endpointId}, ${sql.raw(`'${NIL_UUID}'`)}::uuid)`

/** The kind of the rows that the API shows as deliveries of webhooks. */
export const DELIVERY = 'delivery'

/** The rows that metrics count: of deliveries, there may be too many. */
export const isCounted = (kind: SQL | PgColumn): SQL => sql`${kind} <> ${sql.raw(`'${DELIVERY}'`)}`

/** Rows that are done are deleted, or kept for a time. Their ids order them by creation. */
export const work = pgTable(
  'work',
  {
    ...common(),
    id: uuid().primaryKey().default(uuidv7),
    /** What is to be done: `mail`, `delivery`, `replay`, `job:{name}`, `consumer:{name}` or `work:{name}`. */
    kind: text().notNull(),
    /** Unique among the rows of the kind. */
    key: text(),
    /** What the work is about; for jobs and consumers, how far they are. */
    payload: jsonb().$type<Record<string, unknown>>().notNull().default({}),
    status: text().$type<'pending' | 'succeeded' | 'failed'>().notNull().default('pending'),
    /** The attempts that were made, with the one that is claimed. */
    attempts: integer().notNull().default(0),
    /** When the next attempt is due; while one runs, the end of its lease; null when there is none. */
    next_attempt_at: moment().default(sql`clock_timestamp()`),
    /** The claim of the process that makes an attempt; null if none does. */
    claim_id: uuid(),
    /** What the latest attempt failed with. */
    error: text(),
    /** About how many bytes an attempt reads besides the row, so that not too many are claimed at a time. */
    bytes: integer().notNull().default(0),

    // Deliveries only. The owner of the endpoint, who never changes, is for the access rules.
    endpoint_id: uuid().references(() => webhookEndpoints.id, { onDelete: 'cascade' }),
    user_id: uuid(),
    /** No foreign key, since events are removed and test events are not stored. */
    event_id: uuid(),
    event_type: text(),
    response_status: integer(),
    response_body: text(),
    duration_ms: integer(),
    delivered_at: moment(),
    /** The replay that created it; no foreign key, since replays are removed without their deliveries. */
    replay_id: uuid(),
  },
  (t) => [
    // A claim reads the first ones of each kind and endpoint, so that none delays another.
    index('work_due')
      .on(t.kind, workGroup(t.endpoint_id), t.next_attempt_at)
      .where(sql`${t.next_attempt_at} is not null`),
    uniqueIndex('work_key').on(t.kind, t.key).where(sql`${t.key} is not null`),
    index('work_kind').on(t.kind, t.id).where(isCounted(t.kind)),
    index('work_endpoint_id').on(t.endpoint_id, t.created_at, t.id),
    index('work_status').on(t.endpoint_id, t.status, t.created_at, t.id),
    index('work_replay_id')
      .on(t.replay_id)
      .where(sql`${t.status} = 'pending' and ${t.duration_ms} is null and ${t.replay_id} is not null`),
  ],
)
