/** Ends the service so that no client notices: it says so first, then finishes what runs, then lets go. */
import { setTimeout as wait } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

export interface ShutdownOptions {
  /** Milliseconds between `readyz` 503 and the end of listening, for those who route requests to see it. */
  delay: number
  /** Milliseconds that requests have to finish once nothing new is taken. */
  grace?: number
}

declare module 'fastify' {
  interface FastifyInstance {
    /** True from the start of a shutdown. */
    readonly draining: boolean
    /** Shuts down gracefully; called again, it waits for the same shutdown. */
    drain(): Promise<void>
  }
}

async function shutdown(app: FastifyInstance, { delay, grace = 10_000 }: ShutdownOptions) {
  let draining = false
  let drained: Promise<void> | undefined

  async function drain() {
    draining = true
    app.log.info({ delay_ms: delay }, 'shutting down')
    await wait(delay)
    const late = setTimeout(() => {
      app.log.warn({ grace_ms: grace }, 'requests that still run are cut off')
      app.server.closeAllConnections()
    }, grace)
    try {
      await app.close()
    } finally {
      clearTimeout(late)
    }
  }

  app.decorate('draining', { getter: () => draining })
  app.decorate('drain', () => {
    drained ??= drain()
    return drained
  })
  app.addHook('preClose', async () => {
    draining = true
  })
  // Clients then open their next connection elsewhere: none waits on one that is about to end.
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (draining) reply.header('Connection', 'close')
    done(null, payload)
  })
}

export default fp(shutdown, { name: 'shutdown' })
