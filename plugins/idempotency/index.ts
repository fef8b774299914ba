/** `Idempotency-Key`: runs a write once and answers its retries with the stored response. */
import { sql } from 'drizzle-orm'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Connection } from '../../drizzle/client/index.ts'
import { idempotencyKeys, idempotencyReplies } from '../../drizzle/idempotency-tables.ts'
import { type Actor, NO_USER_ID } from '../access/index.ts'
import { createPruning } from '../background/prune.ts'
import { apiError } from '../errors/index.ts'
import { publish } from './channels.ts'
import { createKey, type IdempotencyKey, parseKey } from './key.ts'
import { once, type Work } from './once.ts'
import type { StoredResponse } from './stored-responses.ts'

const until = sql`now() - interval '24 hours'`

const pruneKeys = createPruning({ table: idempotencyKeys, column: idempotencyKeys.created_at, until })
/** A reply's last use is not older than any record that refers to it. */
const pruneReplies = createPruning({
  table: idempotencyReplies,
  column: idempotencyReplies.last_used_at,
  until,
})

/** Deletes expired records, and the replies that none of them refers to. @returns the number of deleted records */
async function prune(connection: Connection, isWanted?: () => boolean): Promise<number> {
  const count = await pruneKeys(connection, isWanted)
  await pruneReplies(connection, isWanted)
  if (count > 0) publish('pruned', { count })
  return count
}

interface IdempotencyOptions {
  /** Key of the HMAC of request bodies; the same on every replica. */
  secret: Buffer
}

const NO_USER_MESSAGE =
  'Idempotency-Key requires a user; no admin has the e-mail address ADMIN_EMAIL, so ADMIN_API_KEY belongs to none'

function createIdempotency(app: FastifyInstance, { secret }: IdempotencyOptions) {
  const running = new Set<string>()
  app.repeat((isWanted) => prune(app.database, isWanted), 'expired idempotency records could not be deleted')

  return {
    /**
     * Reads the Idempotency-Key of a request; undefined without the header and for anonymous requests.
     * @param path the canonical one, whichever form the client used
     * @param body of the request
     * @throws ApiError 400; 403 without a user, under whom the response would be stored
     */
    readKey({ headers, method }: FastifyRequest, actor: Actor, path: string, body: unknown) {
      const header = headers['idempotency-key']
      if (typeof header !== 'string' || actor.credential === 'none') return undefined
      const key = parseKey(header)
      if (actor.userId === NO_USER_ID) throw apiError('FORBIDDEN', { message: NO_USER_MESSAGE })
      return createKey({ userId: actor.userId, method, path, key }, body, secret)
    },

    /** Runs a write at most once for its key, and answers each retry with the stored response. */
    once: <Found, Prepared>(key: IdempotencyKey, work: Work<Found, Prepared>): Promise<StoredResponse> =>
      once(app.database, running, key, work),

    /** Deletes expired records immediately. */
    prune: () => prune(app.database),
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    idempotency: ReturnType<typeof createIdempotency>
  }
}

async function idempotency(app: FastifyInstance, options: IdempotencyOptions) {
  app.decorate('idempotency', createIdempotency(app, options))
}

export default fp(idempotency, { name: 'idempotency', dependencies: ['errors', 'database', 'background'] })
