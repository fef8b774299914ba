/** Windows of a minute by address: those of @fastify/rate-limit, in the store that all the others stand in. */
import rateLimit, { normalizeIP } from '@fastify/rate-limit'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Amount, Count, Store, Window } from './types.ts'

const MINUTE = 60_000
/** Of an IPv6 address, what a customer is given as a whole. */
const SUBNET = 64

/** An IPv4 address within IPv6 is that address. */
export const addressOf = ({ ip }: FastifyRequest): string => normalizeIP(ip, SUBNET)

/** Returns a window of an address: the same as a request's own, for requests that Fastify does not see. */
export const addressWindow = (ip: string, name: string, limit: number): Window => ({
  key: `{${normalizeIP(ip, SUBNET)}}:${name}`,
  limit,
  life: MINUTE,
})

type Done = (error: Error | null, result?: { current: number; ttl: number }) => void

/** The store as @fastify/rate-limit asks for it: a class, called back, one window at a time. */
const storeClass = (store: Store) =>
  class {
    private add(amount: Amount, key: string, done: Done, life: number, limit: number) {
      Promise.resolve(store.add(amount, [{ key, limit, life }])).then(
        ([count]) => {
          const used = limit - (count?.remaining ?? 0)
          done(null, { current: count?.isExceeded ? limit + 1 : used, ttl: count?.left ?? 0 })
        },
        (error: Error) => done(error),
      )
    }

    incr(key: string, done: Done, life: number, limit: number) {
      this.add(1, key, done, life, limit)
    }

    read(key: string, done: Done, life: number, limit: number) {
      this.add(0, key, done, life, limit)
    }

    /** One is enough: what tells the windows apart stands in their keys. */
    child() {
      return this
    }
  }

/** Counts a request in a window of its address, or only looks. */
export type ByAddress = (request: FastifyRequest, amount: 0 | 1) => Promise<Count>

/** @returns how to make such a window */
export async function createByAddress(app: FastifyInstance, store: Store) {
  await app.register(rateLimit, { global: false, store: storeClass(store) })

  return (name: string, max: number): ByAddress => {
    const keyGenerator = (request: FastifyRequest) => `{${addressOf(request)}}:${name}`
    const ask = app.createRateLimit({ max, timeWindow: MINUTE, keyGenerator })
    return async (request, amount) => {
      const found = await ask(request, { increment: amount > 0 })
      if (found.isAllowed) throw new Error('There is no list of those who are let through')
      const { key, remaining, ttl: left, isExceeded } = found
      return { key, limit: max, remaining, left, isExceeded }
    }
  }
}
