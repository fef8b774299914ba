/** The rate limits: what each kind of request counts as, and when it is refused with 429. */
import type { Actor } from '@resource-api/api/actor'
import { apiError } from '@resource-api/api/errors'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Config } from '../config/settings.ts'
import { createAddressWindows } from './address-windows.ts'
import { type AttemptOptions, createAttempts } from './attempts.ts'
import {
  addToWindows,
  BURST,
  type Count,
  refusedChannel,
  type Store,
  selectReported,
  type Window,
} from './windows.ts'

export interface LimitOptions
  extends AttemptOptions,
    Pick<Config, 'RATE_LIMIT' | 'RATE_LIMIT_ANONYMOUS' | 'RATE_LIMIT_AUTH_FAILURES' | 'RATE_LIMIT_BURST'>,
    Pick<Config, 'RATE_LIMIT_TOKENS' | 'RATE_LIMIT_WINDOW'> {
  /** Milliseconds since the epoch. */
  now?: () => number
}

/** The headers that describe a window. Lower case saves Fastify the conversion for each reply. */
export type LimitHeaders = Record<'x-ratelimit-limit' | 'x-ratelimit-remaining' | 'x-ratelimit-reset', number>

/** The count of a request that is refused because of overload, and the headers of its response. */
export type OverloadedCount = Pick<Count, 'isExceeded'> & { headers: Record<string, number> }

const SECOND_MS = 1_000

/** The owner of the windows: the actor of a request, or the user whose session is being refreshed. */
type Caller = Pick<Actor, 'userId' | 'key'>

const getRetryAfter = ({ resetMs }: Count) => Math.max(1, Math.ceil(resetMs / 1000))

