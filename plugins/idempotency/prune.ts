/** Records that have grown old are removed in the background: a few at a time, by one replica at a time. */
import type { Database } from '../../drizzle/client/index.ts'
import { publish } from './channels.ts'

/** Any number that nobody else uses. */
const PRUNING = 1_936_024_691
const MOST = 500

// Not those that are being replaced at this moment.
const REMOVE = `with old as (
    select user_id, id from idempotency_keys where created_at <= now() - interval '24 hours'
    order by created_at limit ${MOST} for update skip locked
  ), removed as (
    delete from idempotency_keys k using old where k.user_id = old.user_id and k.id = old.id returning 1
  ) select count(*) as count from removed`

/** A reply is used by records that are no older than its last use. */
const REMOVE_REPLIES = `with old as (
    select user_id, id from idempotency_replies where last_used_at <= now() - interval '24 hours'
    order by last_used_at limit ${MOST} for update skip locked
  ) delete from idempotency_replies r using old where r.user_id = old.user_id and r.id = old.id`

/** One batch; none where another replica is at it. */
const batch = (database: Database): Promise<number> =>
  database.transaction(async (tx) => {
    const [lock] = await tx.run('select pg_try_advisory_xact_lock($1) as alone', [PRUNING])
    if (lock?.alone !== true) return 0
    const [row] = await tx.run(REMOVE)
    await tx.run(REMOVE_REPLIES)
    return Number(row?.count)
  })

/**
 * Batch after batch until none is left, or it is no longer wanted.
 * @returns how many were removed
 */
export async function prune(database: Database, isWanted: () => boolean): Promise<number> {
  let count = 0
  for (let last = MOST; last === MOST && isWanted(); count += last) last = await batch(database)
  if (count > 0) publish('pruned', { count })
  return count
}
