/**
 * The lifetime of a request: the one owner of what was taken on its behalf. Each thing is registered with the function
 * that gives it back, which runs once: when the response or the connection ends, or immediately if that was before.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { OnQueue } from '@resource-api/database/concurrency'
import { apiError } from '../errors/errors.ts'

const LIFETIME = Symbol('lifetime')
const LIFETIMES = Symbol('lifetimes')
const LATEST_RESPONSE = Symbol('latest response')

declare module 'node:http' {
  interface ServerResponse {
    [LIFETIME]?: RequestLifetime
  }
}

declare module 'node:net' {
  interface Socket {
    /** The lifetimes of the requests on this connection that have not ended, in their order. */
    [LIFETIMES]?: RequestLifetime[]
    /**
     * The latest response that was started on this connection; null once it and its request are complete. If a connection
     * keeps both until its next request, they move to the old generation: with 1000 connections, that was half of the
     * garbage collector's work.
     */
    [LATEST_RESPONSE]?: ServerResponse | null
  }
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The response timeout and, once that has expired, the read timeout. Set by the server, if it has timeouts. */
    timeout?: NodeJS.Timeout | null
  }
}

/** The error of work that is dropped. No client reads it; a 400 does not count as a failure of the server. */
export const disconnected = apiError('INVALID_REQUEST', { message: 'The client disconnected' })

/** Creates the list of the lifetimes on a connection. The listener is made here, so that it retains no request. */
function createLifetimes(socket: Socket): RequestLifetime[] {
  const lifetimes: RequestLifetime[] = []
  socket.once('close', () => {
    for (const lifetime of [...lifetimes]) lifetime.end()
  })
  return lifetimes
}

export class RequestLifetime {
  readonly #response: ServerResponse
  readonly #others: RequestLifetime[]
  #isAnswered: boolean
  #hasEnded: boolean
  #untilAnswered: (() => void)[]
  #untilEnd: (() => void)[]

  constructor(response: ServerResponse) {
    const { socket } = response.req
    socket[LIFETIMES] ??= createLifetimes(socket)
    socket[LATEST_RESPONSE] = response
    this.#response = response
    this.#others = socket[LIFETIMES]
    this.#isAnswered = false
    this.#hasEnded = false
    this.#untilAnswered = []
    this.#untilEnd = []
    response.on('close', this.end.bind(this))
    // A pipelined response behind another one emits no 'close' when the connection ends.
    this.#others.push(this)
  }

  /** Whether the client still waits for the response: no response is being sent, and the connection has not ended. */
  get isAwaited(): boolean {
    const { writableEnded, destroyed, req } = this.#response
    // A socket is destroyed before it emits 'close'.
    return !this.#isAnswered && !writableEnded && !destroyed && !req.socket.destroyed
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
    const { req } = this.#response
    const index = this.#others.indexOf(this)
    if (index !== -1) this.#others.splice(index, 1)
    if (req.complete && req.socket[LATEST_RESPONSE] === this.#response) req.socket[LATEST_RESPONSE] = null
    this.#hasEnded = true
    this.answer()
    for (const giveBack of this.#untilEnd.splice(0)) giveBack()
  }
}

/** Returns the lifetime of the request of a response. */
export function getLifetime(response: ServerResponse): RequestLifetime {
  response[LIFETIME] ??= new RequestLifetime(response)
  return response[LIFETIME]
}

/** Starts the lifetime of a request: a listener of the server's requests. */
export const startLifetime = (_request: IncomingMessage, response: ServerResponse): void => {
  getLifetime(response)
}

/** Returns the latest response on a connection; null once it and its request are complete, undefined if there was none. */
export const getLatestResponse = (socket: Socket): ServerResponse | null | undefined =>
  socket[LATEST_RESPONSE]
