/** Hashes and verifies passwords with Argon2id on a thread pool, a few at a time and one at a time per user. */
import { randomBytes } from 'node:crypto'
import { hash, verify } from '@node-rs/argon2'
import type { Passwords } from '@resource-api/api/access'
import { apiError } from '@resource-api/api/errors'
import { disconnected, type RequestLifetime } from '@resource-api/api/requests'
import { createKeyedQueue, Semaphore } from '@resource-api/database/concurrency'
import type { Config } from '@resource-api/http/config'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

/** 19 MiB, two passes, one lane: recommended by OWASP. The library's default algorithm is Argon2id. */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }

/** Requests in the queue of all users. They are hashed within a few seconds, long before a request times out. */
const MAX_WAITING = 100
/** As long as a request may take. */
const MAX_WAIT_MS = 10_000
const MAX_WAITING_PER_USER = 10

/** Hashes a password without a queue, as in a command; requests use `createPasswords`. */
export const hashPassword = (password: string): Promise<string> => hash(password, PARAMETERS)

/** The slow functions, which tests replace. */
export interface PasswordHasher {
  hash(password: string): Promise<string>
  verify(hashed: string, password: string): Promise<boolean>
}

/** A hash contains its parameters, so that older hashes stay valid when the parameters change. */
export const argon2: PasswordHasher = { hash: hashPassword, verify }

interface PasswordsOptions extends Pick<Config, 'PASSWORD_HASHES'> {
  passwordHasher?: PasswordHasher | undefined
}

/** Returns a hash that no password matches: random bytes instead of a result. Verifying it takes the usual time. */
function createUnmatchableHash(): string {
  const { memoryCost, timeCost, parallelism } = PARAMETERS
  const [salt, result] = [16, 32].map((size) => randomBytes(size).toString('base64').replaceAll('=', ''))
  return `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${salt}$${result}`
}

/** Creates the queue of one process, first in, first out. */
export function createPasswords({ PASSWORD_HASHES, passwordHasher: hasher = argon2 }: PasswordsOptions) {
  const slots = Array.from({ length: PASSWORD_HASHES }, () => ({}))
  const queue = new Semaphore(slots, {
    maxWaiting: MAX_WAITING,
    acquireTimeout: MAX_WAIT_MS,
    createError: () =>
      apiError('SERVICE_UNAVAILABLE', {
        message: 'Too many requests are waiting for password hashing',
        retryAfter: 2,
        contention: 'hashing',
      }),
  })
  const userQueues = createKeyedQueue()
  const unmatchableHash = createUnmatchableHash()

  return {
    /**
     * Returns the functions for one request.
     * @param user key of the user's own queue: the user's id, or an email or IP address if the user is unknown
     * @param lifetime of the request: what waits when it ends is not hashed
     */
    for(user: string, lifetime?: RequestLifetime): Passwords {
      // A request whose old password was verified is not refused when it hashes the new one.
      let isAdmitted = false

      /** Waits in the user's queue first, so that a user never has two places in the shared queue. */
      const enqueue = async <T>(work: () => Promise<T>): Promise<T> => {
        if (!isAdmitted && userQueues.getSize(user) > MAX_WAITING_PER_USER) {
          throw apiError('RATE_LIMIT_EXCEEDED', {
            message: 'Too many requests of this user are waiting for password hashing',
            retryAfter: 1,
          })
        }
        isAdmitted = true
        const workIfAwaited = async () => {
          if (lifetime?.isAwaited === false) throw disconnected
          return work()
        }
        return userQueues.run(user, () => queue.run(workIfAwaited, lifetime?.onQueue), lifetime?.onQueue)
      }

      return {
        hash: (password) => enqueue(() => hasher.hash(password)),
        verify: async (hashed, password) =>
          (await enqueue(() => hasher.verify(hashed ?? unmatchableHash, password))) && hashed !== null,
      }
    },
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    passwords: ReturnType<typeof createPasswords>
  }
}

export default fp(
  async (app: FastifyInstance, options: PasswordsOptions) => {
    app.decorate('passwords', createPasswords(options))
  },
  { name: 'passwords', dependencies: ['errors'] },
)
