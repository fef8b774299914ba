/** `Idempotency-Key`: a write that may be sent again, since it is done once and answered alike. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { repeat } from '../../lib/background-task.ts'
import type { Actor } from '../access/index.ts'
import { readKey } from './key.ts'
import { prune } from './prune.ts'
import { createRecord, type KeptRecord } from './record.ts'

interface IdempotencyOptions {
  /** Hashes the bodies of requests; the same on every replica. */
  secret: Buffer
}

/** A write that its client gave a key. */
export interface Attempt extends Pick<KeptRecord, 'lock' | 'find' | 'keep'> {
  /**
   * Takes the key for as long as the write runs in this process, its waiting and its slow work included.
   * @returns what lets go of it; undefined where the same write runs already
   */
  begin(): (() => void) | undefined
}

const MINUTE = 60_000

function createIdempotency(app: FastifyInstance, { secret }: IdempotencyOptions) {
  const running = new Set<string>()
  let stopped = false
  const removeOld = () => prune(app.database, () => !stopped)
  const stop = repeat(removeOld, {
    first: MINUTE,
    every: 10 * MINUTE,
    onFailure: (err) => app.log.warn({ err }, 'old idempotency records could not be removed'),
  })

  const begin = (id: string) => {
    if (running.has(id)) return undefined
    running.add(id)
    return () => {
      running.delete(id)
    }
  }

  return {
    /**
     * What a request's key makes of it; undefined without one, and for who shows no credentials.
     * @param path the canonical one, with its version
     * @throws ApiError 400
     */
    read(
      { headers, method }: FastifyRequest,
      actor: Actor,
      path: string,
      body: unknown,
    ): Attempt | undefined {
      const sent = headers['idempotency-key']
      if (typeof sent !== 'string' || actor.credential === 'none') return undefined
      const { id, ...record } = createRecord(
        secret,
        { userId: actor.userId, method, path, key: readKey(sent) },
        body,
      )
      return { ...record, begin: () => begin(id) }
    },

    /** Removes what has grown old, now. */
    prune: removeOld,

    async stop() {
      stopped = true
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
  // Before the database closes, which was registered earlier.
  app.addHook('onClose', () => created.stop())
}

export default fp(idempotency, { name: 'idempotency', dependencies: ['errors', 'database'] })
