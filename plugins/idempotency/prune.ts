/** Deletes expired idempotency records in small batches, on one replica at a time. */
import type { Database } from '../../drizzle/client/index.ts'
import { queryRows } from '../../drizzle/client/query-rows.ts'
import { publish } from './channels.ts'

/** Arbitrary; unique among the advisory locks of this service. */
const PRUNE_LOCK_ID = 1_936_024_691
const BATCH_SIZE = 500

const LOCK = 'select pg_try_advisory_xact_lock($1) as is_locked'

// Skips records that a concurrent write is replacing.
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

/** @returns the number of deleted records; 0 while another replica is deleting */
const deleteBatch = (database: Database): Promise<number> =>
  database.transaction(async (tx) => {
    const [lock] = await queryRows<{ is_locked: boolean }>(tx, LOCK, [PRUNE_LOCK_ID])
    if (!lock?.is_locked) return 0
    const [row] = await queryRows<{ count: number }>(tx, DELETE_RECORDS)
    await tx.run(DELETE_REPLIES)
    return row?.count ?? 0
  })

/**
 * Deletes batches until no expired record is left or `isWanted` returns false.
 * @returns the number of deleted records
 */
export async function prune(database: Database, isWanted: () => boolean): Promise<number> {
  let count = 0
  for (let last = BATCH_SIZE; last === BATCH_SIZE && isWanted(); count += last) {
    last = await deleteBatch(database)
  }
  if (count > 0) publish('pruned', { count })
  return count
}
