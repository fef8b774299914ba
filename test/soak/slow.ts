/** Opens a thousand slow sockets, and measures when the server closes them and how a normal client is affected. */
import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { Owner } from '../helpers/database.ts'
import { bindToProcessor, PROCESSORS, runLoad } from './cpu-affinity.ts'
import type { Outcome } from './load-generator.ts'
import { type ServerOptions, startSeededServer } from './seeded-server.ts'

export interface SlowOptions extends ServerOptions {
  /** Sockets of each kind. */
  each: number
}

interface CloseTimes {
  /** Sockets that received the end of the connection. */
  count: number
  /** Seconds until the first and the last socket was closed. */
  first: number
  last: number
}

export interface SlowReport {
  /** Responses to the normal client, without and with slow sockets. */
  quiet: Outcome
  loaded: Outcome
  closed: Record<'heads' | 'bodies', CloseTimes>
  /**
   * Open sockets of the server: before, at most, and seconds until there are as few as before. Slow readers do not
   * receive the end of the connection, since it follows the data that they have not read.
   */
  sockets: { before: number; max: number; closedAfter: number | undefined }
}

/** Requests per second of the normal client. */
const NORMAL_RATE = 100
const PHASE_SECONDS = 20
/** The wait until all slow sockets are closed. */
const CLOSE_TIMEOUT_MS = 60_000
/** Milliseconds between two bytes sent or two small reads. */
const SLOW_INTERVAL_MS = 500
const SLOW_READ_BYTES = 1_000
/** The page that slow readers request: larger than the socket buffers of both sides. */
const POST_COUNT = 40
const POST_LENGTH = 100_000

/** Counts the open sockets of a process (Linux). */
function countSockets(pid: number | undefined): number {
  const folder = `/proc/${pid}/fd`
  return readdirSync(folder).filter((fd) => {
    try {
      return readlinkSync(`${folder}/${fd}`).startsWith('socket:')
    } catch {
      return false
    }
  }).length
}

interface SlowSocket {
  socket: Socket
  /** Seconds until it was closed. */
  closedAfter?: number
}

/** Sends the beginning of a request, then a byte per interval, or reads the response slowly. */
function openSlowSocket(port: number, beginning: string, isReader: boolean): SlowSocket {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined)
  const slow: SlowSocket = { socket }
  const openedAt = performance.now()
  socket.write(beginning)
  if (isReader) socket.read(0)
  const step = () => (isReader ? socket.read(SLOW_READ_BYTES) : socket.write('a'))
  const timer = setInterval(step, SLOW_INTERVAL_MS)
  if (!isReader) socket.resume()
  socket.on('close', () => {
    clearInterval(timer)
    slow.closedAfter = (performance.now() - openedAt) / 1000
  })
  return slow
}

function summarizeCloseTimes(sockets: readonly SlowSocket[]): CloseTimes {
  const times = sockets.flatMap(({ closedAfter }) => closedAfter ?? []).sort((a, b) => a - b)
  return { count: times.length, first: times[0] ?? Number.NaN, last: times.at(-1) ?? Number.NaN }
}

/** Waits until the process has as few sockets as before. */
async function waitUntilClosed(pid: number | undefined, before: number): Promise<SlowReport['sockets']> {
  const startedAt = performance.now()
  let max = 0
  while (performance.now() - startedAt < CLOSE_TIMEOUT_MS) {
    const count = countSockets(pid)
    max = Math.max(max, count)
    if (count <= before) return { before, max, closedAfter: (performance.now() - startedAt) / 1000 }
    await wait(500)
  }
  return { before, max, closedAfter: undefined }
}

export async function measureSlowSockets(t: Owner, options: SlowOptions): Promise<SlowReport> {
  const { server, port, admin, credential, requests } = await startSeededServer(t, options)
  const { each } = options
  const { pid } = server.child
  bindToProcessor(pid, PROCESSORS.server)
  for (let i = 0; i < POST_COUNT; i++) {
    const { status } = await admin.post('/users/me/posts', { title: `${i}`, body: 'y'.repeat(POST_LENGTH) })
    if (status !== 201) throw new Error(`POST /users/me/posts returned ${status}`)
  }
  const runNormalClient = async () =>
    (await runLoad({ port, requests, connections: 8, rate: NORMAL_RATE, seconds: PHASE_SECONDS })).served
  // Warm-up: code that is not yet compiled is slow.
  await runLoad({ port, requests, connections: 32, seconds: 5 })
  const quiet = await runNormalClient()

  const headers = `Host: a\r\n${credential}`
  const beginnings = {
    heads: 'GET /api/v1/products HTTP/1.1\r\nHost: ',
    bodies: `POST /api/v1/products HTTP/1.1\r\n${headers}Content-Type: application/json\r\nContent-Length: 500\r\n\r\n`,
    readers: `GET /api/v1/users/me/posts?limit=100 HTTP/1.1\r\n${headers}\r\n`,
  }
  const before = countSockets(pid)
  const slow: Record<keyof typeof beginnings, SlowSocket[]> = { heads: [], bodies: [], readers: [] }
  t.teardown(() => {
    for (const { socket } of Object.values(slow).flat()) socket.destroy()
  })
  // Readers first and one at a time: the cost of creating their pages is not part of the measurement.
  for (let i = 0; i < each; i++) {
    const reader = openSlowSocket(port, beginnings.readers, true)
    slow.readers.push(reader)
    await once(reader.socket, 'connect')
    while (reader.socket.bytesRead === 0) await wait(5)
  }
  const normalClient = runNormalClient()
  for (let i = 0; i < each; i++) {
    slow.heads.push(openSlowSocket(port, beginnings.heads, false))
    slow.bodies.push(openSlowSocket(port, beginnings.bodies, false))
    // Opened gradually: a burst of connections would be another test.
    await wait(5)
  }
  const sockets = await waitUntilClosed(pid, before)
  const loaded = await normalClient
  const closed = { heads: summarizeCloseTimes(slow.heads), bodies: summarizeCloseTimes(slow.bodies) }
  return { quiet, loaded, closed, sockets }
}
