/** Deletes old deliveries and replays in small batches. */
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { Connection } from '../../drizzle/client/types.ts'

const BATCH_SIZE = 1_000

/**
 * The ids are UUIDv7, in the order of creation, so that their index finds the oldest. A pending delivery of that age waits
 * for an endpoint that answers too slowly for its events.
 */
const buildDeletion = (table: string) => `with old as (
    select id from ${table}
    where id < (lpad(to_hex((extract(epoch from now() - interval '30 days') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
    order by id limit ${BATCH_SIZE} for update skip locked
  ), removed as (
    delete from ${table} as d using old where d.id = old.id returning 1
  ) select count(*) as count from removed`

const DELETIONS = ['webhook_deliveries', 'webhook_replays'].map(buildDeletion)

/** Deletes batches until no old delivery or replay is left or `isWanted` returns false. */
export async function pruneDeliveries(connection: Connection, isWanted: () => boolean): Promise<void> {
  for (const deletion of DELETIONS) {
    for (let count = BATCH_SIZE; count === BATCH_SIZE && isWanted(); ) {
      const [row] = await queryRows<{ count: number }>(connection, deletion)
      count = row?.count ?? 0
    }
  }
}
