/** A server that has only the stream of events, as the API describes it, and fails when a test says so. */
import { createServer, type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse } from 'node:http'
import type { ResourceEvent } from '../../client/src/index.ts'
import type { Owner } from './database.ts'
import { listen } from './network.ts'

/** The pause that the server asks for; the API asks for 3,000 ms. */
const RETRY_MS = 10

interface Refusal {
  status: number
  code?: string
  message?: string
  headers?: OutgoingHttpHeaders
}

const NAMES = ['type', 'resource_type', 'resource_id', 'actor_id'] as const

/** Returns whether an event passes the filters of a request. */
const matches = (event: ResourceEvent, query: URLSearchParams) =>
  NAMES.every((name) => {
    const values = query.get(name)?.split(',')
    const value = String(event[name])
    const isMatch = (each: string) =>
      each === value || (each.endsWith('.*') && value.startsWith(each.slice(0, -1)))
    return values === undefined || values.some(isMatch)
  })

/** Starts the server on a free port. */
export async function startFakeEventServer(t: Owner, { apiKey = 'secret' } = {}) {
  const feed: ResourceEvent[] = []
  /** Access tokens and API keys that are valid. */
  const credentials = new Set([apiKey])
  const requests: IncomingMessage[] = []
  const refusals: Refusal[] = []
  const streams = new Map<ServerResponse, URLSearchParams>()
  let removed = 0

  const getCursor = (position: number) => `cursor-${position}`
  const send = (stream: ServerResponse, event: ResourceEvent) =>
    stream.write(
      `id: ${getCursor(event.position ?? 0)}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`,
    )
  const refuse = (response: ServerResponse, { status, code = 'ERROR', message = code, headers }: Refusal) => {
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers })
    response.end(JSON.stringify({ error: { code, message, request_id: 'request-1' } }))
  }

  const server = createServer((request, response) => {
    requests.push(request)
    const { headers, url = '' } = request
    const { pathname, searchParams } = new URL(url, 'http://localhost')
    const refusal = refusals.shift()
    const credential = headers['x-api-key'] ?? headers.authorization?.replace('Bearer ', '')
    if (refusal !== undefined) return refuse(response, refusal)
    if (pathname !== '/api/v1/events' || headers.accept !== 'text/event-stream') {
      return refuse(response, { status: 404, code: 'RESOURCE_NOT_FOUND' })
    }
    if (typeof credential !== 'string' || !credentials.has(credential)) {
      return refuse(response, { status: 401, code: 'UNAUTHORIZED', message: 'Invalid or expired API key' })
    }
    const cursor = headers['last-event-id'] ?? searchParams.get('cursor')
    const position = cursor === null ? feed.length : Number(String(cursor).replace('cursor-', ''))
    if (Number.isNaN(position)) return refuse(response, { status: 400, code: 'INVALID_CURSOR' })
    if (position < removed) {
      const message = 'Events after the cursor were removed'
      return refuse(response, { status: 410, code: 'EVENTS_EXPIRED', message })
    }
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
    response.write(`retry: ${RETRY_MS}\n\n`)
    response.on('close', () => streams.delete(response))
    streams.set(response, searchParams)
    for (const event of feed.slice(position)) if (matches(event, searchParams)) send(response, event)
  })
  const port = await listen(server)
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })

  return {
    url: `http://127.0.0.1:${port}`,
    credentials,
    requests,
    /** The responses to the next requests. */
    refusals,
    /** The open streams. */
    streams,
    /** Adds an event to the feed, and sends it to the streams whose filters it passes. */
    add(members: Partial<ResourceEvent> = {}): ResourceEvent {
      const position = feed.length + 1
      const event: ResourceEvent = {
        ...{ id: `event-${position}`, position, type: 'users.created', resource_type: 'users' },
        ...{ resource_id: `product-${position}`, revision: 1, data: { name: 'Tea' }, previous: null },
        ...{ actor_id: 'user-1', credential: 'api_key', credential_id: 'key-1', request_id: 'request-1' },
        created_at: '2026-11-22T12:00:00.123Z',
        ...members,
      }
      feed.push(event)
      for (const [stream, query] of streams) if (matches(event, query)) send(stream, event)
      return event
    },
    /** Sends the comment with the current position, which the API sends every 5 s. */
    sendPosition() {
      for (const stream of streams.keys()) stream.write(`: position\nid: ${getCursor(feed.length)}\n\n`)
    },
    /** Sends text as it is. */
    sendText(text: string) {
      for (const stream of streams.keys()) stream.write(text)
    },
    /** Ends the streams as the API does when the feed has lost events that they have sent. */
    expire() {
      const error = { code: 'EVENTS_EXPIRED', message: 'Events after the cursor were removed' }
      for (const stream of streams.keys())
        stream.end(
          `event: error\ndata: ${JSON.stringify({ error: { ...error, request_id: 'request-1' } })}\n\n`,
        )
    },
    /** Closes the connections, without the end of the responses. */
    cut() {
      for (const stream of streams.keys()) stream.destroy()
    },
    /** Ends the responses, as at a shutdown. */
    end() {
      for (const stream of streams.keys()) stream.end()
    },
    /** Removes the events up to a position. */
    removeUntil(position: number) {
      removed = position
    },
  }
}
