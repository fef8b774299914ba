/** What of a request is counted, when it is too much, and what its reply is then told. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { apiError } from '../errors.ts'
import { type Soon, soon } from '../soon.ts'
import { type AttemptLimits, createAttempts } from './attempts.ts'
import { addressOf, createByAddress } from './by-address.ts'
import { type Caller, createByUser, type UserLimits, type Writes } from './by-user.ts'
import { refusedChannel } from './channels.ts'
import { type Count, nameOf, type Store } from './types.ts'

export interface Rules {
  users: UserLimits
  attempts: AttemptLimits
  /** These are each per minute and address. */
  anonymous: number
  tokens: number
  authFailures: number
  /** Where replicas are read from: who must not be. */
  writers?: Writes | undefined
  /** Milliseconds since the epoch. */
  now: () => number
}

const seconds = (milliseconds: number) => Math.ceil(milliseconds / 1000)

/** Each of these is asked as soon as it is known who calls, or that nobody does. They throw the 429. */
export async function createLimits(app: FastifyInstance, store: Store, rules: Rules) {
  const byUser = createByUser(store, rules.users, rules.writers)
  const attempts = createAttempts(store, rules.attempts)
  const byAddress = await createByAddress(app, store)
  const strangers = byAddress('anonymous', rules.anonymous)
  const passwordGrants = byAddress('tokens', rules.tokens)
  const failures = byAddress('auth_failures', rules.authFailures)

  const tell = (request: FastifyRequest, { limit, remaining, left }: Count) => {
    request.limit = { limit, remaining, reset: seconds(rules.now() + left) }
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

  /** Somebody whose credential holds. */
  const user = (request: FastifyRequest, caller: Caller): Soon<void> =>
    soon(byUser.take(caller), (count) => admit(request, count))

  /** Somebody who shows none. */
  const stranger = async (request: FastifyRequest) => admit(request, await strangers(request, 1))

  /** Somebody whose credential does not hold: told of the strangers' window, as every 401. */
  const failure = async (request: FastifyRequest) => {
    const [failed, window] = await Promise.all([failures(request, 1), strangers(request, 0)])
    if (failed.isExceeded) throw refusal(request, failed)
    tell(request, window)
  }

  /** A password is tried, where not too many of the account have failed. */
  const attempt = <T>(request: FastifyRequest, account: string, verify: () => Promise<T>): Promise<T> =>
    attempts({ account, address: addressOf(request) }, (full) => refusal(request, full), verify)

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

  /** A reply that nobody has counted, and that is in no window. */
  const settle = async (request: FastifyRequest) => tell(request, await strangers(request, 0))

  const { wrote } = byUser

  return { user, wrote, stranger, failure, attempt, grant, unread, passwordGrant, refreshGrant, settle }
}
