/** An answer that takes too long is a 503: a client that waits for ever is worse off than one that may try again. */
import type { FastifyInstance, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from './errors.ts'

export interface DeadlineOptions {
  /** Counted from when the whole request has arrived; until then, Fastify's `requestTimeout` counts. */
  milliseconds?: number
}

/** Whether somebody waits for the answer: it was not sent yet, and the client is there. */
export const isAwaited = (reply: FastifyReply): boolean => !reply.sent && !reply.raw.destroyed

async function deadline(app: FastifyInstance, { milliseconds = 10_000 }: DeadlineOptions) {
  app.addHook('preHandler', (_request, reply, done) => {
    const timer = setTimeout(() => {
      if (reply.sent) return
      reply.send(apiError('SERVICE_UNAVAILABLE', { retryAfter: 2, message: 'The answer took too long' }))
    }, milliseconds)
    reply.raw.once('close', () => clearTimeout(timer))
    done()
  })
}

export default fp(deadline, { name: 'deadline', dependencies: ['errors'] })
