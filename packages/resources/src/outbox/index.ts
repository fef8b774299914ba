/** Records changes of resources as events, and announces that a change was committed. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Recorders } from './recorder.ts'

interface Outbox {
  /** Empty if no events are written. */
  recorders: Recorders
  /** Calls the listener after each commit in this process that may have written events. */
  subscribe(listener: () => void): void
  /** To be called after such a commit. */
  publish(): void
}

declare module 'fastify' {
  interface FastifyInstance {
    outbox: Outbox
  }
}

async function outbox(app: FastifyInstance, { recorders }: Pick<Outbox, 'recorders'>) {
  const listeners: (() => void)[] = [() => app.work.onCommit()]
  app.decorate('outbox', {
    recorders,
    subscribe: (listener) => void listeners.push(listener),
    publish() {
      for (const listener of listeners) listener()
    },
  })
}

export default fp(outbox, { name: 'outbox', dependencies: ['work'] })
