/**
 * The lifetime of a request: the one owner of what was taken on its behalf. Each thing is registered with the function
 * that gives it back, which runs once: when the response or the connection ends, or immediately if that was before.
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { OnQueue } from '../../lib/semaphore.ts'
import { apiError } from '../errors/index.ts'

const LIFETIME = Symbol('lifetime')
const LIFETIMES = Symbol('lifetimes')

declare module 'node:http' {
  interface ServerResponse {
    [LIFETIME]?: RequestLifetime
  }
}

declare module 'node:net' {
  interface Socket {
    /** The lifetimes of the requests on this connection that have not ended, in their order. */
    [LIFETIMES]?: RequestLifetime[]
  }
}

/** The error of work that is dropped. No client reads it; a 400 does not count as a failure of the server. */
export const disconnected = apiError('INVALID_REQUEST', { message: 'The client disconnected' })

/** Returns the lifetimes on a connection. The listener is made here, so that it retains no request. */
function getLifetimes(socket: Socket): RequestLifetime[] {
  const earlier = socket[LIFETIMES]
  if (earlier) return earlier
  const lifetimes: RequestLifetime[] = []
  socket[LIFETIMES] = lifetimes
  socket.once('close', () => {
    for (const lifetime of [...lifetimes]) lifetime.end()
  })
  return lifetimes
}

export class RequestLifetime {
  readonly #response: ServerResponse
  #isAnswered = false
  #untilAnswered: (() => void)[] = []
  #untilEnd: (() => void)[] = []

  constructor(response: ServerResponse) {
    this.#response = response
    response.on('close', () => this.end())
    // A pipelined response behind another one emits no 'close' when the connection ends.
    getLifetimes(response.req.socket).push(this)
  }

  /** Whether the client still waits for the response: no response is being sent, and the connection has not ended. */
  get isAwaited(): boolean {
    return !this.#isAnswered && !this.#response.writableEnded && !this.#hasEnded
  }

  /** Gives something back when the response begins: what only the work for the request needs. */
  untilAnswered(giveBack: () => void): void {
    if (this.isAwaited) this.#untilAnswered.push(giveBack)
    else giveBack()
  }

  /** For `Semaphore.run`: ends the waiting when the response begins. */
  get onQueue(): OnQueue {
    return (refuse) => this.untilAnswered(() => refuse(disconnected))
  }

  /** Gives something back when the client has the response, or the connection has ended. */
  untilEnd(giveBack: () => void): void {
    if (this.#hasEnded) giveBack()
    else this.#untilEnd.push(giveBack)
  }

  /** To be called when the response begins. */
  answer(): void {
    this.#isAnswered = true
    for (const giveBack of this.#untilAnswered.splice(0)) giveBack()
  }

  /** To be called when the response or the connection has ended. */
  end(): void {
    const lifetimes = getLifetimes(this.#response.req.socket)
    const index = lifetimes.indexOf(this)
    if (index !== -1) lifetimes.splice(index, 1)
    this.answer()
    for (const giveBack of this.#untilEnd.splice(0)) giveBack()
  }

  /** A socket is destroyed before it emits 'close'. */
  get #hasEnded(): boolean {
    return this.#response.destroyed || this.#response.req.socket.destroyed
  }
}

/** Returns the lifetime of the request of a response. */
export function getLifetime(response: ServerResponse): RequestLifetime {
  response[LIFETIME] ??= new RequestLifetime(response)
  return response[LIFETIME]
}
