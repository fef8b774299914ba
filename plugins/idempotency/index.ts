/** `Idempotency-Key`: runs a write once and answers its retries with the stored response. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { startBackgroundTask } from '../../lib/background-task.ts'
import type { Actor } from '../access/index.ts'
import { readKey } from './key.ts'
import { KeyedWrite } from './keyed-write.ts'
import { prune } from './prune.ts'

interface IdempotencyOptions {
  /** Key of the HMAC of request bodies; the same on every replica. */
  secret: Buffer
}

const MINUTE_MS = 60_000

function createIdempotency(app: FastifyInstance, { secret }: IdempotencyOptions) {
  const running = new Set<string>()
  let isStopped = false
  const pruneExpired = () => prune(app.database, () => !isStopped)
  const stop = startBackgroundTask(pruneExpired, {
    firstDelay: MINUTE_MS,
    interval: 10 * MINUTE_MS,
    onFailure: (err) => app.log.warn({ err }, 'expired idempotency records could not be deleted'),
  })

  return {
    /**
     * Returns the keyed write of a request; undefined without the header and for anonymous requests.
     * @param path the canonical path, with its version
     * @throws ApiError 400
     */
    read(
      { headers, method }: FastifyRequest,
      actor: Actor,
      path: string,
      body: unknown,
    ): KeyedWrite | undefined {
      const header = headers['idempotency-key']
      if (typeof header !== 'string' || actor.credential === 'none') return undefined
      const identity = { userId: actor.userId, method, path, key: readKey(header) }
      return new KeyedWrite(identity, body, { secret, running })
    },

    /** Deletes expired records immediately. */
    prune: pruneExpired,

    async stop() {
      isStopped = true
      await stop()
    },
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    idempotency: ReturnType<typeof createIdempotency>
  }
}

async function idempotency(app: FastifyInstance, options: IdempotencyOptions) {
  const created = createIdempotency(app, options)
  app.decorate('idempotency', created)
  // Fastify runs onClose hooks in reverse order, so this one runs before the database closes.
  app.addHook('onClose', () => created.stop())
}

export default fp(idempotency, { name: 'idempotency', dependencies: ['errors', 'database'] })
