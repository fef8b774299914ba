/** The limits of requests: @fastify/rate-limit counts those of addresses, in the store that those of users have too. */
import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import sharedWriters from './database/shared-writers.ts'
import { createRateLimitOptions } from './rate-limit/address-windows.ts'
import rateLimits, { openStore, type RateLimitConfig } from './rate-limit/index.ts'

async function limits(app: FastifyInstance, config: RateLimitConfig) {
  const store = await openStore(app, config)
  await app.register(rateLimit, createRateLimitOptions(store))
  await app.register(rateLimits, { ...config, store })
  await app.register(sharedWriters)
}

export default fp(limits, { name: 'limits', dependencies: ['database'] })
