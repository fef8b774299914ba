/** Work that the service repeats every few minutes: it removes what is old. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { BackgroundTask } from '../../lib/background-task.ts'

const MINUTE_MS = 60_000
const INTERVAL_MS = 10 * MINUTE_MS

/** @param isWanted returns false when the app closes: long work then ends early */
type Work = (isWanted: () => boolean) => Promise<unknown>

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Repeats work until the app closes, which waits for it.
     * @param failureMessage for the log line of the first failure after a success
     */
    repeat(work: Work, failureMessage: string): void
  }
}

async function background(app: FastifyInstance) {
  const tasks: BackgroundTask[] = []
  // Random, so that processes that started together do not run together.
  const getDelay = () => INTERVAL_MS * (1 + Math.random() / 2)

  app.decorate('repeat', (work, failureMessage) => {
    const task: BackgroundTask = new BackgroundTask({
      work: () => work(() => !task.isStopped),
      getDelay,
      retryDelay: INTERVAL_MS,
      onFailure: (err) => app.log.warn({ err }, failureMessage),
    })
    task.start(MINUTE_MS * (1 + Math.random() / 2))
    tasks.push(task)
  })
  // Fastify runs onClose hooks in reverse order, so this one runs before the database closes.
  app.addHook('onClose', async () => {
    await Promise.all(tasks.map((task) => task.stop()))
  })
}

export default fp(background, { name: 'background', dependencies: ['database'] })
