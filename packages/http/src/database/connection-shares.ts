/**
 * Limits the connections to the primary database that the writes of one user hold: to half of the pool, at least one. A
 * write may wait for locks, so that with all connections, one user's writes could keep the requests of others waiting.
 */
import { apiError } from '@resource-api/api/errors'
import { createKeyedQueue, type OnQueue } from '@resource-api/database/concurrency'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

/** As for a connection. */
const DEFAULT_MAX_WAIT_MS = 2000

/** @param acquireTimeout milliseconds that a write may wait */
function createConnectionShares(poolSize: number, acquireTimeout = DEFAULT_MAX_WAIT_MS) {
  const queue = createKeyedQueue({
    size: Math.max(1, Math.floor(poolSize / 2)),
    acquireTimeout,
    createError: () =>
      apiError('SERVICE_UNAVAILABLE', {
        message: 'Earlier writes of this user hold their share of the database connections; try again',
        retryAfter: 2,
        contention: 'share',
      }),
  })
  return {
    /**
     * Runs work that takes a connection, and gives back the share when it ends. It must not be called inside such work.
     * @param onQueue see `Semaphore.run`
     * @throws ApiError 503 if the user's other writes take too long
     */
    run: <T>(userId: string, work: () => Promise<T>, onQueue?: OnQueue): Promise<T> =>
      queue.run(userId, work, onQueue),
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    connectionShares: ReturnType<typeof createConnectionShares>
  }
}

export default fp(
  async (app: FastifyInstance, { maxWaitMs }: { maxWaitMs?: number }) => {
    app.decorate('connectionShares', createConnectionShares(app.poolSize, maxWaitMs))
  },
  { name: 'connection-shares', dependencies: ['errors', 'database'] },
)
