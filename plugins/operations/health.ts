/** Serves `/livez` (the process runs) and `/readyz` (it can serve requests) for orchestrators and load balancers. */
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'
import { describeResponse } from '../openapi/replies.ts'

const PING_TIMEOUT_MS = 1_000

const okResponse = {
  200: describeResponse({
    description: 'The check succeeded',
    schema: Type.Object({ status: Type.Literal('ok') }, { title: 'Health' }),
    examples: { ok: { summary: 'The check succeeded', value: { status: 'ok' } } },
    unversioned: true,
  }),
}
const ok = { status: 'ok' } as const

async function health(app: FastifyInstance) {
  app.get(
    '/livez',
    {
      config: { access: 'public' },
      schema: {
        tags: ['health'],
        operationId: 'getLiveness',
        summary: 'Check whether the process runs',
        description: 'Does not depend on the database. If there is no response, restart the process.',
        response: okResponse,
        failures: [408, 431],
      },
    },
    async (_request, reply) => {
      reply.header('Cache-Control', 'no-store')
      return ok
    },
  )

  app.get(
    '/readyz',
    {
      config: { access: 'public' },
      schema: {
        tags: ['health'],
        operationId: 'getReadiness',
        summary: 'Check whether requests can be served',
        description: 'Fails with 503 if the database does not answer or a shutdown has begun.',
        response: okResponse,
        failures: [408, 431, 503],
      },
    },
    async (_request, reply) => {
      if (app.draining) {
        throw apiError('SERVICE_UNAVAILABLE', { retryAfter: 1, message: 'The service is shutting down' })
      }
      await app.database.ping(PING_TIMEOUT_MS).catch((cause: unknown) => {
        throw apiError('SERVICE_UNAVAILABLE', { retryAfter: 1, cause })
      })
      reply.header('Cache-Control', 'no-store')
      return ok
    },
  )
}

export default fp(health, {
  name: 'health',
  dependencies: ['database', 'errors', 'shutdown'],
})
