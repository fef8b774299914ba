/** Rate limits: counts each request and sends the X-RateLimit headers. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { type Concurrency, createConcurrency } from './concurrency.ts'
import { createMemoryStore } from './memory-store.ts'
import { createLimits, type LimitHeaders, type LimitSettings } from './rules.ts'
import { createSharedStore, type StoreState } from './shared-store.ts'

interface LimitsOptions extends LimitSettings {
  redisUrl: string | undefined
  /** Separates the counts of services that share a Redis server. */
  redisNamespace: string | undefined
  /** Maximum sum of the costs of one user's concurrent requests in a process. */
  userConcurrency: number
  /** Called when this process starts to count by itself because Redis is unavailable, and when that ends. */
  onStoreChange?: (state: StoreState) => void
}

declare module 'fastify' {
  interface FastifyInstance {
    limits: Awaited<ReturnType<typeof createLimits>>
    concurrency: Concurrency
  }
  interface FastifyRequest {
    /** The headers of the window that replies describe; null before the request is counted. */
    limitHeaders: LimitHeaders | null
    /** Whether the count waits for the request's body, which selects the window. */
    limitPending: boolean
  }
}

async function openStore(
  app: FastifyInstance,
  { redisUrl: url, redisNamespace, now, onStoreChange }: LimitsOptions,
) {
  const memory = createMemoryStore({ now })
  if (url === undefined) return memory
  const { openRedisStore } = await import('./redis-store.ts')
  const shared = await createSharedStore({
    open: () => openRedisStore(url, redisNamespace),
    fallback: memory,
    log: app.log,
    onChange: onStoreChange,
  })
  app.addHook('onClose', async () => shared.close())
  return shared
}

async function limits(app: FastifyInstance, options: LimitsOptions) {
  const limiter = await createLimits(app, await openStore(app, options), options)
  const concurrency = createConcurrency(options.userConcurrency)
  app.decorate('limits', limiter)
  app.decorate('concurrency', concurrency)
  app.decorateRequest('concurrencySlot', null)
  app.decorateRequest('limitHeaders', null)
  app.decorateRequest('limitPending', false)

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
      const { access, getCost } = request.routeOptions.config
      if (!actor) {
        request.limitPending = access === 'public'
        return
      }
      if (actor.credential === 'none') return app.limits.countAnonymous(request)
      const cost = getCost?.(query) ?? 1
      await app.limits.countUser(request, actor, cost)
      app.concurrency.acquire(request, reply, actor.userId, cost)
    })
  },
  { name: 'count-requests', dependencies: ['limits', 'auth'] },
)
