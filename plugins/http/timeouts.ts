/** An answer that takes too long is a 503, and one that is not taken ends with its connection: nobody waits for ever. */
import { channel } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'

export interface DeadlineOptions {
  /** Counted from when the whole request has arrived; until then, Fastify's `requestTimeout` counts. */
  milliseconds?: number | undefined
  /** How much longer the client may take to read its answer, however slowly it does. */
  taking?: number | undefined
}

const untaken = channel('resource-api:overload:untaken')

declare module 'fastify' {
  interface FastifyRequest {
    deadline: NodeJS.Timeout | null
  }
}

async function deadline(app: FastifyInstance, { milliseconds = 10_000, taking = 20_000 }: DeadlineOptions) {
  const cut = (request: FastifyRequest) => {
    // Of several answers on one connection, the first that was not taken has ended it.
    if (request.raw.socket.destroyed) return
    request.log.warn({ taking_ms: milliseconds + taking }, 'the client does not take its answer')
    if (untaken.hasSubscribers) untaken.publish({ reason: 'time' })
    // Of a reply that stands behind others on its connection, the raw one has no socket yet.
    request.raw.socket.destroy()
  }
  const expire = (request: FastifyRequest, reply: FastifyReply) => {
    // A body that still arrives is the parser's matter.
    if (!request.raw.complete) return request.deadline?.refresh()
    request.deadline = setTimeout(cut, taking, request)
    if (!reply.sent) {
      reply.send(apiError('SERVICE_UNAVAILABLE', { retryAfter: 2, message: 'The answer took too long' }))
    }
  }

  app.decorateRequest('deadline', null)
  // First of all hooks: an answer that is a refusal can be left untaken like any other.
  app.addHook('onRequest', (request, reply, done) => {
    request.deadline = setTimeout(expire, milliseconds, request, reply)
    reply.raw.on('close', () => clearTimeout(request.deadline ?? undefined))
    done()
  })
  app.addHook('preValidation', (request, _reply, done) => {
    if (request.body !== undefined) request.deadline?.refresh()
    done()
  })
}

export default fp(deadline, { name: 'deadline', dependencies: ['errors'] })
