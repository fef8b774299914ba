/** Rate limits: who may ask how often; what every reply tells of it. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { type MaybePromise, mapMaybe, settleHook } from '../../lib/maybe-promise.ts'
import { configOf } from '../http/route-config.ts'
import { type Concurrency, createConcurrency } from './concurrency.ts'
import { createMemory } from './memory.ts'
import { createLimits, type Rules, type WindowState } from './rules.ts'
import { createShared } from './shared.ts'

interface LimitsOptions extends Rules {
  redisUrl: string | undefined
  /** How many requests of one user a process works on at the same time. */
  userConcurrency: number
  /** Called when this process begins to count for itself because Redis is unavailable, and when that ends. */
  onStoreChange?: (state: 'shared' | 'own') => void
}

declare module 'fastify' {
  interface FastifyInstance {
    limits: Awaited<ReturnType<typeof createLimits>>
    concurrency: Concurrency
  }
  interface FastifyRequest {
    /** What the reply tells; `reset` in epoch seconds. */
    limit: WindowState | null
    /** Whether it is yet to be counted: in which window stands in its body. */
    owesLimit: boolean
  }
}

const write = ({ limit }: FastifyRequest, reply: FastifyReply) => {
  if (!limit) return
  // In small letters: others Fastify would have to make small for each reply.
  reply.header('x-ratelimit-limit', limit.limit)
  reply.header('x-ratelimit-remaining', limit.remaining)
  reply.header('x-ratelimit-reset', limit.reset)
}

async function openStore(app: FastifyInstance, { redisUrl: url, now, onStoreChange }: LimitsOptions) {
  const own = createMemory({ now })
  if (url === undefined) return own
  const { openRedis } = await import('./redis.ts')
  const shared = await createShared({
    open: () => openRedis(url),
    own,
    log: app.log,
    onChange: onStoreChange,
  })
  app.addHook('onClose', async () => shared.close())
  return shared
}

async function limits(app: FastifyInstance, options: LimitsOptions) {
  const rules = await createLimits(app, await openStore(app, options), options)
  const concurrency = createConcurrency(options.userConcurrency)
  app.decorate('limits', rules)
  app.decorate('concurrency', concurrency)
  app.decorateRequest('concurrencySlot', null)
  app.decorateRequest('limit', null)
  app.decorateRequest('owesLimit', false)

  app.addHook('onSend', (request, reply, payload, done) => {
    concurrency.releaseUnhandled(request)
    // What says its version is a resource's reply; what was refused before is of no resource yet.
    const isTold = request.method !== 'OPTIONS' && reply.hasHeader('api-version')
    if (!isTold || request.limit) {
      write(request, reply)
      done(null, payload)
      return
    }
    rules.settle(request).then(() => {
      write(request, reply)
      done(null, payload)
    }, done)
  })
}

export default fp(limits, { name: 'limits', dependencies: ['errors', 'addressing', 'sign-in-addresses'] })

const queryOf = (request: FastifyRequest) => request.query as Readonly<Record<string, unknown>>

/** In a version's scope, after authentication. */
export const limited = fp(
  async (app: FastifyInstance) => {
    const count = (request: FastifyRequest): MaybePromise<void> => {
      const { actor } = request
      if (actor?.credential === 'none') return app.limits.stranger(request)
      const { access, getCost } = configOf(request)
      if (actor) {
        const cost = getCost ? getCost(queryOf(request)) : 1
        return mapMaybe(app.limits.user(request, actor, cost), () =>
          app.concurrency.acquire(request, actor.userId, cost),
        )
      }
      if (access === 'public') app.limits.grant(request)
    }
    app.addHook('onRequest', (request, _reply, done) => settleHook(count(request), done))
  },
  { name: 'limited', dependencies: ['limits', 'auth'] },
)
