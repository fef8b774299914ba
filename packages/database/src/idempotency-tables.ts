/** The table of responses that are stored for idempotency keys. */
import { index, pgTable, primaryKey, smallint } from 'drizzle-orm/pg-core'
import { moment, text } from './columns.ts'
import { userId } from './user-tables.ts'

/**
 * Responses by idempotency key, for repeated requests (`@resource-api/resources`). Of the key and of the request
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
    body: text().notNull(),
    created_at: moment().notNull().defaultNow(),
  },
  // The user first: the rows that are deleted with a user are found without a further index.
  (t) => [primaryKey({ columns: [t.user_id, t.id] }), index('idempotency_keys_created_at').on(t.created_at)],
)
