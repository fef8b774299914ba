/** Deletes deliveries and replays that were created more than 30 days ago. */
import { sql } from 'drizzle-orm'
import type { Connection } from '../../drizzle/client/types.ts'
import { webhookDeliveries, webhookReplays } from '../../drizzle/event-tables.ts'
import { createPruning } from '../background/prune.ts'

/** The ids are UUIDv7, so the least one of that time. A pending delivery of that age waits for an endpoint that is too slow. */
const until = sql`(lpad(to_hex((extract(epoch from now() - interval '30 days') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid`

const prunings = [webhookDeliveries, webhookReplays].map((table) =>
  createPruning({ table, column: table.id, until }),
)

export async function pruneDeliveries(connection: Connection, isWanted?: () => boolean): Promise<void> {
  for (const prune of prunings) await prune(connection, isWanted)
}
