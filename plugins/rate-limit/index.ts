/** Rate limits: counts each request and sends the X-RateLimit headers. */
import { channel } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { getChannelName } from '../../lib/identity.ts'
import { type Concurrency, createConcurrency } from './concurrency.ts'
import { createLimits, type LimitHeaders, type LimitSettings } from './limits.ts'
import { createMemoryStore } from './memory-store.ts'
import type { RedisConnection } from './redis.ts'
import type { Store } from './windows.ts'

interface LimitsOptions extends LimitSettings {
  redisUrl: string | undefined
  /** Separates the counts of services that share a Redis server. */
  redisNamespace: string | undefined
  /** Maximum sum of the costs of one user's concurrent requests in a process. */
  userConcurrency: number
}

declare module 'fastify' {
  interface FastifyInstance {
    limits: Awaited<ReturnType<typeof createLimits>>
    concurrency: Concurrency
    /** The connection to Redis; null without REDIS_URL. */
    redis: RedisConnection | null
  }
  interface FastifyRequest {
    /** The headers of the window that replies describe; null before the request is counted. */
    limitHeaders: LimitHeaders | null
  }
}

/** `{ state }`: 'own' when this process starts to count by itself because Redis is unavailable, 'shared' after that. */
const storeChannel = channel(getChannelName('limits:store'))

/** Creates the store: in Redis if that is configured, else in memory. */
async function openStore(
  app: FastifyInstance,
  { redisUrl, redisNamespace, now }: LimitsOptions,
): Promise<Store> {
  const memory = createMemoryStore({ now })
  if (redisUrl === undefined) return memory
  // Loaded only if it is configured.
  const { openRedisStore } = await import('./redis-store.ts')
  const { redis, store } = await openRedisStore(redisUrl, redisNamespace, memory)
  app.redis = redis
  redis.onChange((state, reason) => {
    storeChannel.publish({ state })
    if (state === 'shared') app.log.info('the store of the rate limits is available again')
    else {
      app.log.warn({ reason }, 'the store of the rate limits is unavailable: this process counts by itself')
    }
  })
  app.addHook('onClose', async () => redis.close())
  return store
}

async function limits(app: FastifyInstance, options: LimitsOptions) {
  app.decorate('redis', null)
  const limiter = await createLimits(app, await openStore(app, options), options)
  const concurrency = createConcurrency(options.userConcurrency)
  app.decorate('limits', limiter)
  app.decorate('concurrency', concurrency)
  app.decorateRequest('concurrencySlot', null)
  app.decorateRequest('limitHeaders', null)

  // Not async: with a promise for each response, a read by id takes 6 % more CPU.
  app.addHook('onSend', (request, reply, payload, done) => {
    if (request.limitHeaders) reply.headers(request.limitHeaders)
    // Replies of a resource have the header Api-Version; a request that was refused earlier has no resource yet.
    else if (request.method !== 'OPTIONS' && reply.hasHeader('api-version')) {
      limiter.readAnonymousWindow(request).then((headers) => {
        reply.headers(headers)
        done(null, payload)
      }, done)
      return
    }
    done(null, payload)
  })
}

export default fp(limits, {
  name: 'limits',
  dependencies: ['errors', 'response-headers', 'sign-in-addresses'],
})

/** Counts the requests of a version's scope, after authentication. */
export const countRequests = fp(
  async (app: FastifyInstance) => {
    app.addHook<{ Querystring: Record<string, unknown> }>('onRequest', async (request, reply) => {
      const { actor, query } = request
      // Public routes count by themselves.
      if (!actor) return
      if (actor.credential === 'none') return app.limits.countAnonymous(request)
      const cost = request.routeOptions.config.getCost?.(query) ?? 1
      // Both in one round trip.
      await Promise.all([app.limits.countUser(request, actor, cost), app.readWriterMark?.(actor.userId)])
      app.concurrency.acquire(request, reply, actor.userId, cost)
    })
  },
  { name: 'count-requests', dependencies: ['limits', 'shared-writers', 'auth'] },
)
