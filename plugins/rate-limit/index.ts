/** Rate limits: counts each request and sends the X-RateLimit headers. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { isObject } from '../../lib/is-object.ts'
import { type MaybePromise, mapMaybe, settleHook } from '../../lib/maybe-promise.ts'
import { getRouteConfig } from '../http/route-config.ts'
import { type Concurrency, createConcurrency } from './concurrency.ts'
import { createMemoryStore } from './memory-store.ts'
import { createLimits, type LimitSettings, type WindowState } from './rules.ts'
import { createSharedStore, type StoreState } from './shared-store.ts'

interface LimitsOptions extends LimitSettings {
  redisUrl: string | undefined
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
    /** The window that the X-RateLimit headers describe; null before the request is counted. */
    limit: WindowState | null
    /** Whether the count waits for the request's body, which selects the window. */
    limitPending: boolean
  }
}

const setHeaders = ({ limit }: FastifyRequest, reply: FastifyReply) => {
  if (!limit) return
  // Lower case saves Fastify the conversion for each reply.
  reply.header('x-ratelimit-limit', limit.limit)
  reply.header('x-ratelimit-remaining', limit.remaining)
  reply.header('x-ratelimit-reset', limit.reset)
}

async function openStore(app: FastifyInstance, { redisUrl: url, now, onStoreChange }: LimitsOptions) {
  const memory = createMemoryStore({ now })
  if (url === undefined) return memory
  const { openRedisStore } = await import('./redis-store.ts')
  const shared = await createSharedStore({
    open: () => openRedisStore(url),
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
  app.decorateRequest('limit', null)
  app.decorateRequest('limitPending', false)

  app.addHook('onSend', (request, reply, payload, done) => {
    concurrency.releaseUnhandled(request)
    // Replies of a resource have the header Api-Version; a request that was refused earlier has no resource yet.
    const needsWindow = request.method !== 'OPTIONS' && reply.hasHeader('api-version')
    if (!needsWindow || request.limit) {
      setHeaders(request, reply)
      done(null, payload)
      return
    }
    limiter.readAnonymousWindow(request).then(() => {
      setHeaders(request, reply)
      done(null, payload)
    }, done)
  })
}

export default fp(limits, {
  name: 'limits',
  dependencies: ['errors', 'response-headers', 'sign-in-addresses'],
})

/** Counts the requests of a version's scope, after authentication. */
export const countRequests = fp(
  async (app: FastifyInstance) => {
    const count = (request: FastifyRequest): MaybePromise<void> => {
      const { actor } = request
      if (actor?.credential === 'none') return app.limits.countAnonymous(request)
      const { access, getCost } = getRouteConfig(request)
      if (actor) {
        const cost = getCost && isObject(request.query) ? getCost(request.query) : 1
        return mapMaybe(app.limits.countUser(request, actor, cost), () =>
          app.concurrency.acquire(request, actor.userId, cost),
        )
      }
      if (access === 'public') request.limitPending = true
    }
    app.addHook('onRequest', (request, _reply, done) => settleHook(count(request), done))
  },
  { name: 'count-requests', dependencies: ['limits', 'auth'] },
)
