/** The limits of requests: @fastify/rate-limit counts those of addresses, in the store that those of users have too. */
import rateLimit from '@fastify/rate-limit'
import {
  createRateLimitOptions,
  openStore,
  type RateLimitConfig,
  rateLimits,
  sharedWriters,
} from '@resource-api/http'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

async function limits(app: FastifyInstance, config: RateLimitConfig) {
  const store = await openStore(app, config)
  await app.register(rateLimit, createRateLimitOptions(store))
  await app.register(rateLimits, { ...config, store })
  await app.register(sharedWriters)
}

export default fp(limits, { name: 'limits', dependencies: ['database'] })
