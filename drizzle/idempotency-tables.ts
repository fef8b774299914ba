/** The tables of responses that are stored for idempotency keys. */
import { index, pgTable, primaryKey, smallint } from 'drizzle-orm/pg-core'
import { moment, text } from './columns.ts'
import { userId } from './user-tables.ts'

/**
 * Replies to writes that changed nothing, stored once for all idempotency keys with the same reply. Without this
 * table, a short request could store the whole resource each time.
 */
export const idempotencyReplies = pgTable(
  'idempotency_replies',
  {
    user_id: userId(),
    /** The hash of the body. */
    id: text().notNull(),
    /** Without the time in `meta.timestamp`, which each idempotency key stores for itself. */
    body: text().notNull(),
    last_used_at: moment().notNull().defaultNow(),
  },
  (t) => [
    primaryKey({ columns: [t.user_id, t.id] }),
    index('idempotency_replies_last_used_at').on(t.last_used_at),
  ],
)

/**
 * Replies by idempotency key, for repeated requests (`plugins/idempotency/index.ts`). Of the key and of the request
 * body, only the hashes are stored.
 */
export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    user_id: userId(),
    /** The hash of user, method, path and idempotency key. */
    id: text().notNull(),
    body_hash: text().notNull(),
    status: smallint().notNull(),
    location: text(),
    etag: text().notNull(),
    /** Null if the body is in `idempotency_replies`. */
    body: text(),
    reply_id: text(),
    reply_timestamp: text(),
    created_at: moment().notNull().defaultNow(),
  },
  // The user first: the rows that are deleted with a user are found without a further index.
  (t) => [primaryKey({ columns: [t.user_id, t.id] }), index('idempotency_keys_created_at').on(t.created_at)],
)
