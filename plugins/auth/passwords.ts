/** Passwords: Argon2id at OWASP's parameters, off the event loop, few at once, one at a time for each user. */
import { randomBytes } from 'node:crypto'
import { hash, verify } from '@node-rs/argon2'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import limit from 'p-limit'
import { createKeyedQueue } from '../../lib/keyed-queue.ts'
import { apiError } from '../errors/index.ts'

/** 19 MiB, two passes, one lane: OWASP's first choice. The algorithm is the library's default, Argon2id. */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }

/** How many may wait: they have their turn within a few seconds, long before their answers are due. */
const MOST_WAITING = 100

/** Requests of one user that may wait for the password of another request of that user. */
const MAX_WAITING_PER_USER = 10

/** For who hashes one alone, such as a command; a server's requests take turns. */
export const hashPassword = (password: string): Promise<string> => hash(password, PARAMETERS)

/** What takes so long. */
export interface Work {
  hash(password: string): Promise<string>
  verify(hashed: string, password: string): Promise<boolean>
}

/** The real one. A hash says with which parameters it was made, so that those of former times still hold. */
export const argon2: Work = { hash: hashPassword, verify }

/** Passwords as one request has them hashed. */
export interface Passwords {
  hash(password: string): Promise<string>
  /** Whether a password is the one that was hashed; without a hash none is, after as long a work. */
  verify(hashed: string | null, password: string): Promise<boolean>
}

export interface PasswordsOptions {
  atOnce: number
  work?: Work | undefined
}

/** The hash of no password: random bytes in place of a result. It is verified in the same time as any other. */
function nobody(): string {
  const { memoryCost, timeCost, parallelism } = PARAMETERS
  const [salt, result] = [16, 32].map((size) => randomBytes(size).toString('base64').replaceAll('=', ''))
  return `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${salt}$${result}`
}

/** Hashing for one process: `atOnce` at a time, in the order in which they came, and one at a time for each user. */
export function createPasswords({ atOnce, work = argon2 }: PasswordsOptions) {
  const turns = limit(atOnce)
  const userQueues = createKeyedQueue()
  const absent = nobody()

  const turn = async <T>(isWanted: () => boolean, act: () => Promise<T>): Promise<T> => {
    if (turns.pendingCount >= MOST_WAITING) {
      throw apiError('SERVICE_UNAVAILABLE', {
        message: 'Too many passwords wait for their turn',
        retryAfter: 2,
      })
    }
    return turns(() => {
      // A failure of nobody's: it is read by no client, and no reason for an alarm.
      if (!isWanted()) throw apiError('INVALID_REQUEST', { message: 'Nobody waits for the answer any more' })
      return act()
    })
  }

  return {
    /**
     * Passwords for one request, hashed only if their answer is still wanted when their turn comes.
     * @param user whose requests wait for each other: a user's id, or the e-mail or IP address of one who is not known
     */
    for: (user: string, isWanted: () => boolean): Passwords => {
      // A request whose password was verified is not refused when it comes to hash the new one.
      let isAdmitted = false

      /** Waits for the user's earlier work, then for a place in the shared queue, of which a user never has two. */
      const userTurn = async <T>(act: () => Promise<T>): Promise<T> => {
        if (!isAdmitted && userQueues.getSize(user) > MAX_WAITING_PER_USER) {
          throw apiError('RATE_LIMIT_EXCEEDED', {
            message: 'Too many passwords of this user wait for their turn',
            retryAfter: 1,
          })
        }
        isAdmitted = true
        return userQueues.run(user, () => turn(isWanted, act))
      }

      return {
        hash: (password) => userTurn(() => work.hash(password)),
        verify: async (hashed, password) =>
          (await userTurn(() => work.verify(hashed ?? absent, password))) && hashed !== null,
      }
    },
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    passwords: ReturnType<typeof createPasswords>
  }
}

async function passwords(app: FastifyInstance, options: PasswordsOptions) {
  app.decorate('passwords', createPasswords(options))
}

export default fp(passwords, { name: 'passwords', dependencies: ['errors'] })
