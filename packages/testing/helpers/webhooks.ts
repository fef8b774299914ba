/** Webhook endpoints, their deliveries, and a receiver on the loopback interface. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'
import type { Database } from '../../database/src/client/index.ts'
import type { Client, Json } from './app.ts'
import type { Owner } from './database.ts'
import { listen } from './network.ts'
import { waitUntil } from './time.ts'

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
    `update work set next_attempt_at = now() where endpoint_id = $1 and status = 'pending'`,
    [endpointId],
  )
}

export interface ReceivedWebhook {
  path: string
  headers: IncomingHttpHeaders
  text: string
  body: Json
  /** Time of `performance.now()`. */
  at: number
}

type Respond = (response: ServerResponse, received: ReceivedWebhook) => void

export interface Receiver {
  url: string
  received: ReceivedWebhook[]
  /** Answers with 200, unless a test replaces it. */
  respond: Respond
  /** Resolves to the first webhooks when so many have arrived. */
  waitFor(count: number): Promise<ReceivedWebhook[]>
}

const answer =
  (status: number): Respond =>
  (response) => {
    response.writeHead(status).end()
  }

export const respondWith = answer

/** Starts a receiver, which stops after the test. */
export async function startReceiver(t: Owner): Promise<Receiver> {
  const received: ReceivedWebhook[] = []
  const server = createServer(async (request, response) => {
    // A sender that is killed leaves an incomplete request.
    const sent = await text(request).catch(() => undefined)
    if (sent === undefined) return
    const webhook = {
      path: request.url ?? '',
      headers: request.headers,
      text: sent,
      body: JSON.parse(sent),
      at: performance.now(),
    }
    received.push(webhook)
    receiver.respond(response, webhook)
  })
  const port = await listen(server)
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}/hook`,
    received,
    respond: answer(200),
    async waitFor(count) {
      await waitUntil(() => received.length >= count)
      return received.slice(0, count)
    },
  }
  return receiver
}

/** Starts a receiver, and creates an endpoint for it, which is deleted after the test. */
export async function openEndpoint(t: Owner, client: Client, fields: object = {}, respond?: Respond) {
  const receiver = await startReceiver(t)
  if (respond) receiver.respond = respond
  const endpoint = await createEndpoint(client, receiver.url, fields)
  const path = `/webhook-endpoints/${endpoint.id}`
  // The test may have closed the app.
  t.teardown(() => client.delete(path).catch(() => undefined))
  return {
    receiver,
    endpoint,
    path,
    read: async (): Promise<Json> => (await client.get(path)).body.data,
    waitFor: (condition: (deliveries: Json[]) => boolean) =>
      waitForDeliveries(client, endpoint.id, condition),
  }
}

/** Verifies a webhook as a receiver does. @throws if no signature fits */
export const verify = (secret: string, { text: sent, headers }: ReceivedWebhook): unknown =>
  new Webhook(secret).verify(sent, {
    'webhook-id': String(headers['webhook-id']),
    'webhook-timestamp': String(headers['webhook-timestamp']),
    'webhook-signature': String(headers['webhook-signature']),
  })
