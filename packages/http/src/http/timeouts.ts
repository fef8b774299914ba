/**
 * Responds 503 when a request takes too long, and closes the connection when the client does not read the response: after
 * some time or, the oldest first, when all unread responses together use too much memory.
 */
import { channel } from 'node:diagnostics_channel'
import type { IncomingMessage } from 'node:http'
import { getHeapStatistics } from 'node:v8'
import { apiError } from '@resource-api/api/errors'
import { getLifetime } from '@resource-api/api/requests'
import { getChannelName } from '@resource-api/database/values'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'

export interface TimeoutOptions {
  /** Time to answer a request that has arrived completely. Until then, Fastify's `requestTimeout` applies. */
  responseTimeoutMs?: number | undefined
  /** Additional time for the client to read the response. */
  readTimeoutMs?: number | undefined
  /** Bytes of all unread responses together. Default: an eighth of the heap size limit. */
  maxUnreadLength?: number | undefined
}

/** Bytes. Smaller responses are not tracked: the kernel's send buffer takes them immediately. */
const MIN_TRACKED_LENGTH = 65_536

const connectionClosed = channel(getChannelName('overload:unread'))

/** Requests with their own limits of time, for whose body the server waits. */
const unlimited = new WeakSet<IncomingMessage>()

/** Returns whether the time in which a request has to arrive is not limited by the server. */
export const isUnlimited = (request: IncomingMessage): boolean => unlimited.has(request)

/** Leaves the limits of time of a request to its handler. @returns ends that, to be called before it responds */
export function suspendTimeouts({ raw, server, timeout }: FastifyRequest): () => void {
  clearTimeout(timeout ?? undefined)
  unlimited.add(raw)
  raw.socket.setTimeout(0)
  return () => {
    unlimited.delete(raw)
    raw.socket.setTimeout(server.server.timeout)
  }
}

/** Why a connection is closed: the label of the metric, and the message of the log. */
const REASONS = {
  time: 'the client did not read the response in time',
  memory: 'unread responses use too much memory',
}

/** Closes the connection of a request whose response the client does not read. */
function closeConnection({ log, raw }: FastifyRequest, reason: keyof typeof REASONS, details: object) {
  // With pipelining, an earlier response may have closed the connection.
  if (raw.socket.destroyed) return
  log.warn(details, `connection closed: ${REASONS[reason]}`)
  connectionClosed.publish({ reason })
  // The request's socket: a pipelined response behind another one has none yet.
  raw.socket.destroy()
}

/** Closes the connections with the oldest unread responses while all together are longer than `maxLength`. */
function limitUnread(app: FastifyInstance, maxLength: number) {
  const lengths = new Map<FastifyRequest, number>()
  let totalLength = 0

  const forget = (request: FastifyRequest) => {
    totalLength -= lengths.get(request) ?? 0
    lengths.delete(request)
  }
  app.addHook('onSend', (request, reply, payload, done) => {
    const lifetime = getLifetime(reply.raw)
    lifetime.answer()
    const length = typeof payload === 'string' || payload instanceof Buffer ? Buffer.byteLength(payload) : 0
    if (length > MIN_TRACKED_LENGTH) {
      lengths.set(request, length)
      totalLength += length
      lifetime.untilEnd(() => forget(request))
      // A Map iterates in insertion order, so the oldest comes first. A single response may exceed the limit.
      for (const oldest of lengths.keys()) {
        if (totalLength <= maxLength || oldest === request) break
        forget(oldest)
        closeConnection(oldest, 'memory', { bytes: totalLength })
      }
    }
    done(null, payload)
  })
}

async function timeouts(app: FastifyInstance, options: TimeoutOptions) {
  const { responseTimeoutMs = 10_000, readTimeoutMs = 20_000 } = options
  const { maxUnreadLength = getHeapStatistics().heap_size_limit / 8 } = options

  const closeUnread = (request: FastifyRequest) =>
    closeConnection(request, 'time', { taking_ms: responseTimeoutMs + readTimeoutMs })
  const expire = (request: FastifyRequest, reply: FastifyReply) => {
    // While the body is still arriving, the `requestTimeout` of the parser applies.
    if (!request.raw.complete) return request.timeout?.refresh()
    request.timeout = setTimeout(closeUnread, readTimeoutMs, request)
    const message = 'The server did not respond in time'
    if (!reply.sent) reply.send(apiError('SERVICE_UNAVAILABLE', { retryAfter: 2, message }))
  }

  app.decorateRequest('timeout', null)
  // Registered before credentials, rate limits and handlers, so that it covers their rejections too. Requests that an
  // earlier hook rejects (headers, method, address) get a small response synchronously. If a client does not read that,
  // the server's `connectionTimeout` closes the connection.
  app.addHook('onRequest', (request, reply, done) => {
    request.timeout = setTimeout(expire, responseTimeoutMs, request, reply)
    getLifetime(reply.raw).untilEnd(() => clearTimeout(request.timeout ?? undefined))
    done()
  })
  limitUnread(app, maxUnreadLength)
}

export default fp(timeouts, { name: 'timeouts', dependencies: ['errors'] })
