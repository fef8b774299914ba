/** Records the use of a credential, at most once a minute. */
import { and, eq, isNull, lt, or, sql } from 'drizzle-orm'
import { prepare } from '../../drizzle/client/prepare.ts'
import type { apiKeys, sessions } from '../../drizzle/credential-tables.ts'

/** Prepares the statement for a table. It does not increment the revision: the use does not modify the resource. */
export const prepareLastUsed = (table: typeof apiKeys | typeof sessions) =>
  prepare((db) =>
    db
      .update(table)
      .set({ last_used_at: sql`now()` })
      .where(
        and(
          eq(table.id, sql.placeholder('id')),
          or(isNull(table.last_used_at), lt(table.last_used_at, sql`now() - interval '1 minute'`)),
        ),
      ),
  )
