/** `Idempotency-Key`: runs a write once and answers its retries with the stored response. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { NO_USER_ID } from '../access/index.ts'
import { apiError } from '../errors/index.ts'
import { readKey } from './key.ts'
import { type Identity, KeyedWrite } from './keyed-write.ts'
import { prune } from './prune.ts'

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
     * Creates the keyed write of a request.
     * @param header the Idempotency-Key
     * @param body of the request
     * @throws ApiError 400; 403 without a user, under whom the response would be stored
     */
    createKeyedWrite(header: string, identity: Omit<Identity, 'key'>, body: unknown): KeyedWrite {
      const key = readKey(header)
      if (identity.userId === NO_USER_ID) throw apiError('FORBIDDEN', { message: NO_USER_MESSAGE })
      return new KeyedWrite({ ...identity, key }, body, { secret, running })
    },

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
