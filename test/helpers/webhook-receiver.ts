/** A receiver of webhooks on the loopback interface. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'
import type { Json } from './app.ts'
import type { Owner } from './database.ts'
import { listen } from './listen.ts'
import { waitUntil } from './wait-until.ts'

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

/** Verifies a webhook as a receiver does. @throws if no signature fits */
export const verify = (secret: string, { text: sent, headers }: ReceivedWebhook): unknown =>
  new Webhook(secret).verify(sent, {
    'webhook-id': String(headers['webhook-id']),
    'webhook-timestamp': String(headers['webhook-timestamp']),
    'webhook-signature': String(headers['webhook-signature']),
  })
