/** Webhook endpoints and their deliveries in tests. */
import type { Database } from '../../drizzle/client/index.ts'
import type { Client, Json } from './app.ts'
import { waitUntil } from './wait-until.ts'

/** Creates an endpoint. @returns it, with its secret */
export async function createEndpoint(client: Client, url: string, fields: object = {}): Promise<Json> {
  const reply = await client.post('/webhook-endpoints', { url, event_types: ['products.*'], ...fields })
  if (reply.status !== 201) throw new Error(reply.text)
  return reply.body.data
}

/** Returns the deliveries of an endpoint, the oldest first. */
export async function readDeliveries(client: Client, endpointId: string): Promise<Json[]> {
  const reply = await client.get(`/webhook-endpoints/${endpointId}/deliveries?order=asc&limit=100`)
  if (reply.status !== 200) throw new Error(reply.text)
  return reply.body.data
}

/** Resolves to the deliveries of an endpoint when the condition holds. */
export async function waitForDeliveries(
  client: Client,
  endpointId: string,
  condition: (deliveries: Json[]) => boolean,
): Promise<Json[]> {
  let deliveries: Json[] = []
  await waitUntil(async () => {
    deliveries = await readDeliveries(client, endpointId)
    return condition(deliveries)
  })
  return deliveries
}

/** Makes the pending deliveries of an endpoint due, in place of waiting for their next attempt. */
export async function makeDue(database: Database, endpointId: string): Promise<void> {
  await database.run(
    `update webhook_deliveries set next_attempt_at = now() where endpoint_id = $1 and status = 'pending'`,
    [endpointId],
  )
}
