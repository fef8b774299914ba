/** The limits of imports, and those that run in this process: one of each user, on half of the connections. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'

interface ImportOptions {
  maxRows: number
  /** Bytes of a body. */
  maxBytes: number
  /** Bytes of a row. */
  maxRowBytes: number
  /** Milliseconds that an import may take. */
  maxMs: number
  /** Those to the primary database. */
  connections: number
}

/** On the embedded database, whose only connection an import holds. */
const MAX_EMBEDDED_ROWS = 10_000
/** Bytes that are read on the embedded database before the import takes the connection. */
const EMBEDDED_READ_AHEAD = 16_777_216
/** Seconds. */
const RETRY_AFTER = 5

function createImports({ database }: FastifyInstance, options: ImportOptions) {
  const isEmbedded = database.kind === 'embedded'
  const maxRunning = Math.max(1, Math.floor(options.connections / 2))
  const running = new Set<string>()
  return {
    ...options,
    maxRows: isEmbedded ? Math.min(options.maxRows, MAX_EMBEDDED_ROWS) : options.maxRows,
    /** The imports that are running. */
    get size(): number {
      return running.size
    },
    /** Bytes to read before the transaction begins. */
    readAheadBytes: isEmbedded ? EMBEDDED_READ_AHEAD : 0,

    /**
     * Begins an import of a user.
     * @returns ends it
     * @throws ApiError 429 while the user has another one, 503 while there are too many
     */
    begin(userId: string): () => void {
      if (running.has(userId)) {
        const message = 'Another import of this user is running'
        throw apiError('RATE_LIMIT_EXCEEDED', { message, retryAfter: RETRY_AFTER })
      }
      if (running.size >= maxRunning) {
        const message = 'Too many imports are running'
        throw apiError('SERVICE_UNAVAILABLE', { message, retryAfter: RETRY_AFTER })
      }
      running.add(userId)
      return () => running.delete(userId)
    },
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    imports: ReturnType<typeof createImports>
  }
}

export default fp(
  async (app: FastifyInstance, options: ImportOptions) => {
    app.decorate('imports', createImports(app, options))
  },
  { name: 'imports', dependencies: ['errors', 'database'] },
)
