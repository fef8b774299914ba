/** Work that the service repeats every few minutes, such as the removal of what is old. */
import { BackgroundTask } from '@resource-api/database/concurrency'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

const MINUTE_MS = 60_000
const INTERVAL_MS = 10 * MINUTE_MS

/** @param isWanted returns false when the app closes: long work then ends early */
type Work = (isWanted: () => boolean) => Promise<unknown>

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Repeats work until the app closes, which waits for it.
     * @param failureMessage for the log line of the first failure after a success
     * @param intervalMs at least, and at most half as much more
     */
    repeat(work: Work, failureMessage: string, intervalMs?: number): void
  }
}

async function repeatPlugin(app: FastifyInstance) {
  const tasks: BackgroundTask[] = []
  app.decorate('repeat', (work, failureMessage, intervalMs = INTERVAL_MS) => {
    const task: BackgroundTask = new BackgroundTask({
      work: () => work(() => !task.isStopped),
      // Random, so that processes that started together do not run together.
      getDelay: () => intervalMs * (1 + Math.random() / 2),
      retryDelay: intervalMs,
      onFailure: (err) => app.log.warn({ err }, failureMessage),
    })
    task.start(MINUTE_MS * (1 + Math.random() / 2))
    tasks.push(task)
  })
  app.addHook('onClose', async () => {
    await Promise.all(tasks.map((task) => task.stop()))
  })
}

export default fp(repeatPlugin, { name: 'background' })
