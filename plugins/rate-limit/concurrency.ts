/** Limits how many requests of one user this process works on at the same time. */
import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { apiError } from '../errors/index.ts'
import { refusedChannel } from './channels.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Returns how many requests this one counts as; 1 if absent. The query is not validated yet. */
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
  /** Whether the handler runs. It may go on after the reply, for instance after a 503 by timeout. */
  isHandlerRunning: boolean
}

const RETRY_AFTER_SECONDS = 1

/** @param limit the highest sum of costs per user */
export function createConcurrency(limit: number) {
  const costByUser = new Map<string, number>()

  const release = (request: FastifyRequest) => {
    const slot = request.concurrencySlot
    if (!slot) return
    request.concurrencySlot = null
    const left = (costByUser.get(slot.userId) ?? 0) - slot.cost
    if (left > 0) costByUser.set(slot.userId, left)
    else costByUser.delete(slot.userId)
  }

  return {
    /**
     * Takes a slot for the request. A request that costs more than the limit is admitted while it is the only one.
     * @throws ApiError 429 if the user's other requests leave no room
     */
    acquire(request: FastifyRequest, userId: string, cost: number): void {
      const used = costByUser.get(userId) ?? 0
      if (used > 0 && used + cost > limit) {
        if (refusedChannel.hasSubscribers) refusedChannel.publish({ window: 'concurrency' })
        throw apiError('RATE_LIMIT_EXCEEDED', {
          message: 'Too many concurrent requests; wait for the answers to earlier ones',
          retryAfter: RETRY_AFTER_SECONDS,
        })
      }
      costByUser.set(userId, used + cost)
      request.concurrencySlot = { userId, cost, isHandlerRunning: false }
    },

    /** Releases the slot of a request that was answered before its handler ran. */
    releaseUnhandled(request: FastifyRequest): void {
      if (request.concurrencySlot && !request.concurrencySlot.isHandlerRunning) release(request)
    },

    /** Wraps a handler so that its request holds the slot for as long as the handler works, also if the client leaves. */
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
