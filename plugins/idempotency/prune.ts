/** Deletes expired idempotency records in small batches. */
import type { Connection } from '../../drizzle/client/index.ts'
import { queryRows } from '../../drizzle/client/query-rows.ts'
import { publish } from './channels.ts'

const BATCH_SIZE = 500

// Skips records that a concurrent write is replacing, or another process is deleting.
const DELETE_RECORDS = `with old as (
    select user_id, id from idempotency_keys where created_at <= now() - interval '24 hours'
    order by created_at limit ${BATCH_SIZE} for update skip locked
  ), removed as (
    delete from idempotency_keys k using old where k.user_id = old.user_id and k.id = old.id returning 1
  ) select count(*) as count from removed`

/** A reply's last use is not older than any record that refers to it. */
const DELETE_REPLIES = `with old as (
    select user_id, id from idempotency_replies where last_used_at <= now() - interval '24 hours'
    order by last_used_at limit ${BATCH_SIZE} for update skip locked
  ) delete from idempotency_replies r using old where r.user_id = old.user_id and r.id = old.id`

/** @returns the number of deleted records */
async function deleteBatch(connection: Connection): Promise<number> {
  const [row] = await queryRows<{ count: number }>(connection, DELETE_RECORDS)
  await connection.run(DELETE_REPLIES)
  return row?.count ?? 0
}

/**
 * Deletes batches until no expired record is left or `isWanted` returns false.
 * @returns the number of deleted records
 */
export async function prune(connection: Connection, isWanted: () => boolean): Promise<number> {
  let count = 0
  for (let last = BATCH_SIZE; last === BATCH_SIZE && isWanted(); count += last) {
    last = await deleteBatch(connection)
  }
  if (count > 0) publish('pruned', { count })
  return count
}