/** Creates the functions that count requests. Each sets `request.limitHeaders`, and throws ApiError 429 at its limit. */
export function createLimits(app: FastifyInstance, store: Store, options: LimitOptions) {
  const { now = Date.now } = options
  const createWindow = createAddressWindows(app)
  const anonymous = createWindow('anonymous', options.RATE_LIMIT_ANONYMOUS)
  const passwordGrants = createWindow('tokens', options.RATE_LIMIT_TOKENS)
  const authFailures = createWindow('auth_failures', options.RATE_LIMIT_AUTH_FAILURES)
  const lookUps = createWindow('look_ups', 1, SECOND_MS)

  // The windows of users are counted in the store directly: @fastify/rate-limit adds 1 to one window, a user's request
  // adds its cost to several, to all or to none, in one round trip.
  /** Returns the windows of a user, which all credentials share, and that of an API key with its own limit. */
  const getUserWindows = ({ userId, key }: Caller): Window[] => {
    const { RATE_LIMIT: limit, RATE_LIMIT_BURST: burst } = options
    const durationMs = options.RATE_LIMIT_WINDOW * 1000
    const windows: Window[] = [
      { name: 'sustained', key: `{user:${userId}}:sustained`, limit, durationMs },
      { name: BURST, key: `{user:${userId}}:${BURST}`, limit: burst, durationMs: SECOND_MS },
    ]
    if (key && key.rateLimit !== null) {
      windows.push({ name: 'key', key: `{user:${userId}}:${key.id}:key`, limit: key.rateLimit, durationMs })
    }
    return windows
  }

  const toHeaders = ({ window, remaining, resetMs }: Count): LimitHeaders => ({
    'x-ratelimit-limit': window.limit,
    'x-ratelimit-remaining': remaining,
    // Seconds since the epoch.
    'x-ratelimit-reset': Math.ceil((now() + resetMs) / 1000),
  })

  const createRefusal = (request: FastifyRequest, full: Count) => {
    request.limitHeaders = toHeaders(full)
    refusedChannel.publish({ window: full.window.name })
    return apiError('RATE_LIMIT_EXCEEDED', { retryAfter: getRetryAfter(full) })
  }

  const admit = (request: FastifyRequest, counted: Count) => {
    if (counted.isExceeded) throw createRefusal(request, counted)
    request.limitHeaders = toHeaders(counted)
  }

  const attempts = createAttempts(app, store, options, createRefusal)

  /** Counts a request with a valid credential. */
  const countUser = async (request: FastifyRequest, caller: Caller, cost = 1) =>
    admit(request, selectReported(await store.add(cost, getUserWindows(caller))))

  /** Counts a request without credentials. */
  const countAnonymous = async (request: FastifyRequest, cost = 1) =>
    admit(request, await addToWindows(store, cost, [anonymous.get(request)]))

  /** Requests whose look-up has counted as a failure. */
  const failedLookUps = new WeakSet<FastifyRequest>()

  /** Counts a request with an invalid credential. Its 401 describes the anonymous window. */
  const countFailure = async (request: FastifyRequest) => {
    const [failures, described] = await Promise.all([
      authFailures.count(request, failedLookUps.delete(request) ? 0 : 1),
      anonymous.count(request, 0),
    ])
    if (failures.isExceeded) throw createRefusal(request, failures)
    request.limitHeaders = toHeaders(described)
  }

  return {
    confirmPassword: attempts.confirmPassword,
    countAnonymous,
    countFailure,
    countUser,

    /**
     * Adds to the cost of a request whose real cost is known only after its work. Never refuses it: each window is counted
     * by itself, so that a full one does not stop the others from counting.
     */
    async addCost(request: FastifyRequest, actor: Actor, cost: number): Promise<void> {
      const windows = actor.credential === 'none' ? [anonymous.get(request)] : getUserWindows(actor)
      const counts = await Promise.all(windows.map((window) => store.add(cost, [window])))
      request.limitHeaders = toHeaders(selectReported(counts.flat()))
    },

    /** Undoes the count of a request that runs another one, which counts by itself. */
    async uncountUser(request: FastifyRequest, caller: Caller): Promise<void> {
      request.limitHeaders = null
      await store.add(-1, getUserWindows(caller))
    },

    /**
     * Counts work that a stream does after its request.
     * @returns 0 or, if a window is full and nothing was counted, the milliseconds until it ends
     */
    async countLater(caller: Caller, cost: number): Promise<number> {
      const { isExceeded, resetMs } = await addToWindows(store, cost, getUserWindows(caller))
      return isExceeded ? Math.max(1, resetMs) : 0
    },

    /** Returns the headers of a reply for which nothing was counted: those of the anonymous window. */
    readAnonymousWindow: async (request: FastifyRequest) => toHeaders(await anonymous.count(request, 0)),

    /**
     * Looks up a credential that has not been valid in this process before. Once too many of the address have failed, only
     * one a second is looked up: forged ones cost hardly any queries, and a valid one passes when it is sent again.
     */
    limitLookUp<T>(request: FastifyRequest, lookUp: () => Promise<T | undefined>): Promise<T | undefined> {
      const lookUpCounted = async () => {
        const found = await lookUp()
        if (found === undefined) failedLookUps.add(request)
        return found
      }
      return attempts.limit([authFailures.get(request)], lookUpCounted, async (full) => {
        if ((await lookUps.count(request, 1)).isExceeded) throw createRefusal(request, full)
        return lookUp()
      })
    },

    /** Counts a password grant. Its 401 describes the anonymous window. */
    async countPasswordGrant<T>(
      request: FastifyRequest,
      account: string,
      verify: () => Promise<T>,
    ): Promise<T> {
      const described = await anonymous.count(request, 0)
      if (described.remaining === 0) throw createRefusal(request, described)
      const counted = await passwordGrants.count(request, 1)
      if (counted.isExceeded) throw createRefusal(request, counted)
      request.limitHeaders = toHeaders(described)
      const user = await attempts.attemptPassword(request, account, verify)
      if (user) request.limitHeaders = toHeaders(counted)
      return user
    },

    /** Counts a request that Fastify never sees: for its user if the credential is cached, else for its address. */
    async countOverloaded(caller: Caller | undefined, ip: string): Promise<OverloadedCount> {
      const userWindows = caller && getUserWindows(caller)
      const counted = await (userWindows ? addToWindows(store, 1, userWindows) : anonymous.count({ ip }, 1))
      const { isExceeded } = counted
      const headers = toHeaders(counted)
      return {
        isExceeded,
        headers: isExceeded ? { ...headers, 'retry-after': getRetryAfter(counted) } : headers,
      }
    },
  }
}
