/** The tables of jobs and of consumers: a row each, which one process at a time claims. */
import { pgTable, uuid } from 'drizzle-orm/pg-core'
import { integer, moment, text } from './columns.ts'

const claimed = () => ({
  name: text().primaryKey(),
  /** The claim of the process that works on it; null if none does. */
  claim_id: uuid(),
  /** No other process claims it before, unless the claim is given back. */
  leased_until: moment(),
  /** The failures since the last success, and the message of the latest one. */
  failures: integer().notNull().default(0),
  error: text(),
})

/** Jobs, with their latest run. No history. */
export const scheduledJobs = pgTable('scheduled_jobs', {
  ...claimed(),
  /** The schedule by which `next_run_at` was computed. */
  schedule: text().notNull(),
  next_run_at: moment().notNull(),
  last_started_at: moment(),
  last_duration_ms: integer(),
  last_result: text().$type<'succeeded' | 'failed'>(),
  last_success_at: moment(),
})

/** Consumers of events, with their cursors in the feed. */
export const eventConsumers = pgTable('event_consumers', {
  ...claimed(),
  /** The event up to which all are handled: its position and its id. */
  position: integer().notNull(),
  event_id: uuid().notNull(),
  /** When the event that failed is handled again; null if none did. */
  next_attempt_at: moment(),
  failed_position: integer(),
  failed_event_id: uuid(),
})
