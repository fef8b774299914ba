/** Responds 503 when a request takes too long, and closes the connection when the client does not read the response. */
import { channel } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'

export interface TimeoutOptions {
  /** Time to answer a request that has arrived completely. Until then, Fastify's `requestTimeout` applies. */
  responseTimeoutMs?: number | undefined
  /** Additional time for the client to read the response. */
  readTimeoutMs?: number | undefined
}

const connectionClosed = channel('resource-api:overload:untaken')

declare module 'fastify' {
  interface FastifyRequest {
    /** The response timeout and, once that has expired, the read timeout. */
    timeout: NodeJS.Timeout | null
  }
}

async function timeouts(app: FastifyInstance, options: TimeoutOptions) {
  const { responseTimeoutMs = 10_000, readTimeoutMs = 20_000 } = options

  const closeConnection = (request: FastifyRequest) => {
    // With pipelining, the timeout of an earlier response may have closed the connection.
    if (request.raw.socket.destroyed) return
    request.log.warn(
      { taking_ms: responseTimeoutMs + readTimeoutMs },
      'connection closed: the client did not read the response in time',
    )
    if (connectionClosed.hasSubscribers) connectionClosed.publish({ reason: 'time' })
    // The request's socket: a pipelined response behind another one has none yet.
    request.raw.socket.destroy()
  }
  const expire = (request: FastifyRequest, reply: FastifyReply) => {
    // While the body is still arriving, the `requestTimeout` of the parser applies.
    if (!request.raw.complete) return request.timeout?.refresh()
    request.timeout = setTimeout(closeConnection, readTimeoutMs, request)
    if (!reply.sent) {
      reply.send(
        apiError('SERVICE_UNAVAILABLE', { retryAfter: 2, message: 'The server did not respond in time' }),
      )
    }
  }

  app.decorateRequest('timeout', null)
  // Registered before credentials, rate limits and handlers, so that it covers their rejections too. Requests that an
  // earlier hook rejects (headers, method, address) get a small response synchronously. If a client does not read that,
  // the server's `connectionTimeout` closes the connection.
  app.addHook('onRequest', (request, reply, done) => {
    request.timeout = setTimeout(expire, responseTimeoutMs, request, reply)
    reply.raw.on('close', () => clearTimeout(request.timeout ?? undefined))
    done()
  })
  app.addHook('preValidation', (request, _reply, done) => {
    if (request.body !== undefined) request.timeout?.refresh()
    done()
  })
}

export default fp(timeouts, { name: 'timeouts', dependencies: ['errors'] })
