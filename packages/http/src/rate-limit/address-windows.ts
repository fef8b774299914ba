/** The windows of IP addresses, counted by @fastify/rate-limit in the store of all windows. */
import { normalizeIP, type RateLimitPluginOptions } from '@fastify/rate-limit'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { addToWindows, type Count, type Store, type Window } from './windows.ts'

const MINUTE_MS = 60_000
/** Providers usually assign a /64 of IPv6 addresses to one customer. */
const IPV6_PREFIX_BITS = 64

/** Returns the client's IP address: the /64 network of an IPv6 address, and the IPv4 address of an IPv4-mapped one. */
export const getClientIp = ({ ip }: { ip: string }): string => normalizeIP(ip, IPV6_PREFIX_BITS)

type Done = (error: Error | null, result?: { current: number; ttl: number }) => void

/** Adapts a store to @fastify/rate-limit, which counts in one window at a time, with 1 or 0. */
function adaptStore(store: Store) {
  const countBy = (amount: 0 | 1) => (key: string, done: Done, durationMs: number, limit: number) => {
    const name = key.slice(key.lastIndexOf(':') + 1)
    addToWindows(store, amount, [{ name, key, limit, durationMs }]).then(
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

/** Returns the options of @fastify/rate-limit, which then counts in the store of all windows. */
export const createRateLimitOptions = (store: Store): RateLimitPluginOptions => ({
  global: false,
  store: adaptStore(store),
})

/** @returns a function that creates the window of a name, for example with the key `{203.0.113.1}:anonymous` */
export const createAddressWindows =
  (app: FastifyInstance) =>
  (name: string, limit: number, durationMs = MINUTE_MS) => {
    const getKey = (from: { ip: string }) => `{${getClientIp(from)}}:${name}`
    const check = app.createRateLimit({ max: limit, timeWindow: durationMs, keyGenerator: getKey })
    /** Returns the window of an address. */
    const get = (from: { ip: string }): Window => ({ name, key: getKey(from), limit, durationMs })

    /** Adds a request of an address, or reads its window. The request may be one that Fastify has not seen. */
    const count = async (from: { ip: string }, amount: 0 | 1): Promise<Count> => {
      // Of a request, the package reads what `keyGenerator` does, and the group that a route may name.
      const request = { ip: from.ip, routeOptions: { config: {} } } as FastifyRequest
      const result = await check(request, { increment: amount > 0 })
      // Only an allow list, which is not configured, sets this.
      if (result.isAllowed) throw new Error('@fastify/rate-limit skipped the count of a request')
      const { remaining, ttl, isExceeded } = result
      return { window: get(from), remaining, resetMs: ttl, isExceeded }
    }
    return { get, count }
  }
