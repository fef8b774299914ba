/**
 * Sends prepared requests over kept-alive connections and summarizes the responses. In an open loop, requests are sent at
 * a fixed rate whether or not earlier ones have responses; in a closed loop, one after the other on each connection.
 * `runLoad` in cpu-affinity.ts runs this module as a child process.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { summarize, type Times } from './report.ts'

export interface LoadOptions {
  port: number
  /** Complete requests, chosen at random. */
  requests: readonly string[]
  seconds: number
  /** Requests per second of a Poisson process; without it, the load is a closed loop. */
  rate?: number
  /** Connections opened before the first request. An open loop opens more if it needs them. */
  connections: number
}

export interface LoadReport {
  seconds: number
  sent: number
  /** By status, from the time at which the request was due; `lost` are requests without a response, `unsent` those for which no connection was available. */
  outcomes: Record<string, Times>
  /** Responses with 200, 201 and 304. */
  served: Times
  /** Milliseconds by which requests were sent late; more than a few make the measurement unreliable. */
  late: Times
}

interface Connection {
  socket: Socket
  /** The received part of the response's header section. */
  head: Buffer
  /** The status of the response; undefined until its header section is complete. */
  status: string | undefined
  /** Missing bytes of the response's body. */
  missing: number
  /** The time at which the current request was due. */
  due: number
  isBusy: boolean
  /** The time of the last response. */
  idleSince: number
}

const SERVED_STATUSES = new Set(['200', '201', '304'])
const EMPTY = Buffer.alloc(0)
/** Idle connections are not used longer, since the server closes them after 5 s. */
const MAX_IDLE_MS = 4_000
const MAX_CONNECTIONS = 5_000
/** The wait for the last responses. */
const DRAIN_TIMEOUT_MS = 15_000

/** Reads a chunk of a response. A body is only counted, so that large ones cost the generator little. */
function readChunk(connection: Connection, chunk: Buffer): void {
  if (connection.status !== undefined) {
    connection.missing -= chunk.length
    return
  }
  const bytes = connection.head.length === 0 ? chunk : Buffer.concat([connection.head, chunk])
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) {
    connection.head = bytes
    return
  }
  const text = bytes.toString('latin1', 0, end)
  const length = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1] ?? 0)
  connection.status = text.slice(9, 12)
  connection.missing = end + 4 + length - bytes.length
}

const sumLengths = (lists: Iterable<readonly unknown[]>) =>
  [...lists].reduce((sum, { length }) => sum + length, 0)

class LoadGenerator {
  readonly #options: LoadOptions
  readonly #requests: readonly Buffer[]
  readonly #times = new Map<string, number[]>()
  readonly #late: number[] = []
  readonly #idle: Connection[] = []
  #openConnections = 0
  #pendingRequests = 0
  #isOver = false

  constructor(options: LoadOptions) {
    this.#options = options
    this.#requests = options.requests.map((text) => Buffer.from(text))
  }

  async run(): Promise<LoadReport> {
    await this.#openInitialConnections()
    const startedAt = performance.now()
    if (this.#options.rate === undefined) await this.#runClosedLoop()
    else await this.#runOpenLoop(this.#options.rate, startedAt)
    this.#isOver = true
    const seconds = (performance.now() - startedAt) / 1000
    const answered = sumLengths(this.#times.values())
    await this.#drain()
    const all = [...this.#times]
    return {
      seconds,
      sent: this.#options.rate === undefined ? answered : sumLengths(this.#times.values()),
      outcomes: Object.fromEntries(all.map(([status, times]) => [status, summarize(times)])),
      served: summarize(all.flatMap(([status, times]) => (SERVED_STATUSES.has(status) ? times : []))),
      late: summarize(this.#late),
    }
  }

  async #openInitialConnections(): Promise<void> {
    for (let i = 0; i < this.#options.connections; i++) {
      const connection = this.#open()
      await once(connection.socket, 'connect')
      this.#idle.push(connection)
    }
  }

  async #runClosedLoop(): Promise<void> {
    for (const connection of this.#idle.splice(0)) this.#send(connection, performance.now())
    await wait(this.#options.seconds * 1000)
  }

  async #runOpenLoop(rate: number, startedAt: number): Promise<void> {
    const end = startedAt + this.#options.seconds * 1000
    const drawInterval = () => (-Math.log(1 - Math.random()) / rate) * 1000
    for (let due = startedAt + drawInterval(); due < end; ) {
      await wait(1)
      for (const now = performance.now(); due <= now && due < end; due += drawInterval()) {
        this.#late.push(now - due)
        const connection = this.#getConnection()
        if (connection) this.#send(connection, due)
        else this.#record('unsent', due)
      }
    }
  }

  async #drain(): Promise<void> {
    const deadline = performance.now() + DRAIN_TIMEOUT_MS
    while (this.#pendingRequests > 0 && performance.now() < deadline) await wait(10)
    for (const { socket } of this.#idle) socket.destroy()
  }

  #open(): Connection {
    const socket = connect({ port: this.#options.port, host: '127.0.0.1', noDelay: true })
    const response = { head: EMPTY, status: undefined, missing: 0 }
    const state = { due: 0, isBusy: false, idleSince: performance.now() }
    const connection: Connection = { socket, ...response, ...state }
    this.#openConnections++
    socket.on('data', (chunk) => {
      readChunk(connection, chunk)
      const { status, missing } = connection
      if (status === undefined || missing > 0) return
      connection.head = EMPTY
      connection.status = undefined
      if (connection.isBusy) this.#finish(connection, status)
    })
    socket.on('error', () => undefined)
    socket.on('close', () => {
      this.#openConnections--
      if (connection.isBusy) this.#finish(connection, 'lost')
    })
    return connection
  }

  /** Returns the connection used last, as Node.js's agent does, or a new one. Closes connections idle for too long. */
  #getConnection(): Connection | undefined {
    for (let idle = this.#idle.pop(); idle; idle = this.#idle.pop()) {
      const isFresh = performance.now() - idle.idleSince < MAX_IDLE_MS
      if (isFresh && !idle.socket.destroyed) return idle
      idle.socket.destroy()
    }
    return this.#openConnections < MAX_CONNECTIONS ? this.#open() : undefined
  }

  #send(connection: Connection, due: number): void {
    connection.isBusy = true
    connection.due = due
    this.#pendingRequests++
    connection.socket.write(this.#requests[Math.floor(Math.random() * this.#requests.length)] ?? EMPTY)
  }

  #finish(connection: Connection, status: string): void {
    connection.isBusy = false
    connection.idleSince = performance.now()
    this.#pendingRequests--
    this.#record(status, connection.due)
    if (connection.socket.destroyed) return
    if (this.#options.rate === undefined && !this.#isOver) this.#send(connection, performance.now())
    else this.#idle.push(connection)
  }

  #record(status: string, due: number): void {
    const times = this.#times.get(status)
    if (times) times.push(performance.now() - due)
    else this.#times.set(status, [performance.now() - due])
  }
}

// As a child process: receives the options, runs the load and sends the report.
if (process.send) {
  process.once('message', async (options: LoadOptions) => {
    process.send?.(await new LoadGenerator(options).run())
    process.disconnect()
  })
}
