/** Serves `/livez` (the process runs) and `/readyz` (it can serve requests) for orchestrators and load balancers. */
import type {} from '@resource-api/api/documents'
import { apiError } from '@resource-api/api/errors'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifySchema } from 'fastify'
import fp from 'fastify-plugin'

const PING_TIMEOUT_MS = 1_000

const ok = { status: 'ok' } as const

const response = {
  200: {
    description: 'The check succeeded',
    content: {
      'application/json': {
        schema: Type.Object(
          { status: Type.Literal('ok', { description: 'Always `ok`' }) },
          { title: 'Health', description: 'The result of a successful check' },
        ),
        examples: { 'Health.ok': { summary: 'The check succeeded', value: ok } },
      },
    },
  },
}

const liveness: FastifySchema = {
  operationId: 'getLiveness',
  summary: 'Check whether the process runs',
  tags: ['health'],
  description: 'Does not depend on the database. If there is no response, restart the process.',
  response,
  failures: [],
}

const readiness: FastifySchema = {
  operationId: 'getReadiness',
  summary: 'Check whether requests can be served',
  tags: ['health'],
  description: 'Fails with 503 if the database does not answer or a shutdown has begun.',
  response,
  failures: [503],
}

async function health(app: FastifyInstance) {
  app.get('/livez', { config: { access: 'public' }, schema: liveness }, async (_request, reply) => {
    reply.header('Cache-Control', 'no-store')
    return ok
  })

  app.get('/readyz', { config: { access: 'public' }, schema: readiness }, async (_request, reply) => {
    if (app.draining && !app.isReplaced) {
      throw apiError('SERVICE_UNAVAILABLE', { retryAfter: 1, message: 'The service is shutting down' })
    }
    await app.database.ping(PING_TIMEOUT_MS).catch((cause: unknown) => {
      throw apiError('SERVICE_UNAVAILABLE', { retryAfter: 1, cause })
    })
    reply.header('Cache-Control', 'no-store')
    return ok
  })
}

export default fp(health, { name: 'health', dependencies: ['database', 'errors', 'shutdown'] })
