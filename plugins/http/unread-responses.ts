/** Answers that their clients are slow to take: together they may hold so much memory, then the oldest are cut off. */
import { channel } from 'node:diagnostics_channel'
import type { IncomingMessage } from 'node:http'
import { getHeapStatistics } from 'node:v8'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

interface UntakenOptions {
  /** Characters of all answers that are not taken yet; an eighth of what the heap may grow to, if it is not said. */
  most?: number | undefined
}

/** Smaller answers leave at once: the kernel takes them. */
const SMALL = 65_536

const untaken = channel('resource-api:overload:untaken')

async function untakenAnswers(app: FastifyInstance, options: UntakenOptions) {
  const { most = getHeapStatistics().heap_size_limit / 8 } = options
  const sizes = new Map<IncomingMessage, number>()
  let sum = 0

  const forget = (request: IncomingMessage) => {
    sum -= sizes.get(request) ?? 0
    sizes.delete(request)
  }
  const cut = (request: IncomingMessage) => {
    forget(request)
    if (request.socket.destroyed) return
    app.log.warn({ characters: sum }, 'too many answers are not taken: the oldest is cut off')
    if (untaken.hasSubscribers) untaken.publish({ reason: 'memory' })
    request.socket.destroy()
  }

  app.addHook('onSend', ({ raw }, reply, payload, done) => {
    const size = typeof payload === 'string' || payload instanceof Buffer ? payload.length : 0
    if (size > SMALL) {
      sizes.set(raw, size)
      sum += size
      reply.raw.once('close', () => forget(raw))
      // The first of a Map is the oldest. One alone may be as large as it is.
      for (const oldest of sizes.keys()) {
        if (sum <= most || oldest === raw) break
        cut(oldest)
      }
    }
    done(null, payload)
  })
}

export default fp(untakenAnswers, { name: 'untaken' })
