/** The tables of events and of webhooks. */
import { sql } from 'drizzle-orm'
import { index, json, jsonb, pgSequence, pgTable, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import { common, integer, moment, text, uuidv7 } from './columns.ts'
import { userId } from './user-tables.ts'

/** Numbers the changes. It caches no values, so that they rise in the order in which they are drawn. */
export const eventSequence = pgSequence('event_sequence', { cache: 1 })

type Credential = 'token' | 'api_key' | 'bootstrap_key' | 'none' | 'system'

/** What is known of a change when it is made. */
const change = () => ({
  type: text().notNull(),
  resource_id: uuid().notNull(),
  /** The revision of the resource after the change. */
  revision: integer().notNull(),
  /** The columns of the resource after the change, or before its deletion. No column that the API does not show. */
  columns: json().$type<Record<string, unknown>>().notNull(),
  /** The former values of the columns that changed; null unless the resource was updated. */
  previous: json().$type<Record<string, unknown>>(),
  /** The user whose resource it is; null for resources without an owner. */
  owner_id: uuid(),
  actor_id: uuid(),
  credential: text().$type<Credential>().notNull(),
  /** The session or the API key. */
  credential_id: uuid(),
  request_id: text(),
  created_at: moment().notNull().default(sql`clock_timestamp()`),
})

/**
 * The changes that have no position in the feed yet. Each write of a resource adds to this table, so that it has one index
 * only. The sequencer moves its rows to `events`.
 */
export const outbox = pgTable('outbox', {
  /** Drawn while the changed row is locked: orders the changes of one row. */
  sequence: integer().primaryKey().default(sql`nextval('event_sequence')`),
  ...change(),
  /** The bytes of the resource in `columns` and `previous`. Stored, because their length is known only after reading them. */
  bytes: integer().notNull(),
})

/**
 * The changes of resources in the order of the feed. Rows are inserted and removed, never updated. No foreign keys: an
 * event stays when its resource, its user and its credential are deleted.
 */
export const events = pgTable(
  'events',
  {
    id: uuid().primaryKey().default(uuidv7),
    /** The place in the feed. */
    position: integer().notNull(),
    resource_type: text().notNull(),
    ...change(),
    /** As in the outbox. */
    bytes: integer().notNull().default(0),
    /** When the position was assigned. */
    updated_at: moment().notNull().default(sql`clock_timestamp()`),
  },
  (t) => [
    uniqueIndex('events_position').on(t.position),
    index('events_type').on(t.type, t.position),
    index('events_resource_id').on(t.resource_id, t.position),
    index('events_actor_id').on(t.actor_id, t.position).where(sql`${t.actor_id} is not null`),
    index('events_owner_id').on(t.owner_id, t.position).where(sql`${t.owner_id} is not null`),
    index('events_created_at').on(t.created_at, t.position),
  ],
)

/** The state of the feed: one row, which the sequencer locks while it assigns positions. */
export const eventFeed = pgTable('event_feed', {
  id: integer().primaryKey().default(1),
  /** The position of the newest event; 0 before the first one. */
  last_position: integer().notNull().default(0),
  /** The highest position of an event that was removed after its retention. */
  removed_position: integer().notNull().default(0),
  /** What a cursor at `removed_position` names: the id of the event that was there; at the start, an id of the feed. */
  removed_id: uuid().notNull().default(uuidv7),
})

/** Endpoints of customers, to which events are sent. */
export const webhookEndpoints = pgTable(
  'webhook_endpoints',
  {
    ...common(),
    user_id: userId(),
    url: text().notNull(),
    event_types: jsonb().$type<string[]>().notNull(),
    description: text(),
    api_version: integer().notNull(),
    status: text().$type<'enabled' | 'disabled'>().notNull().default('enabled'),
    disabled_reason: text(),
    failing_since: moment(),
    last_delivered_at: moment(),
    /** Milliseconds that the latest successful attempt took: every process knows by it which endpoints are slow. */
    last_duration_ms: integer(),
    /** The secret that signs, encrypted. */
    secret_box: text().notNull(),
    /** The secret before the last rotation, encrypted. It signs too until it expires. */
    previous_secret_box: text(),
    previous_secret_expires_at: moment(),
  },
  (t) => [
    index('webhook_endpoints_created_at').on(t.created_at, t.id),
    index('webhook_endpoints_user_id').on(t.user_id, t.created_at, t.id),
  ],
)

/** Requests to send the events of a time to an endpoint again. Their deliveries are created little by little. */
export const webhookReplays = pgTable(
  'webhook_replays',
  {
    ...common(),
    id: uuid().primaryKey().default(uuidv7),
    endpoint_id: uuid()
      .notNull()
      .references(() => webhookEndpoints.id, { onDelete: 'cascade' }),
    /** The owner of the endpoint. */
    user_id: uuid().notNull(),
    since: moment().notNull(),
    until: moment().notNull(),
    /** Which events: those whose deliveries failed, or all. */
    status: text().$type<'failed' | 'all'>().notNull().default('failed'),
    /** The events that were found when the replay was created. */
    total: integer().notNull(),
    /** The deliveries that were created, and those of them of which the first attempt has ended. */
    queued: integer().notNull().default(0),
    sent: integer().notNull().default(0),
    /** Events, or failed deliveries, that were created until then have deliveries of the replay; null at the beginning. */
    reached_at: moment(),
    completed_at: moment(),
  },
  (t) => [index('webhook_replays_endpoint_id').on(t.endpoint_id, t.created_at, t.id)],
)
