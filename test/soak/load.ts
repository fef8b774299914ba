/**
 * Load from a process of its own: requests as ready bytes on kept connections, at a rate of its own (open loop: who is
 * late is sent all the same, and waits) or one after the other on each connection (closed loop). It prints what came back.
 */

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'

export interface LoadOptions {
  port: number
  /** Whole requests, each as likely as any other. */
  requests: readonly string[]
  seconds: number
  /** Requests a second, as in a Poisson process; absent: closed loop. */
  rate?: number
  /** Connections, all opened before the first request. In an open loop more are opened as they are needed. */
  connections: number
}

/** Of answers with one status: how many, and milliseconds from when they were due. */
export interface Outcome {
  count: number
  p50: number
  p99: number
  max: number
}

export interface LoadReport {
  seconds: number
  sent: number
  /** By status; `lost` are those whose connection ended without an answer, `unsent` those for whom none was free. */
  outcomes: Record<string, Outcome>
  /** Those of 200, 201 and 304 together. */
  served: Outcome
  /** By how much the load itself was late, in milliseconds: beyond a few, the rest says little of the server. */
  late: Outcome
}

interface Connection {
  socket: Socket
  /** What came of the answer's head so far. */
  head: Buffer
  /** The status of the answer, once its head is there, and how many bytes of its body are missing. */
  status: string | undefined
  missing: number
  /** When the request that is under way was due. */
  due: number
  busy: boolean
  /** When the last answer came. */
  rested: number
}

const SERVED = new Set(['200', '201', '304'])
const EMPTY = Buffer.alloc(0)
/** Milliseconds; the server closes a connection after five idle seconds. */
const PATIENCE_WITH_IDLE = 4_000
/** Connections at most, whatever is needed. */
const MOST = 5_000
/** Milliseconds in which the last answers may still come. */
const AFTERMATH = 15_000

/** Takes a part of an answer in. A body is counted and not kept: a large one costs the load no more than its bytes. */
function takeIn(connection: Connection, chunk: Buffer): void {
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

const sum = (counts: Iterable<readonly unknown[]>) => [...counts].reduce((all, { length }) => all + length, 0)

function summarize(times: readonly number[]): Outcome {
  const sorted = Float64Array.from(times).sort()
  const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN
  return { count: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) }
}

export async function load(options: LoadOptions): Promise<LoadReport> {
  const { port, requests, seconds, rate, connections } = options
  const ready = requests.map((text) => Buffer.from(text))
  const times = new Map<string, number[]>()
  const late: number[] = []
  const idle: Connection[] = []
  const state = { open: 0, underWay: 0, over: false }

  const note = (status: string, due: number) => {
    const known = times.get(status)
    if (known) known.push(performance.now() - due)
    else times.set(status, [performance.now() - due])
  }
  const send = (connection: Connection, due: number) => {
    connection.busy = true
    connection.due = due
    state.underWay++
    connection.socket.write(ready[Math.floor(Math.random() * ready.length)] ?? EMPTY)
  }
  const finish = (connection: Connection, status: string) => {
    connection.busy = false
    connection.rested = performance.now()
    state.underWay--
    note(status, connection.due)
    if (connection.socket.destroyed) return
    if (rate === undefined && !state.over) send(connection, performance.now())
    else idle.push(connection)
  }
  const open = (): Connection => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    const answer = { head: EMPTY, status: undefined, missing: 0 }
    const connection: Connection = { socket, ...answer, due: 0, busy: false, rested: performance.now() }
    state.open++
    socket.on('data', (chunk) => {
      takeIn(connection, chunk)
      const { status, missing } = connection
      if (status === undefined || missing > 0) return
      connection.head = EMPTY
      connection.status = undefined
      if (connection.busy) finish(connection, status)
    })
    socket.on('error', () => undefined)
    socket.on('close', () => {
      state.open--
      if (connection.busy) finish(connection, 'lost')
    })
    return connection
  }
  /** The one that was used last, as Node's own agent does. One that the server may be about to close is closed here. */
  const free = (): Connection | undefined => {
    for (let known = idle.pop(); known; known = idle.pop()) {
      const isFresh = performance.now() - known.rested < PATIENCE_WITH_IDLE
      if (isFresh && !known.socket.destroyed) return known
      known.socket.destroy()
    }
    return state.open < MOST ? open() : undefined
  }

  for (let i = 0; i < connections; i++) {
    const connection = open()
    await once(connection.socket, 'connect')
    idle.push(connection)
  }
  const began = performance.now()
  const until = began + seconds * 1000
  if (rate === undefined) {
    for (const connection of idle.splice(0)) send(connection, performance.now())
    await wait(seconds * 1000)
  } else {
    const between = () => (-Math.log(1 - Math.random()) / rate) * 1000
    for (let due = began + between(); due < until; ) {
      await wait(1)
      for (const now = performance.now(); due <= now && due < until; due += between()) {
        late.push(now - due)
        const connection = free()
        if (connection) send(connection, due)
        else note('unsent', due)
      }
    }
  }
  state.over = true
  const took = (performance.now() - began) / 1000
  const answered = sum(times.values())
  const patience = performance.now() + AFTERMATH
  while (state.underWay > 0 && performance.now() < patience) await wait(10)
  for (const { socket } of idle) socket.destroy()
  const outcomes = Object.fromEntries([...times].map(([status, each]) => [status, summarize(each)]))
  const served = [...times].flatMap(([status, each]) => (SERVED.has(status) ? [each] : [])).flat()
  return {
    seconds: took,
    sent: rate === undefined ? answered : sum(times.values()),
    outcomes,
    served: summarize(served),
    late: summarize(late),
  }
}

// As a child process of overload.ts or slow.ts: takes the options, sends the report, and exits.
if (process.send) {
  process.once('message', async (options: LoadOptions) => {
    process.send?.(await load(options))
    process.disconnect()
  })
}
