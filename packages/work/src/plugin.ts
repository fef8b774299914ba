/** The worker of the process: what is done in the background, for which each kind of work registers. */
import type { Database } from '@resource-api/database'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import repeat from './repeat.ts'
import { Worker } from './worker.ts'

declare module 'fastify' {
  interface FastifyInstance {
    work: Worker
  }
}

async function work(app: FastifyInstance, { database }: { database: Database }) {
  await app.register(repeat)
  const worker = new Worker({ database, log: app.log })
  app.decorate('work', worker)
  app.repeat((isWanted) => worker.prune(isWanted), 'old work could not be deleted')
  app.addHook('onReady', async () => worker.start())
  app.addHook('preClose', () => worker.pause())
  // Fastify runs onClose hooks in reverse order: what is registered after the database ends before it closes.
  app.addHook('onClose', () => worker.stop())
}

export default fp(work, { name: 'work' })
