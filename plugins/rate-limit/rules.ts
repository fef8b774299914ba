/** What of a request is counted, when it is too much, and what its reply is then told. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type MaybePromise, mapMaybe } from '../../lib/maybe-promise.ts'
import { apiError } from '../errors/index.ts'
import { type AttemptLimits, createAttempts, QUARTER_HOUR } from './attempts.ts'
import { addressOf, addressWindow, createByAddress } from './by-address.ts'
import { type Caller, createByUser, type UserLimits } from './by-user.ts'
import { refusedChannel } from './channels.ts'
import { type Count, type Flag, nameOf, type Store } from './types.ts'

export interface Rules {
  users: UserLimits
  attempts: AttemptLimits
  /** These are each per minute and address. */
  anonymous: number
  tokens: number
  authFailures: number
  /** Returns a flag of a user that is read together with the user's windows. */
  getUserFlag?: ((userId: string) => Flag | undefined) | undefined
  /** Milliseconds since the epoch. */
  now: () => number
}

/** What a reply says about a window. */
export interface WindowState {
  limit: number
  remaining: number
  /** Epoch seconds. */
  reset: number
}

/** The count of a request that overload refused. */
export interface RefusedCount {
  state: WindowState
  /** Seconds until the window ends, if the request exceeds it. */
  retryAfter: number | undefined
}

const ANONYMOUS = 'anonymous'

/** Changes of one's own password or e-mail address in 15 minutes. */
const MAX_PASSWORD_CHANGES = 10

const seconds = (milliseconds: number) => Math.ceil(milliseconds / 1000)

/** Each of these is asked as mapMaybe as it is known who calls, or that nobody does. They throw the 429. */
export async function createLimits(app: FastifyInstance, store: Store, rules: Rules) {
  const byUser = createByUser(store, rules.users, rules.getUserFlag)
  const attempts = createAttempts(store, rules.attempts)
  const byAddress = await createByAddress(app, store)
  const strangers = byAddress(ANONYMOUS, rules.anonymous)
  const passwordGrants = byAddress('tokens', rules.tokens)
  const failures = byAddress('auth_failures', rules.authFailures)

  const toWindowState = ({ limit, remaining, left }: Count): WindowState => ({
    limit,
    remaining,
    reset: seconds(rules.now() + left),
  })

  const tell = (request: FastifyRequest, count: Count) => {
    request.limit = toWindowState(count)
  }

  const refusal = (request: FastifyRequest, full: Count) => {
    tell(request, full)
    if (refusedChannel.hasSubscribers) refusedChannel.publish({ window: nameOf(full) })
    return apiError('RATE_LIMIT_EXCEEDED', { retryAfter: Math.max(1, seconds(full.left)) })
  }

  const admit = (request: FastifyRequest, count: Count) => {
    if (count.isExceeded) throw refusal(request, count)
    tell(request, count)
  }

  /** Counts a request with a valid credential. */
  const user = (request: FastifyRequest, caller: Caller, cost = 1): MaybePromise<void> =>
    mapMaybe(byUser.take(caller, cost), (count) => admit(request, count))

  /** Adds to what a request counts as, once it is known how expensive it was. It is not refused any more. */
  const addCost = async (request: FastifyRequest, caller: Caller, cost: number): Promise<void> =>
    tell(request, await byUser.add(caller, cost))

  /** Somebody who shows none. */
  const stranger = async (request: FastifyRequest) => admit(request, await strangers(request, 1))

  /** Somebody whose credential does not hold: told of the strangers' window, as every 401. */
  const failure = async (request: FastifyRequest) => {
    const [failed, window] = await Promise.all([failures(request, 1), strangers(request, 0)])
    if (failed.isExceeded) throw refusal(request, failed)
    tell(request, window)
  }

  /** A password is tried, where not too many of the account have failed. */
  const attempt = async <T>(
    request: FastifyRequest,
    account: string,
    verify: () => Promise<T>,
  ): Promise<T> => {
    const address = addressOf(request)
    const isKnown = await app.signInAddresses.isKnown({ account, address })
    return attempts({ account, address, isKnown }, (full) => refusal(request, full), verify)
  }

  /**
   * Verifies a user's current password, which permits a change of the password or the e-mail address. Right ones are
   * limited too, since each is followed by more hashing; wrong ones count as failed sign-ins instead.
   */
  const confirm = async (
    request: FastifyRequest,
    userId: string,
    account: string,
    verify: () => Promise<boolean>,
  ): Promise<boolean> => {
    const key = `{user:${userId}}:password_changes`
    const windows = [{ key, limit: MAX_PASSWORD_CHANGES, life: QUARTER_HOUR }]
    const [before] = await store.add(0, windows)
    if (before?.remaining === 0) throw refusal(request, before)
    if (!(await attempt(request, account, verify))) return false
    // Other requests may have been verified at the same time: this count decides which of them exceed the limit.
    const [count] = await store.add(1, windows)
    if (count?.isExceeded) throw refusal(request, count)
    return true
  }

  /** A grant whose body is not yet read: what it asks for says where it counts. */
  const grant = (request: FastifyRequest) => {
    request.owesLimit = true
  }

  /** A grant that failed before it told what it is for: a request without credentials like any other. */
  const unread = async (request: FastifyRequest) => {
    if (!request.owesLimit) return
    request.owesLimit = false
    await stranger(request)
  }

  const passwordGrant = async <T>(request: FastifyRequest, account: string, verify: () => Promise<T>) => {
    request.owesLimit = false
    const window = await strangers(request, 0)
    if (window.remaining === 0) throw refusal(request, window)
    const count = await passwordGrants(request, 1)
    if (count.isExceeded) throw refusal(request, count)
    const found = await attempt(request, account, verify)
    if (found) tell(request, count)
    return found
  }

  /** Of a session's user, or, with a token that nobody has, of nobody. */
  const refreshGrant = async <T>(
    request: FastifyRequest,
    userId: string | undefined,
    refresh: () => Promise<T | undefined>,
  ) => {
    request.owesLimit = false
    if (userId !== undefined) await user(request, { userId })
    const found = userId === undefined ? undefined : await refresh()
    if (!found) await failure(request)
    return found
  }

  /** Sets a flag for the other processes, in milliseconds; does nothing where there are none. */
  const setFlag = async (key: string, lifetime: number): Promise<void> => store.setFlag?.(key, lifetime)

  /** A reply that nobody has counted, and that is in no window. */
  const settle = async (request: FastifyRequest) => tell(request, await strangers(request, 0))

  const takeAddress = (ip: string): MaybePromise<Count> =>
    mapMaybe(store.add(1, [addressWindow(ip, ANONYMOUS, rules.anonymous)]), ([count]) => {
      if (!count) throw new Error('The store counted nothing')
      return count
    })

  /**
   * Counts a request that overload refuses, of which Fastify does not know: for its user if the credential is cached,
   * else for its address.
   */
  const countRefused = (caller: Caller | undefined, ip: string): MaybePromise<RefusedCount> =>
    mapMaybe(caller ? byUser.take(caller, 1) : takeAddress(ip), (count) => ({
      state: toWindowState(count),
      retryAfter: count.isExceeded ? Math.max(1, seconds(count.left)) : undefined,
    }))

  return {
    user,
    addCost,
    countRefused,
    setFlag,
    stranger,
    failure,
    confirm,
    grant,
    unread,
    passwordGrant,
    refreshGrant,
    settle,
  }
}
