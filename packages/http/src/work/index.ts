/** The worker of the process: what is done in the background, for which each kind of work registers. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Worker } from './worker.ts'

declare module 'fastify' {
  interface FastifyInstance {
    work: Worker
  }
}

async function work(app: FastifyInstance) {
  const { database, log } = app
  const worker = new Worker({ database, log })
  app.decorate('work', worker)
  app.repeat((isWanted) => worker.prune(isWanted), 'old work could not be deleted')
  app.addHook('onReady', async () => worker.start())
  app.addHook('preClose', () => worker.pause())
  // Fastify runs onClose hooks in reverse order, so this one runs before the database closes.
  app.addHook('onClose', () => worker.stop())
}

export default fp(work, { name: 'work', dependencies: ['background', 'database'] })
