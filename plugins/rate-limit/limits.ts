/** The rate limits: what each kind of request counts as, and when it is refused with 429. */
import { createHmac } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Actor } from '../access/index.ts'
import { apiError } from '../errors/index.ts'
import { createAddressWindows, getClientIp } from './address-windows.ts'
import { createFailureCounter } from './failures.ts'
import {
  addToWindows,
  type Count,
  getWindowName,
  refusedChannel,
  type Store,
  selectReported,
  type Window,
} from './windows.ts'

export interface LimitSettings {
  /** The windows of a user. */
  users: {
    limit: number
    durationMs: number
    /** Limit per second. */
    burst: number
  }
  attempts: {
    /** Failed sign-ins per account and IP address. */
    failures: number
    /** Key of the HMAC of an account's e-mail address, which is not stored itself. */
    secret: Buffer
  }
  /** Requests without credentials per minute and IP address. */
  anonymous: number
  /** Password grants per minute and IP address. */
  tokens: number
  /** Requests with an invalid credential per minute and IP address. */
  authFailures: number
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

/** One look-up of a new credential per address in this time, once too many credentials of the address have failed. */
const LOOK_UP_WINDOW_MS = 1_000
/** Of failed sign-ins, and of changes of a user's own password or e-mail address. */
const PASSWORD_WINDOW_MS = 900_000
/** The limit for failed sign-ins from all IP addresses together, as a multiple of the limit for one address. */
const ACCOUNT_LIMIT_FACTOR = 10
/** Changes of a user's own password or e-mail address per `PASSWORD_WINDOW_MS`. */
const MAX_PASSWORD_CHANGES = 10

const BURST_WINDOW_MS = 1_000

/** The owner of the windows: the actor of a request, or the user whose session is being refreshed. */
type Caller = Pick<Actor, 'userId' | 'key'>

const getRetryAfter = ({ resetMs }: Count) => Math.max(1, Math.ceil(resetMs / 1000))

/** Creates the functions that count requests. Each sets `request.limitHeaders`, and throws ApiError 429 at its limit. */
export async function createLimits(app: FastifyInstance, store: Store, settings: LimitSettings) {
  const createWindow = await createAddressWindows(app, store)
  const anonymous = createWindow('anonymous', settings.anonymous)
  const passwordGrants = createWindow('tokens', settings.tokens)
  const authFailures = createWindow('auth_failures', settings.authFailures)
  const lookUps = createWindow('look_ups', 1, LOOK_UP_WINDOW_MS)
  const countFailures = createFailureCounter(store)

  /**
   * Returns the windows of a user, which all credentials share, and that of an API key with its own limit. They are counted
   * in the store directly, and not by @fastify/rate-limit: the package adds 1 to one window, a user's request adds its cost
   * to several, to all or to none, in one round trip.
   */
  const getUserWindows = ({ userId, key }: Caller): Window[] => {
    const { limit, durationMs, burst } = settings.users
    const owner = `{user:${userId}}`
    const windows: Window[] = [
      { key: `${owner}:sustained`, limit, durationMs },
      { key: `${owner}:burst`, limit: burst, durationMs: BURST_WINDOW_MS, isReportedOnlyWhenFull: true },
    ]
    if (key && key.rateLimit !== null) {
      windows.push({ key: `${owner}:${key.id}:key`, limit: key.rateLimit, durationMs })
    }
    return windows
  }

  const toHeaders = ({ limit, remaining, resetMs }: Count): LimitHeaders => ({
    'x-ratelimit-limit': limit,
    'x-ratelimit-remaining': remaining,
    // Seconds since the epoch.
    'x-ratelimit-reset': Math.ceil((settings.now() + resetMs) / 1000),
  })

  const createRefusal = (request: FastifyRequest, full: Count) => {
    request.limitHeaders = toHeaders(full)
    refusedChannel.publish({ window: getWindowName(full) })
    return apiError('RATE_LIMIT_EXCEEDED', { retryAfter: getRetryAfter(full) })
  }

  const admit = (request: FastifyRequest, counted: Count) => {
    if (counted.isExceeded) throw createRefusal(request, counted)
    request.limitHeaders = toHeaders(counted)
  }

  /** Counts a request with a valid credential. */
  const countUser = async (request: FastifyRequest, caller: Caller, cost = 1) =>
    admit(request, selectReported(await store.add(cost, getUserWindows(caller))))

  /**
   * Adds to the cost of a request whose real cost is known only after its work. Never refuses it: each window is counted
   * by itself, so that a full one does not stop the others from counting.
   */
  const addCost = async (request: FastifyRequest, caller: Caller, cost: number): Promise<void> => {
    const windows = getUserWindows(caller)
    const counts = await Promise.all(windows.map((window) => store.add(cost, [window])))
    request.limitHeaders = toHeaders(selectReported(counts.flat()))
  }

  /**
   * Counts work that a stream does after its request.
   * @returns 0 or, if a window is full and nothing was counted, the milliseconds until it ends
   */
  const countLater = async (caller: Caller, cost: number): Promise<number> => {
    const { isExceeded, resetMs } = await addToWindows(store, cost, getUserWindows(caller))
    return isExceeded ? Math.max(1, resetMs) : 0
  }

  /** Counts a request without credentials. */
  const countAnonymous = async (request: FastifyRequest) => admit(request, await anonymous.count(request, 1))

  /** Returns the headers of a reply for which nothing was counted: those of the anonymous window. */
  const readAnonymousWindow = async (request: FastifyRequest) => toHeaders(await anonymous.count(request, 0))

  /** Requests whose look-up has counted as a failure. */
  const failedLookUps = new WeakSet<FastifyRequest>()

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
    const lookUpCounted = async () => {
      const found = await lookUp()
      if (found === undefined) failedLookUps.add(request)
      return found
    }
    return countFailures([authFailures.get(request)], lookUpCounted, async (full) => {
      if ((await lookUps.count(request, 1)).isExceeded) throw createRefusal(request, full)
      return lookUp()
    })
  }

