/** Rate limits: counts each request, sends the X-RateLimit headers, and limits a user's concurrent requests. */
import { channel } from 'node:diagnostics_channel'
import type { IncomingMessage } from 'node:http'
import type {} from '@resource-api/api/access'
import { apiError } from '@resource-api/api/errors'
import { disconnected, getLifetime } from '@resource-api/api/requests'
import type { MaybePromise } from '@resource-api/database/concurrency'
import { DEFAULT_SCHEMA } from '@resource-api/database/migrations'
import { getChannelName } from '@resource-api/database/values'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config/settings.ts'
import { createAddressReader } from '../http/server-options.ts'
import { createLimits, type LimitHeaders, type LimitOptions, type OverloadedCount } from './limits.ts'
import type { RedisConnection } from './redis.ts'
import { createMemoryStore, refusedChannel, type Store } from './windows.ts'

export interface RateLimitConfig
  extends LimitOptions,
    Pick<Config, 'DATABASE_SCHEMA' | 'REDIS_URL' | 'TRUST_PROXY' | 'USER_CONCURRENCY'> {}

/** The share of a user's concurrency that a request holds. */
interface ConcurrencySlot {
  userId: string
  cost: number
  /** Whether a handler runs, which holds the slot to its end. */
  isAtWork: boolean
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Returns how many requests this one counts as; 1 if absent. The query string is not validated yet. */
    getCost?: (query: Readonly<Record<string, unknown>>) => number
  }
  interface FastifyInstance {
    limits: ReturnType<typeof createLimits>
    /** Counts a request that is refused because of overload: for its user if the credential is cached, else for its address. */
    countOverloaded(request: IncomingMessage): MaybePromise<OverloadedCount>
    concurrency: ReturnType<typeof createConcurrency>
    /** The connection to Redis; null without REDIS_URL. */
    redis: RedisConnection | null
  }
  interface FastifyRequest {
    concurrencySlot: ConcurrencySlot | null
    /** The headers of the window that replies describe; null before the request is counted. */
    limitHeaders: LimitHeaders | null
  }
}

/** `{ state }`: 'own' when this process starts to count by itself because Redis is unavailable, 'shared' after that. */
const storeChannel = channel(getChannelName('limits:store'))

/** Opens the store: in Redis if that is configured, else in memory. Services that share a Redis server count apart. */
export async function openStore(app: FastifyInstance, config: RateLimitConfig): Promise<Store> {
  const { DATABASE_SCHEMA: schema, now = Date.now, REDIS_URL: redisUrl } = config
  app.decorate('redis', null)
  const memory = createMemoryStore(now)
  if (redisUrl === undefined) return memory
  // Loaded only if it is configured.
  const { connectRedis, createRedisStore } = await import('./redis.ts')
  const redis = await connectRedis(redisUrl, schema === DEFAULT_SCHEMA ? undefined : schema)
  app.redis = redis
  app.addHook('onClose', async () => redis.close())
  redis.onChange((reason) => {
    const isShared = reason === undefined
    storeChannel.publish({ state: isShared ? 'shared' : 'own' })
    if (isShared) app.log.info('the store of the rate limits is available again')
    else
      app.log.warn({ reason }, 'the store of the rate limits is unavailable: this process counts by itself')
  })
  return createRedisStore(redis, memory)
}

/** @param limit maximum sum of the costs of one user's requests */
function createConcurrency(limit: number) {
  const costByUser = new Map<string, number>()

  // With a function per request that releases its slot, V8 allocated objects of requests in the old generation (allocation
  // site pretenuring): each scavenge left 1.9 MB behind instead of 0.2 (W1, --trace-gc).
  const release = ({ userId, cost }: ConcurrencySlot) => {
    const remaining = (costByUser.get(userId) ?? 0) - cost
    if (remaining > 0) costByUser.set(userId, remaining)
    else costByUser.delete(userId)
  }

  return {
    /**
     * Takes a slot until the response begins or, if a handler runs then, until that ends. Throws ApiError 429 if the user's
     * other requests cost too much: a request that costs more than the limit is admitted while it is the only one.
     */
    acquire(request: FastifyRequest, reply: FastifyReply, userId: string, cost: number): void {
      const used = costByUser.get(userId) ?? 0
      if (used > 0 && used + cost > limit) {
        refusedChannel.publish({ window: 'concurrency' })
        throw apiError('RATE_LIMIT_EXCEEDED', {
          message: 'Too many concurrent requests; wait for the responses to earlier ones',
          retryAfter: 1,
        })
      }
      costByUser.set(userId, used + cost)
      const slot = { userId, cost, isAtWork: false }
      request.concurrencySlot = slot
      getLifetime(reply.raw).untilAnswered(() => slot.isAtWork || release(slot))
    },

    /**
     * Keeps the slot of a request until `release`, also after the response (a 503 by timeout) or the connection has ended.
     * @throws if the client does not wait any more: its handler does not begin
     */
    hold(request: FastifyRequest, reply: FastifyReply): ConcurrencySlot | null {
      if (!getLifetime(reply.raw).isAwaited) throw disconnected
      const slot = request.concurrencySlot
      if (slot) slot.isAtWork = true
      return slot
    },

    release,
  }
}

async function rateLimits(app: FastifyInstance, { store, ...config }: RateLimitConfig & { store: Store }) {
  const limiter = createLimits(app, store, config)
  const getClientAddress = createAddressReader(config)
  app.decorate('limits', limiter)
  app.decorate('countOverloaded', (request) =>
    limiter.countOverloaded(app.callers.peek(request.headers), getClientAddress(request)),
  )
  app.decorate('concurrency', createConcurrency(config.USER_CONCURRENCY))
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

export default fp(rateLimits, { name: 'rate-limits', dependencies: ['errors', 'response-headers'] })

/** Counts the requests of a version's scope, after authentication. */
export const countRequests = fp(
  async (app: FastifyInstance) => {
    app.addHook<{ Querystring: Record<string, unknown> }>('onRequest', async (request, reply) => {
      const { actor, query } = request
      // Public routes count by themselves.
      if (!actor) return
      const cost = request.routeOptions.config.getCost?.(query) ?? 1
      if (actor.credential === 'none') return app.limits.countAnonymous(request, cost)
      // Both in one round trip.
      await Promise.all([app.limits.countUser(request, actor, cost), app.readWriterMark?.(actor.userId)])
      app.concurrency.acquire(request, reply, actor.userId, cost)
    })
  },
  { name: 'count-requests', dependencies: ['limits', 'shared-writers', 'authenticate'] },
)
