/** Records changes of resources as events, and announces that a change was committed. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Recorders } from './recorder.ts'

interface OutboxOptions {
  /** Empty if no events are written. */
  recorders: Recorders
}

interface Outbox {
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

function createOutbox({ recorders }: OutboxOptions): Outbox {
  const listeners: (() => void)[] = []
  return {
    recorders,
    subscribe: (listener) => void listeners.push(listener),
    publish() {
      for (const listener of listeners) listener()
    },
  }
}

export default fp(
  async (app: FastifyInstance, options: OutboxOptions) => void app.decorate('outbox', createOutbox(options)),
  { name: 'outbox' },
)
