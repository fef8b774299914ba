/** Limits the concurrent requests of one user in this process. */
import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { apiError } from '../errors/index.ts'
import { refusedChannel } from './channels.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Returns how many requests this one counts as; 1 if absent. The query string is not validated yet. */
    getCost?: (query: Readonly<Record<string, unknown>>) => number
  }
  interface FastifyRequest {
    /** The share of the user's concurrency that this request holds. */
    concurrencySlot: ConcurrencySlot | null
  }
}

interface ConcurrencySlot {
  userId: string
  cost: number
  /** Whether the handler runs. It may run longer than the response, for instance after a 503 by timeout. */
  isHandlerRunning: boolean
}

const RETRY_AFTER_SECONDS = 1

/** @param limit maximum sum of the costs of one user's requests */
export function createConcurrency(limit: number) {
  const costByUser = new Map<string, number>()

  /** Releases the slot of a request, if it has one. */
  const release = (request: FastifyRequest) => {
    const slot = request.concurrencySlot
    if (!slot) return
    request.concurrencySlot = null
    const remaining = (costByUser.get(slot.userId) ?? 0) - slot.cost
    if (remaining > 0) costByUser.set(slot.userId, remaining)
    else costByUser.delete(slot.userId)
  }

  return {
    /**
     * Takes a slot for the request. A request that costs more than the limit is admitted while it is the only one.
     * @throws ApiError 429 if the user's other requests already cost too much
     */
    acquire(request: FastifyRequest, userId: string, cost: number): void {
      const used = costByUser.get(userId) ?? 0
      if (used > 0 && used + cost > limit) {
        if (refusedChannel.hasSubscribers) refusedChannel.publish({ window: 'concurrency' })
        throw apiError('RATE_LIMIT_EXCEEDED', {
          message: 'Too many concurrent requests; wait for the responses to earlier ones',
          retryAfter: RETRY_AFTER_SECONDS,
        })
      }
      costByUser.set(userId, used + cost)
      request.concurrencySlot = { userId, cost, isHandlerRunning: false }
    },

    release,

    /** Wraps a handler so that its request holds the slot until the handler ends, even if the client disconnects. */
    holdDuring:
      (handler: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>): RouteHandlerMethod =>
      async (request, reply) => {
        if (request.concurrencySlot) request.concurrencySlot.isHandlerRunning = true
        try {
          return await handler(request, reply)
        } finally {
          release(request)
        }
      },
  }
}

export type Concurrency = ReturnType<typeof createConcurrency>
