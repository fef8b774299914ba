/** Rate limits: who may ask how often; what every reply tells of it. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Writers } from './database/index.ts'
import { createMemory } from './limits/memory.ts'
import { createLimits, type Rules } from './limits/rules.ts'
import { createShared } from './limits/shared.ts'
import { configOf } from './route-config.ts'
import { end, type Soon } from './soon.ts'

export interface LimitsOptions extends Rules {
  redisUrl: string | undefined
  writers?: Writers | undefined
}

declare module 'fastify' {
  interface FastifyInstance {
    limits: Awaited<ReturnType<typeof createLimits>>
  }
  interface FastifyRequest {
    /** What the reply tells; `reset` in epoch seconds. */
    limit: { limit: number; remaining: number; reset: number } | null
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

async function openStore(app: FastifyInstance, { redisUrl: url, now, writers }: LimitsOptions) {
  const own = createMemory({ now })
  if (url === undefined) return own
  const { openRedis } = await import('./limits/redis.ts')
  const onChange = (state: 'shared' | 'own') => writers?.doubt(state === 'own')
  const shared = await createShared({ open: () => openRedis(url), own, log: app.log, onChange })
  app.addHook('onClose', async () => shared.close())
  return shared
}

async function limits(app: FastifyInstance, options: LimitsOptions) {
  const rules = await createLimits(app, await openStore(app, options), options)
  app.decorate('limits', rules)
  app.decorateRequest('limit', null)
  app.decorateRequest('owesLimit', false)

  app.addHook('onSend', (request, reply, payload, done) => {
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

export default fp(limits, { name: 'limits', dependencies: ['errors', 'addressing'] })

/** In a version's scope, after authentication. */
export const limited = fp(
  async (app: FastifyInstance) => {
    const count = (request: FastifyRequest): Soon<void> => {
      const { actor } = request
      if (actor?.credential === 'none') return app.limits.stranger(request)
      if (actor) return app.limits.user(request, actor)
      if (configOf(request).access === 'public') app.limits.grant(request)
    }
    app.addHook('onRequest', (request, _reply, done) => end(count(request), done))
  },
  { name: 'limited', dependencies: ['limits', 'auth'] },
)