  /** Counts a request with an invalid credential. Its 401 describes the anonymous window. */
  const countFailure = async (request: FastifyRequest) => {
    const [failures, described] = await Promise.all([
      authFailures.count(request, failedLookUps.delete(request) ? 0 : 1),
      anonymous.count(request, 0),
    ])
    if (failures.isExceeded) throw createRefusal(request, failures)
    request.limitHeaders = toHeaders(described)
  }

  /**
   * Verifies a password unless too many attempts at the account, which need not exist, have failed.
   * @param account the e-mail address
   * @param verify a falsy result stands for a wrong password
   */
  const attemptPassword = async <T>(
    request: FastifyRequest,
    account: string,
    verify: () => Promise<T>,
  ): Promise<T> => {
    const { failures: limit, secret } = settings.attempts
    const address = getClientIp(request)
    const hash = createHmac('sha256', secret).update(account.toLowerCase()).digest('base64url')
    const owner = `{account:${hash}}`
    const durationMs = PASSWORD_WINDOW_MS
    const windows: [Window, ...Window[]] = [{ key: `${owner}:${address}:login_failures`, limit, durationMs }]
    // Anyone can fill the window of the account. An address that signed in before is not refused for that.
    if (!(await app.signInAddresses.isKnown({ account, address }))) {
      windows.push({ key: `${owner}:account_failures`, limit: limit * ACCOUNT_LIMIT_FACTOR, durationMs })
    }
    return countFailures(windows, verify, async (full) => {
      throw createRefusal(request, full)
    })
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
    const windows = [{ key, limit: MAX_PASSWORD_CHANGES, durationMs: PASSWORD_WINDOW_MS }]
    const before = await addToWindows(store, 0, windows)
    if (before.remaining === 0) throw createRefusal(request, before)
    if (!(await attemptPassword(request, account, verify))) return false
    // Other requests may have been verified at the same time: this count decides which of them exceed the limit.
    const after = await addToWindows(store, 1, windows)
    if (after.isExceeded) throw createRefusal(request, after)
    return true
  }

  /**
   * Counts a request for `POST /tokens` that failed before its grant was counted as an anonymous one. The grant type, in
   * the body, selects the window.
   */
  const countFailedGrant = async (request: FastifyRequest) => {
    if (!request.limitHeaders) await countAnonymous(request)
  }

  /** Counts a password grant. Its 401 describes the anonymous window. */
  const countPasswordGrant = async <T>(
    request: FastifyRequest,
    account: string,
    verify: () => Promise<T>,
  ): Promise<T> => {
    const described = await anonymous.count(request, 0)
    if (described.remaining === 0) throw createRefusal(request, described)
    const counted = await passwordGrants.count(request, 1)
    if (counted.isExceeded) throw createRefusal(request, counted)
    request.limitHeaders = toHeaders(described)
    const user = await attemptPassword(request, account, verify)
    if (user) request.limitHeaders = toHeaders(counted)
    return user
  }

  /** @param userId the user of the refresh token's session; undefined if there is no such session */
  const countRefreshGrant = async <T>(
    request: FastifyRequest,
    userId: string | undefined,
    refresh: () => Promise<T | undefined>,
  ): Promise<T | undefined> => {
    if (userId !== undefined) await countUser(request, { userId })
    const grant = userId === undefined ? undefined : await refresh()
    if (!grant) await countFailure(request)
    return grant
  }

  /**
   * Counts a request that is refused because of overload, before Fastify sees it: for its user if the credential is
   * cached, else for its address.
   */
  const countOverloaded = async (caller: Caller | undefined, ip: string): Promise<OverloadedCount> => {
    const counted = await (caller
      ? addToWindows(store, 1, getUserWindows(caller))
      : anonymous.count({ ip }, 1))
    return {
      headers: toHeaders(counted),
      retryAfter: counted.isExceeded ? getRetryAfter(counted) : undefined,
    }
  }

  return {
    addCost,
    confirmPassword,
    countAnonymous,
    countFailedGrant,
    countFailure,
    countLater,
    countPasswordGrant,
    countRefreshGrant,
    countOverloaded,
    countUser,
    limitLookUp,
    readAnonymousWindow,
  }
}
