/**
 * Requests take turns: a few are worked on, some wait in front of Fastify. There one that waits is but what Node's
 * parser made of it; with all that Fastify and the database add, a thousand that wait would cost the garbage
 * collector a fifth of the processor.
 */
import type { IncomingMessage } from 'node:http'
import { Semaphore } from '../../lib/semaphore.ts'

export interface RoomOptions {
  /** Requests that are worked on at once. */
  inside: number
  /** Requests that may wait. */
  waiting: number
}

/** Milliseconds between two looks for turns whose owner has gone. */
const SWEEP = 1_000

/** What a request has while it is worked on. */
interface Turn {
  of: IncomingMessage | undefined
}

const TURN = Symbol('turn')

declare module 'node:http' {
  interface IncomingMessage {
    [TURN]?: Turn | undefined
  }
}

export function createRoom({ inside, waiting }: RoomOptions) {
  // Kept where they are for good: a Map that thousands come into and go from each second leaves its old tables behind,
  // and these keep requests that are long answered, until the next full collection of garbage.
  const turns = Array.from({ length: inside }, (): Turn => ({ of: undefined }))
  const gate = new Semaphore(turns, { maxWaiting: waiting })

  const end = (request: IncomingMessage) => {
    const turn = request[TURN]
    if (turn === undefined) return
    request[TURN] = turn.of = undefined
    // Who comes next begins when this one is done with what it is about.
    if (gate.waiting > 0) queueMicrotask(() => gate.release(turn))
    else gate.release(turn)
  }
  // Behind another that was pipelined, a reply hears nothing of the end of its connection.
  const sweeping = setInterval(() => {
    for (const { of } of turns) if (of?.socket.destroyed) end(of)
  }, SWEEP).unref()

  return {
    /** Calls `begin` when it is the request's turn: at once, where nobody waits. `refuse` when it does not come. */
    take(request: IncomingMessage, begin: () => void, refuse: () => void): void {
      gate.acquire((turn) => {
        turn.of = request
        request[TURN] = turn
        begin()
      }, refuse)
    },
    /** Whoever has a turn gives it back; twice is as good as once. */
    end,
    /** Whether one more could not even wait. */
    get isFull() {
      return gate.getLoad().used >= inside && gate.waiting >= waiting
    },
    holds: (request: IncomingMessage) => request[TURN] !== undefined,
    close: () => clearInterval(sweeping),
    get inside() {
      return gate.getLoad().used
    },
    get waiting() {
      return gate.waiting
    },
    /** Milliseconds that one who comes now may expect to wait. */
    get delay() {
      return gate.estimateWait()
    },
  }
}

export type Room = ReturnType<typeof createRoom>
