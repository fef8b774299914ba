/** The security headers of pages, by @fastify/helmet. Those of the API are the same for all: http/response-headers.ts. */
import helmet from '@fastify/helmet'
import { securityPolicy } from '@resource-api/http'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

async function security(scope: FastifyInstance) {
  await scope.register(helmet, securityPolicy)
}

export default fp(security, { name: 'security' })
