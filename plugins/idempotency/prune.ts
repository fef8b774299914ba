/** Deletes expired idempotency records, and the replies that none of them refers to. */
import { sql } from 'drizzle-orm'
import type { Connection } from '../../drizzle/client/index.ts'
import { idempotencyKeys, idempotencyReplies } from '../../drizzle/idempotency-tables.ts'
import { createPruning } from '../background/prune.ts'
import { publish } from './channels.ts'

const until = sql`now() - interval '24 hours'`

const pruneKeys = createPruning({ table: idempotencyKeys, column: idempotencyKeys.created_at, until })
/** A reply's last use is not older than any record that refers to it. */
const pruneReplies = createPruning({
  table: idempotencyReplies,
  column: idempotencyReplies.last_used_at,
  until,
})

/** @returns the number of deleted records */
export async function prune(connection: Connection, isWanted?: () => boolean): Promise<number> {
  const count = await pruneKeys(connection, isWanted)
  await pruneReplies(connection, isWanted)
  if (count > 0) publish('pruned', { count })
  return count
}
