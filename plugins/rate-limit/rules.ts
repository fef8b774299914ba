/** The rate limits: what each kind of request counts as, and when it is refused with 429. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { apiError } from '../errors/index.ts'
import {
  ATTEMPT_WINDOW_MS,
  type AttemptLimits,
  createAttemptLimiter,
  createFailureCounter,
} from './attempts.ts'
import { createAddressCounters } from './by-address.ts'
import { refusedChannel } from './channels.ts'
import {
  ADDRESS_WINDOW_MS,
  type Caller,
  type Count,
  createAddressKey,
  createUserWindows,
  type Flag,
  getClientIp,
  getWindowName,
  type Store,
  selectReported,
  type UserLimits,
} from './windows.ts'

export interface LimitSettings {
  users: UserLimits
  attempts: AttemptLimits
  /** Requests without credentials per minute and IP address. */
  anonymous: number
  /** Password grants per minute and IP address. */
  tokens: number
  /** Requests with an invalid credential per minute and IP address. */
  authFailures: number
  /** Returns a flag of a user that is read together with the user's windows. */
  getUserFlag?: ((userId: string) => Flag | undefined) | undefined
  /** Milliseconds since the epoch. */
  now: () => number
}

/** The headers that describe a window. Lower case saves Fastify the conversion for each reply. */
export type LimitHeaders = Record<'x-ratelimit-limit' | 'x-ratelimit-remaining' | 'x-ratelimit-reset', number>

/** The count of a request that was refused because the server is overloaded. */
export interface OverloadedCount {
  headers: LimitHeaders
  /** Seconds until the window ends, if the request exceeds it. */
  retryAfter: number | undefined
}

const ANONYMOUS_WINDOW = 'anonymous'
const AUTH_FAILURES_WINDOW = 'auth_failures'

/** One look-up of a new credential per address in this time, once too many credentials of the address have failed. */
const LOOK_UP_WINDOW_MS = 1_000

/** Changes of a user's own password or e-mail address per `ATTEMPT_WINDOW_MS`. */
const MAX_PASSWORD_CHANGES = 10

const getRetryAfter = ({ resetMs }: Count) => Math.max(1, Math.ceil(resetMs / 1000))

