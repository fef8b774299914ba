/**
 * Counts requests by IP address with @fastify/rate-limit, in the store of all windows. Windows of users are counted in
 * that store directly: the package adds 1 to one window, a user's request adds its cost to several in one round trip.
 */
import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import {
  ADDRESS_WINDOW_MS,
  type Amount,
  type Count,
  createAddressKey,
  type Store,
  selectReported,
} from './windows.ts'

type Done = (error: Error | null, result?: { current: number; ttl: number }) => void

/** Adapts a store to @fastify/rate-limit, which counts in one window at a time, with 1 or 0. */
function adaptStore(store: Store) {
  const countBy = (amount: Amount) => (key: string, done: Done, durationMs: number, limit: number) => {
    Promise.resolve(store.add(amount, [{ key, limit, durationMs }]))
      .then(selectReported)
      .then(
        ({ isExceeded, remaining, resetMs }) =>
          done(null, { current: isExceeded ? limit + 1 : limit - remaining, ttl: resetMs }),
        done,
      )
  }
  return class {
    incr = countBy(1)
    read = countBy(0)
    child = () => this
  }
}

/** Counts a request in a window of its address, or with 0 reads the window. */
type AddressCounter = (request: FastifyRequest, amount: 0 | 1) => Promise<Count>

/** @returns a function that creates the counter of a named window */
export async function createAddressCounters(app: FastifyInstance, store: Store) {
  await app.register(rateLimit, { global: false, timeWindow: ADDRESS_WINDOW_MS, store: adaptStore(store) })

  return (name: string, limit: number): AddressCounter => {
    const check = app.createRateLimit({
      max: limit,
      keyGenerator: (request) => createAddressKey(request, name),
    })
    return async (request, amount) => {
      const result = await check(request, { increment: amount > 0 })
      // Only an allow list, which is not configured, sets this.
      if (result.isAllowed) throw new Error('@fastify/rate-limit skipped the count of a request')
      const { key, timeWindow: durationMs, remaining, ttl: resetMs, isExceeded } = result
      return { key, limit, durationMs, remaining, resetMs, isExceeded }
    }
  }
}
