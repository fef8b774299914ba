/** Windows of one minute per IP address: those of @fastify/rate-limit, counted in the store of all other windows. */
import rateLimit, { normalizeIP } from '@fastify/rate-limit'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Amount, Count, Store, Window } from './types.ts'

const WINDOW_MS = 60_000
/** Providers usually assign a /64 of IPv6 addresses to one customer. */
const IPV6_PREFIX_BITS = 64

/** Returns the client's IP address: the /64 network of an IPv6 address, and the IPv4 address of an IPv4-mapped one. */
export const getClientIp = ({ ip }: FastifyRequest): string => normalizeIP(ip, IPV6_PREFIX_BITS)

/** Returns a window of an address: the same as a request's own, for requests that Fastify does not see. */
export const createAddressWindow = (ip: string, name: string, limit: number): Window => ({
  key: `{${normalizeIP(ip, IPV6_PREFIX_BITS)}}:${name}`,
  limit,
  durationMs: WINDOW_MS,
})

type Done = (error: Error | null, result?: { current: number; ttl: number }) => void

/** Adapts a store to the interface of @fastify/rate-limit: a class with callbacks, for one window at a time. */
const createStoreClass = (store: Store) =>
  class {
    private add(amount: Amount, key: string, done: Done, durationMs: number, limit: number) {
      Promise.resolve(store.add(amount, [{ key, limit, durationMs }])).then(
        ([count]) => {
          const used = limit - (count?.remaining ?? 0)
          done(null, { current: count?.isExceeded ? limit + 1 : used, ttl: count?.resetMs ?? 0 })
        },
        (error: Error) => done(error),
      )
    }

    incr(key: string, done: Done, durationMs: number, limit: number) {
      this.add(1, key, done, durationMs, limit)
    }

    read(key: string, done: Done, durationMs: number, limit: number) {
      this.add(0, key, done, durationMs, limit)
    }

    /** Returns the store itself for each route: the windows differ in their keys. */
    child() {
      return this
    }
  }

/** Counts a request in a window of its address, or with 0 reads the window. */
type AddressCounter = (request: FastifyRequest, amount: 0 | 1) => Promise<Count>

/** @returns a function that creates the counter of a named window */
export async function createAddressCounters(app: FastifyInstance, store: Store) {
  await app.register(rateLimit, { global: false, store: createStoreClass(store) })

  return (name: string, limit: number): AddressCounter => {
    const keyGenerator = (request: FastifyRequest) => `{${getClientIp(request)}}:${name}`
    const countRequest = app.createRateLimit({ max: limit, timeWindow: WINDOW_MS, keyGenerator })
    return async (request, amount) => {
      const result = await countRequest(request, { increment: amount > 0 })
      // Only an allow list, which is not configured, sets this.
      if (result.isAllowed) throw new Error('@fastify/rate-limit skipped the count of a request')
      const { key, remaining, ttl: resetMs, isExceeded } = result
      return { key, limit, remaining, resetMs, isExceeded }
    }
  }
}
