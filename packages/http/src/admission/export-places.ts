/** The exports of a process: how many run, when each must end, and how it ends so that its client notices. */
import { getHeapStatistics } from 'node:v8'
import { apiError } from '@resource-api/api/errors'
import { disconnected, getLifetime } from '@resource-api/api/requests'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config/settings.ts'
import { refusedChannel } from '../rate-limit/windows.ts'

export interface ExportOptions extends Pick<Config, 'EXPORT_SECONDS'> {
  /** The memory of all exports. Default: a quarter of the heap size limit, although their bytes are outside of the heap. */
  maxExportBytes?: number
}

/** Exports of a process, if there is memory for so many. */
const MAX_EXPORTS = 100
/** What an export takes whose client does not read: two pages, what the response buffers, and the request. */
const EXPORT_BYTES = 1_048_576
const RETRY_AFTER_SECONDS = 5

declare module 'fastify' {
  interface FastifyInstance {
    exports: ExportPlaces
  }
}

/**
 * Closes the connection of a response that is incomplete. With HTTP/1.1, the client notices that the last chunk is missing;
 * with HTTP/1.0, an orderly end of the connection is the end of the body, so that the connection is reset.
 */
function breakOff({ raw }: FastifyRequest): void {
  const { socket, httpVersion } = raw
  if (httpVersion === '1.0' && !('encrypted' in socket)) {
    // Otherwise Node.js sends what was written and an orderly end (FIN) before it resets the connection.
    Object.assign(socket, { writable: false })
    socket.resetAndDestroy()
  }
  socket.destroy()
}

class ExportPlaces {
  readonly #maxMs: number
  readonly #maxSize: number
  /** The functions that end the running exports, by their users. */
  readonly #running = new Map<string, (reason: string) => void>()

  constructor({ EXPORT_SECONDS, maxExportBytes = getHeapStatistics().heap_size_limit / 4 }: ExportOptions) {
    this.#maxMs = EXPORT_SECONDS * 1000
    this.#maxSize = Math.min(MAX_EXPORTS, Math.max(1, Math.floor(maxExportBytes / EXPORT_BYTES)))
  }

  /** How many exports run. */
  get size(): number {
    return this.#running.size
  }

  /**
   * Takes the only place of a user, until the last byte was sent or the client has left.
   * @returns a signal that is aborted at the end, and a function that breaks the export off
   * @throws ApiError 429, 503
   */
  take(
    request: FastifyRequest,
    reply: FastifyReply,
    user: string,
  ): { signal: AbortSignal; fail(reason: string, error?: unknown): void } {
    if (this.#running.has(user)) {
      refusedChannel.publish({ window: 'exports' })
      throw apiError('RATE_LIMIT_EXCEEDED', {
        message: 'Another export of this user is running; a user can have one',
        retryAfter: RETRY_AFTER_SECONDS,
      })
    }
    if (this.#running.size >= this.#maxSize) {
      const message = 'This process has no room for another export'
      throw apiError('SERVICE_UNAVAILABLE', {
        message,
        retryAfter: RETRY_AFTER_SECONDS,
        contention: 'exports',
      })
    }
    const ending = new AbortController()
    const fail = (reason: string, err?: unknown) => {
      if (ending.signal.aborted) return
      request.log.warn({ err }, `export broken off: ${reason}`)
      ending.abort(disconnected)
      breakOff(request)
    }
    const timer = setTimeout(fail, this.#maxMs, 'it took too long')
    this.#running.set(user, fail)
    getLifetime(reply.raw).untilEnd(() => {
      clearTimeout(timer)
      this.#running.delete(user)
      ending.abort(disconnected)
    })
    return { signal: ending.signal, fail }
  }

  /** Breaks all exports off. */
  endAll(reason: string): void {
    for (const fail of [...this.#running.values()]) fail(reason)
  }
}

async function exportPlaces(app: FastifyInstance, options: ExportOptions) {
  const places = new ExportPlaces(options)
  app.decorate('exports', places)
  app.onGraceEnd.add(() => places.endAll('the server shuts down'))
}

export default fp(exportPlaces, { name: 'export-places', dependencies: ['errors', 'shutdown'] })
