/** The imports of a process: one of each user, and a few that are written at the same time. */
import { join } from 'node:path'
import { apiError } from '@resource-api/api/errors'
import type { TransactionOptions } from '@resource-api/database/client'
import { type OnQueue, Semaphore } from '@resource-api/database/concurrency'
import { TransactionTimeout, TransactionYielded } from '@resource-api/database/errors'
import type { Config } from '@resource-api/http/config'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { ReceivedBody, removeFiles } from '../request/rows/received-body.ts'

export type ImportConfig = Pick<
  Config,
  'BODY_LIMIT' | 'DATA_DIR' | 'IMPORT_LIMIT' | 'IMPORT_ROWS' | 'IMPORT_SECONDS'
>

/** On the embedded database, whose only connection an import holds. */
const MAX_EMBEDDED_ROWS = 10_000
/** Each has up to 2 MiB of its body in memory. */
const MAX_RUNNING = 20
/** How many bodies of the maximum size the files have room for. */
const MAX_FILES = 4
/** A transaction lasts a minute at most: no statement begins after this time, and one takes up to 5 s. */
const MAX_TRANSACTION_MS = 55_000
/** The time for which own code may lock rows of other resources: other requests wait for a lock for 1.5 s. */
const MAX_LOCKED_MS = 1_000
/** How long a received import waits for those that are written. */
const WRITE_TIMEOUT_MS = 60_000
/** Seconds. */
const RETRY_AFTER = 5

const unavailable = (message: string) =>
  apiError('SERVICE_UNAVAILABLE', { message, retryAfter: RETRY_AFTER, contention: 'imports' })

/** @param folder of the files with the bodies that are too large for the memory */
function createImports({ database, poolSize }: FastifyInstance, config: ImportConfig, folder: string) {
  const { BODY_LIMIT: maxRowBytes, IMPORT_LIMIT: maxBytes, IMPORT_ROWS: maxRows } = config
  const receiveMs = config.IMPORT_SECONDS * 1000
  const isEmbedded = database.kind === 'embedded'
  const transaction: TransactionOptions = {
    maxRetries: 0,
    maxMs: MAX_TRANSACTION_MS,
    isYielding: true,
    maxLockedMs: MAX_LOCKED_MS,
  }
  const running = new Set<string>()
  const slots = Array.from({ length: Math.max(1, Math.floor(poolSize / 2)) }, () => ({}))
  const writers = new Semaphore(slots, {
    acquireTimeout: WRITE_TIMEOUT_MS,
    createError: () => unavailable('Too many imports are being written'),
  })
  let fileBytes = 0
  const addFileBytes = (count: number) => {
    if (fileBytes + count > MAX_FILES * maxBytes) throw unavailable('Too many large imports are running')
    fileBytes += count
  }

  return {
    maxRows: isEmbedded ? Math.min(maxRows, MAX_EMBEDDED_ROWS) : maxRows,
    maxBytes,
    maxRowBytes,
    transaction,

    /** How many imports run, also while their bodies arrive. */
    get size() {
      return running.size
    },

    /** The bytes of bodies in files. */
    get fileBytes() {
      return fileBytes
    },

    /**
     * Begins an import of a user.
     * @returns ends it
     * @throws ApiError 429 while the user has another one, 503 while there are too many
     */
    begin(userId: string): () => void {
      if (running.has(userId)) {
        const message = 'Another import of this user is running; a user can have one'
        throw apiError('RATE_LIMIT_EXCEEDED', { message, retryAfter: RETRY_AFTER })
      }
      if (running.size >= MAX_RUNNING) throw unavailable('Too many imports are running')
      running.add(userId)
      return () => running.delete(userId)
    },

    /** Returns an empty body, to be closed at the end. */
    createBody: () => new ReceivedBody({ folder, maxBytes, receiveMs, addFileBytes }),

    /**
     * Runs `work`, which writes rows in a transaction with the options of `transaction`, when few others do.
     * @throws ApiError 503 if it takes too long; 413 if other requests waited too long, on the embedded database
     */
    write: <T>(work: () => Promise<T>, onQueue: OnQueue): Promise<T> =>
      writers.run(work, onQueue).catch((cause) => {
        if (cause instanceof TransactionYielded) {
          const message =
            'Other requests waited too long while the rows were written; send fewer in each import'
          throw apiError('PAYLOAD_TOO_LARGE', { message, cause })
        }
        if (!(cause instanceof TransactionTimeout)) throw cause
        const message = 'Writing the rows took longer than a minute; send fewer in each import'
        throw apiError('SERVICE_UNAVAILABLE', { message, retryAfter: RETRY_AFTER, cause })
      }),
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    imports: ReturnType<typeof createImports>
  }
}

export default fp(
  async (app: FastifyInstance, config: ImportConfig) => {
    const folder = join(config.DATA_DIR, 'imports')
    await removeFiles(folder)
    app.decorate('imports', createImports(app, config, folder))
  },
  { name: 'imports', dependencies: ['errors', 'database'] },
)
