/** Shuts down gracefully: `/readyz` fails first, then running requests finish, then all connections close. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config/settings.ts'

export interface ShutdownOptions extends Pick<Config, 'SHUTDOWN_DELAY'> {
  /** Milliseconds for running requests to finish once the port is closed. */
  grace?: number
}

declare module 'fastify' {
  interface FastifyInstance {
    /** True from the start of a shutdown. */
    draining: boolean
    /** Whether another process serves the port after the shutdown, so that `/readyz` stays 200. */
    isReplaced: boolean
    /** Called when the time for running requests is over, before their connections are closed. */
    onGraceEnd: Set<() => void>
    /** Shuts down gracefully. A second call waits for the same shutdown. */
    drain(): Promise<void>
  }
}

async function shutdown(app: FastifyInstance, { SHUTDOWN_DELAY: delay, grace = 10_000 }: ShutdownOptions) {
  let shutdownPromise: Promise<void> | undefined

  async function drain() {
    app.draining = true
    app.log.info({ delay_ms: delay }, 'shutting down')
    await sleep(delay)
    const graceTimer = setTimeout(() => {
      app.log.warn({ grace_ms: grace }, 'closing connections with requests in progress')
      for (const end of app.onGraceEnd) end()
      app.server.closeAllConnections()
    }, grace)
    try {
      await app.close()
    } finally {
      clearTimeout(graceTimer)
    }
  }

  app.decorate('draining', false)
  app.decorate('isReplaced', false)
  app.decorate('onGraceEnd', new Set<() => void>())
  app.decorate('drain', () => {
    shutdownPromise ??= drain()
    return shutdownPromise
  })
  app.addHook('preClose', async () => {
    app.draining = true
  })
}

export default fp(shutdown, { name: 'shutdown' })
