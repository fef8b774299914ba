/**
 * Requests take turns: a few are worked on, some wait in front of Fastify. There one that waits is but what Node's
 * parser made of it; with all that Fastify and the database add, a thousand that wait would cost the garbage
 * collector a fifth of the processor.
 */
import type { IncomingMessage } from 'node:http'
import { createGate } from '../database/gate.ts'

export interface RoomOptions {
  /** Requests that are worked on at once. */
  inside: number
  /** Requests that may wait. */
  waiting: number
}

/** Milliseconds between two looks for turns whose owner has gone. */
const SWEEP = 1_000

export function createRoom({ inside, waiting }: RoomOptions) {
  const gate = createGate({ size: inside, queue: waiting })
  const turns = new Map<IncomingMessage, () => void>()

  const end = (request: IncomingMessage) => {
    turns.get(request)?.()
    turns.delete(request)
  }
  // Behind another that was pipelined, a reply hears nothing of the end of its connection.
  const sweeping = setInterval(() => {
    for (const request of turns.keys()) if (request.socket.destroyed) end(request)
  }, SWEEP).unref()

  return {
    /** Calls `begin` when it is the request's turn: at once, where nobody waits. `refuse` when it does not come. */
    take(request: IncomingMessage, begin: () => void, refuse: () => void): void {
      const turn = () =>
        new Promise<void>((done) => {
          turns.set(request, done)
          begin()
        })
      gate.run(turn).catch(refuse)
    },
    /** Whoever has a turn gives it back; twice is as good as once. */
    end,
    /** Whether one more could not even wait. */
    get isFull() {
      return turns.size >= inside && gate.waiting >= waiting
    },
    holds: (request: IncomingMessage) => turns.has(request),
    close: () => clearInterval(sweeping),
    get inside() {
      return turns.size
    },
    get waiting() {
      return gate.waiting
    },
    /** Milliseconds that one who comes now may expect to wait. */
    get delay() {
      return gate.delay
    },
  }
}

export type Room = ReturnType<typeof createRoom>
