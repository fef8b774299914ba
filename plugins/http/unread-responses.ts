/** Limits the memory of all responses that clients are slow to read: beyond it, the oldest connections are closed. */
import { channel } from 'node:diagnostics_channel'
import type { IncomingMessage } from 'node:http'
import { getHeapStatistics } from 'node:v8'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

interface UnreadResponsesOptions {
  /** Characters of all unread responses together. Default: an eighth of the heap size limit. */
  maxUnreadLength?: number | undefined
}

/** Characters. Smaller responses are not tracked: the kernel's send buffer takes them immediately. */
const MIN_TRACKED_LENGTH = 65_536

const connectionClosed = channel('resource-api:overload:untaken')

async function unreadResponses(app: FastifyInstance, options: UnreadResponsesOptions) {
  const { maxUnreadLength = getHeapStatistics().heap_size_limit / 8 } = options
  const lengths = new Map<IncomingMessage, number>()
  let totalLength = 0

  const forget = (request: IncomingMessage) => {
    totalLength -= lengths.get(request) ?? 0
    lengths.delete(request)
  }
  const closeConnection = (request: IncomingMessage) => {
    forget(request)
    if (request.socket.destroyed) return
    app.log.warn({ characters: totalLength }, 'connection closed: unread responses use too much memory')
    if (connectionClosed.hasSubscribers) connectionClosed.publish({ reason: 'memory' })
    request.socket.destroy()
  }

  app.addHook('onSend', ({ raw }, reply, payload, done) => {
    const length = typeof payload === 'string' || payload instanceof Buffer ? payload.length : 0
    if (length > MIN_TRACKED_LENGTH) {
      lengths.set(raw, length)
      totalLength += length
      reply.raw.once('close', () => forget(raw))
      // A Map iterates in insertion order, so the oldest comes first. A single response may exceed the limit.
      for (const oldest of lengths.keys()) {
        if (totalLength <= maxUnreadLength || oldest === raw) break
        closeConnection(oldest)
      }
    }
    done(null, payload)
  })
}

export default fp(unreadResponses, { name: 'unread-responses' })
