/** Tells an orchestrator whether the process runs, and whether requests should be sent to it. */
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'
import { reply as describeReply } from '../openapi/replies.ts'

/** Milliseconds within which the database must answer. */
const PATIENCE = 1_000

const answer = {
  200: describeReply({
    description: 'Yes',
    schema: Type.Object({ status: Type.Literal('ok') }, { title: 'Health' }),
    examples: { yes: { summary: 'Yes', value: { status: 'ok' } } },
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
        summary: 'Whether the process runs',
        description: 'Answers as long as there is a process to answer; where it does not, start another.',
        response: answer,
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
        summary: 'Whether requests can be served',
        description: 'They can while the database answers and no shutdown has begun.',
        response: answer,
        failures: [408, 431, 503],
      },
    },
    async (_request, reply) => {
      if (app.draining) {
        throw apiError('SERVICE_UNAVAILABLE', { retryAfter: 1, message: 'The service is shutting down' })
      }
      await app.database.ping(PATIENCE).catch((cause: unknown) => {
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
