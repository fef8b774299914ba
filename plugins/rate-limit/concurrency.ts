/** Limits the concurrent requests of one user in this process. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { disconnected, getLifetime } from '../admission/request-lifetime.ts'
import { apiError } from '../errors/index.ts'
import { refusedChannel } from './windows.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Returns how many requests this one counts as; 1 if absent. The query string is not validated yet. */
    getCost?: (query: Readonly<Record<string, unknown>>) => number
  }
  interface FastifyRequest {
    /** The share of the user's concurrency that this request holds; that of a running handler is not here. */
    concurrencySlot: ConcurrencySlot | null
  }
}

interface ConcurrencySlot {
  userId: string
  cost: number
}

const RETRY_AFTER_SECONDS = 1

/** @param limit maximum sum of the costs of one user's requests */
export function createConcurrency(limit: number) {
  const costByUser = new Map<string, number>()

  // With a function per request that releases its slot, V8 began to allocate objects of requests in the old generation
  // (allocation site pretenuring): a third more CPU for a product by id.
  const release = ({ userId, cost }: ConcurrencySlot) => {
    const remaining = (costByUser.get(userId) ?? 0) - cost
    if (remaining > 0) costByUser.set(userId, remaining)
    else costByUser.delete(userId)
  }

  /** Takes the slot out of the request: the caller releases it. */
  const detach = (request: FastifyRequest): ConcurrencySlot | null => {
    const slot = request.concurrencySlot
    request.concurrencySlot = null
    return slot
  }

  return {
    /**
     * Takes a slot until the response begins, or longer if a handler takes it over. A request that costs more than the
     * limit is admitted while it is the only one.
     * @throws ApiError 429 if the user's other requests already cost too much
     */
    acquire(request: FastifyRequest, reply: FastifyReply, userId: string, cost: number): void {
      const used = costByUser.get(userId) ?? 0
      if (used > 0 && used + cost > limit) {
        refusedChannel.publish({ window: 'concurrency' })
        throw apiError('RATE_LIMIT_EXCEEDED', {
          message: 'Too many concurrent requests; wait for the responses to earlier ones',
          retryAfter: RETRY_AFTER_SECONDS,
        })
      }
      costByUser.set(userId, used + cost)
      request.concurrencySlot = { userId, cost }
      getLifetime(reply.raw).untilAnswered(() => {
        const slot = detach(request)
        if (slot) release(slot)
      })
    },

    /**
     * Wraps a handler, which begins only if the client still waits. Then it runs to its end and holds the slot until
     * then, also after the response (a 503 by timeout) or the connection has ended.
     */
    holdDuring:
      <Request extends FastifyRequest>(
        handler: (request: Request, reply: FastifyReply) => Promise<unknown>,
      ) =>
      async (request: Request, reply: FastifyReply): Promise<unknown> => {
        if (!getLifetime(reply.raw).isAwaited) throw disconnected
        const slot = detach(request)
        try {
          return await handler(request, reply)
        } finally {
          if (slot) release(slot)
        }
      },
  }
}

export type Concurrency = ReturnType<typeof createConcurrency>