/** Creates the functions that count requests. Each sets `request.limitHeaders`, and throws ApiError 429 at its limit. */
export async function createLimits(app: FastifyInstance, store: Store, settings: LimitSettings) {
  const countFailures = createFailureCounter(store)
  const limitAttempts = createAttemptLimiter(countFailures, settings.attempts)
  const createCounter = await createAddressCounters(app, store)
  const countInAnonymous = createCounter(ANONYMOUS_WINDOW, settings.anonymous)
  const countInPasswordGrants = createCounter('tokens', settings.tokens)
  const countInAuthFailures = createCounter(AUTH_FAILURES_WINDOW, settings.authFailures)

  const toHeaders = ({ limit, remaining, resetMs }: Count): LimitHeaders => ({
    'x-ratelimit-limit': limit,
    'x-ratelimit-remaining': remaining,
    // Seconds since the epoch.
    'x-ratelimit-reset': Math.ceil((settings.now() + resetMs) / 1000),
  })

  const createRefusal = (request: FastifyRequest, full: Count) => {
    request.limitHeaders = toHeaders(full)
    if (refusedChannel.hasSubscribers) refusedChannel.publish({ window: getWindowName(full) })
    return apiError('RATE_LIMIT_EXCEEDED', { retryAfter: getRetryAfter(full) })
  }

  const admit = (request: FastifyRequest, count: Count) => {
    if (count.isExceeded) throw createRefusal(request, count)
    request.limitHeaders = toHeaders(count)
  }

  /** Counts a request with a valid credential. */
  const countUser = async (request: FastifyRequest, caller: Caller, cost = 1) => {
    const windows = createUserWindows(caller, settings.users)
    const counts = await store.add(cost, windows, settings.getUserFlag?.(caller.userId))
    admit(request, selectReported(counts))
  }

  /**
   * Adds to the cost of a request whose real cost is known only after its work. Never refuses it: each window is counted
   * by itself, so that a full one does not stop the others from counting.
   */
  const addCost = async (request: FastifyRequest, caller: Caller, cost: number): Promise<void> => {
    const windows = createUserWindows(caller, settings.users)
    const counts = await Promise.all(windows.map((window) => store.add(cost, [window])))
    request.limitHeaders = toHeaders(selectReported(counts.flat()))
  }

  /**
   * Counts work that a stream does after its request.
   * @returns 0 or, if a window is full and nothing was counted, the milliseconds until it ends
   */
  const countLater = async (caller: Caller, cost: number): Promise<number> => {
    const { isExceeded, resetMs } = selectReported(
      await store.add(cost, createUserWindows(caller, settings.users)),
    )
    return isExceeded ? Math.max(1, resetMs) : 0
  }

  /** Counts a request without credentials. */
  const countAnonymous = async (request: FastifyRequest) => admit(request, await countInAnonymous(request, 1))

  /** Returns the headers of a reply for which nothing was counted: those of the anonymous window. */
  const readAnonymousWindow = async (request: FastifyRequest) => toHeaders(await countInAnonymous(request, 0))

  /** Requests whose look-up has counted as a failure. */
  const counted = new WeakSet<FastifyRequest>()

  /**
   * Looks up a credential that has not been valid in this process before. Once too many credentials of the address have
   * failed, only one a second is looked up: forged ones cost hardly any queries, and a valid one passes when it is sent
   * again.
   * @throws ApiError 429
   */
  const limitLookUp = <T>(
    request: FastifyRequest,
    lookUp: () => Promise<T | undefined>,
  ): Promise<T | undefined> => {
    const key = createAddressKey(request, AUTH_FAILURES_WINDOW)
    const failures = { key, limit: settings.authFailures, durationMs: ADDRESS_WINDOW_MS }
    const lookUpCounted = async () => {
      const found = await lookUp()
      if (found === undefined) counted.add(request)
      return found
    }
    return countFailures([failures], lookUpCounted, async (full) => {
      const lookUps = { key: createAddressKey(request, 'look_ups'), limit: 1, durationMs: LOOK_UP_WINDOW_MS }
      const { isExceeded } = selectReported(await store.add(1, [lookUps]))
      if (isExceeded) throw createRefusal(request, full)
      return lookUp()
    })
  }

  /** Counts a request with an invalid credential. Its 401 describes the anonymous window. */
  const countFailure = async (request: FastifyRequest) => {
    const [failures, anonymous] = await Promise.all([
      countInAuthFailures(request, counted.delete(request) ? 0 : 1),
      countInAnonymous(request, 0),
    ])
    if (failures.isExceeded) throw createRefusal(request, failures)
    request.limitHeaders = toHeaders(anonymous)
  }

  /** Verifies a password unless too many attempts at the account have failed. */
  const attemptPassword = async <T>(
    request: FastifyRequest,
    account: string,
    verify: () => Promise<T>,
  ): Promise<T> => {
    const address = getClientIp(request)
    const isKnown = await app.signInAddresses.isKnown({ account, address })
    return limitAttempts({ account, address, isKnown }, (full) => createRefusal(request, full), verify)
  }

  /**
   * Verifies a user's current password, which permits a change of the password or the e-mail address. Right ones are
   * limited too, since each is followed by more hashing; wrong ones count as failed sign-ins instead.
   */
  const confirmPassword = async (
    request: FastifyRequest,
    userId: string,
    account: string,
    verify: () => Promise<boolean>,
  ): Promise<boolean> => {
    const key = `{user:${userId}}:password_changes`
    const windows = [{ key, limit: MAX_PASSWORD_CHANGES, durationMs: ATTEMPT_WINDOW_MS }]
    const before = selectReported(await store.add(0, windows))
    if (before.remaining === 0) throw createRefusal(request, before)
    if (!(await attemptPassword(request, account, verify))) return false
    // Other requests may have been verified at the same time: this count decides which of them exceed the limit.
    const count = selectReported(await store.add(1, windows))
    if (count.isExceeded) throw createRefusal(request, count)
    return true
  }

  /**
   * Counts a request whose grant type was never read as an anonymous one. The grant type selects the window of
   * `POST /tokens`, so its count waits until the body is read.
   */
  const countPendingGrant = async (request: FastifyRequest) => {
    if (!request.limitPending) return
    request.limitPending = false
    await countAnonymous(request)
  }

  const countPasswordGrant = async <T>(
    request: FastifyRequest,
    account: string,
    verify: () => Promise<T>,
  ): Promise<T> => {
    request.limitPending = false
    const anonymous = await countInAnonymous(request, 0)
    if (anonymous.remaining === 0) throw createRefusal(request, anonymous)
    const count = await countInPasswordGrants(request, 1)
    if (count.isExceeded) throw createRefusal(request, count)
    const user = await attemptPassword(request, account, verify)
    if (user) request.limitHeaders = toHeaders(count)
    return user
  }

  /** @param userId the user of the refresh token's session; undefined if there is no such session */
  const countRefreshGrant = async <T>(
    request: FastifyRequest,
    userId: string | undefined,
    refresh: () => Promise<T | undefined>,
  ): Promise<T | undefined> => {
    request.limitPending = false
    if (userId !== undefined) await countUser(request, { userId })
    const grant = userId === undefined ? undefined : await refresh()
    if (!grant) await countFailure(request)
    return grant
  }

  /** Sets a flag for the other processes; does nothing if the store is not shared. */
  const setFlag = async (key: string, durationMs: number): Promise<void> => store.setFlag?.(key, durationMs)

  /**
   * Counts a request that is refused because of overload, before Fastify sees it: for its user if the credential is
   * cached, else for its address.
   */
  const countOverloaded = async (caller: Caller | undefined, ip: string): Promise<OverloadedCount> => {
    const key = createAddressKey({ ip }, ANONYMOUS_WINDOW)
    const anonymous = { key, limit: settings.anonymous, durationMs: ADDRESS_WINDOW_MS }
    const windows = caller ? createUserWindows(caller, settings.users) : [anonymous]
    const count = selectReported(await store.add(1, windows))
    return { headers: toHeaders(count), retryAfter: count.isExceeded ? getRetryAfter(count) : undefined }
  }

  return {
    addCost,
    confirmPassword,
    countAnonymous,
    countFailure,
    countLater,
    countPasswordGrant,
    countPendingGrant,
    countRefreshGrant,
    countOverloaded,
    countUser,
    limitLookUp,
    readAnonymousWindow,
    setFlag,
  }
}
