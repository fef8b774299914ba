/** Opens a thousand slow sockets, and measures when the server closes them and how a normal client is affected. */
import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { Owner } from '../helpers/database.ts'
import { bindToProcessor, PROCESSORS, runLoad } from './cpu-affinity.ts'
import { failIf, formatOutcome } from './report.ts'
import { CREDENTIAL, startSeededServer } from './seeded-server.ts'

/** Three kinds (header sections, bodies, readers): about a thousand sockets in all. */
const SOCKETS_PER_KIND = 334
/** The factor by which the p99 of a normal client may grow. */
const MAX_SLOWDOWN = 2
/** The time until the last slow socket must be closed: the timeout of unread responses, and a few seconds. */
const MAX_CLOSE_SECONDS = 35
/** Requests per second of the normal client. */
const NORMAL_RATE = 100
const PHASE_SECONDS = 20
/** The wait until all slow sockets are closed. */
const CLOSE_TIMEOUT_SECONDS = 60
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

/** Prints when sockets received the end of the connection. Fails if one did not. */
function printCloseTimes(kind: string, sockets: readonly SlowSocket[]): void {
  const times = sockets.flatMap(({ closedAfter }) => closedAfter ?? []).sort((a, b) => a - b)
  console.log(
    `  ${kind}: ${times.length} of ${sockets.length} closed, ${times[0]?.toFixed(1)} to ${times.at(-1)?.toFixed(1)} s after they were opened`,
  )
  failIf(times.length !== sockets.length)
}

/**
 * Waits until the process has as few sockets as before. Slow readers do not receive the end of the connection, since it
 * follows the data that they have not read.
 */
async function waitUntilClosed(pid: number | undefined, before: number): Promise<void> {
  const startedAt = performance.now()
  const getSeconds = () => (performance.now() - startedAt) / 1000
  let max = 0
  let count = countSockets(pid)
  for (; count > before && getSeconds() < CLOSE_TIMEOUT_SECONDS; count = countSockets(pid)) {
    max = Math.max(max, count)
    await wait(500)
  }
  console.log(`  sockets: ${before} before, ${max} at most; ${count} after ${getSeconds().toFixed(1)} s`)
  failIf(count > before || getSeconds() > MAX_CLOSE_SECONDS)
}

export async function measureSlowSockets(t: Owner): Promise<void> {
  console.log(
    `${SOCKETS_PER_KIND * 3} slow sockets (header sections, bodies, readers), PostgreSQL; responses (ms: p50 / p99 / max)`,
  )
  const { server, requests } = await startSeededServer(t)
  const { port } = server
  const { pid } = server.child
  bindToProcessor(pid, PROCESSORS.server)
  for (let i = 0; i < POST_COUNT; i++) {
    const post = { title: `${i}`, body: 'y'.repeat(POST_LENGTH) }
    const { status } = await server.admin.post('/users/me/posts', post)
    if (status !== 201) throw new Error(`POST /users/me/posts returned ${status}`)
  }
  const runNormalClient = async () =>
    (await runLoad({ port, requests, connections: 8, rate: NORMAL_RATE, seconds: PHASE_SECONDS })).served
  // Warm-up: code that is not yet compiled is slow.
  await runLoad({ port, requests, connections: 32, seconds: 5 })
  const quiet = await runNormalClient()

  const before = countSockets(pid)
  const opened: SlowSocket[] = []
  t.teardown(() => {
    for (const { socket } of opened) socket.destroy()
  })
  const open = (beginning: string, isReader = false) => {
    const slow = openSlowSocket(port, beginning, isReader)
    opened.push(slow)
    return slow
  }
  const headers = `Host: a\r\n${CREDENTIAL}`
  // Readers first and one at a time: the cost of creating their pages is not part of the measurement.
  for (let i = 0; i < SOCKETS_PER_KIND; i++) {
    const { socket } = open(`GET /api/v1/users/me/posts?limit=100 HTTP/1.1\r\n${headers}\r\n`, true)
    await once(socket, 'connect')
    while (socket.bytesRead === 0) await wait(5)
  }
  const normalClient = runNormalClient()
  const body = 'Content-Type: application/json\r\nContent-Length: 500\r\n\r\n'
  const heads: SlowSocket[] = []
  const bodies: SlowSocket[] = []
  for (let i = 0; i < SOCKETS_PER_KIND; i++) {
    heads.push(open('GET /api/v1/products HTTP/1.1\r\nHost: '))
    bodies.push(open(`POST /api/v1/products HTTP/1.1\r\n${headers}${body}`))
    // Opened gradually: a burst of connections would be another test.
    await wait(5)
  }
  await waitUntilClosed(pid, before)
  printCloseTimes('heads', heads)
  printCloseTimes('bodies', bodies)
  const loaded = await normalClient
  console.log(
    `  a normal client without slow sockets: ${formatOutcome(quiet)}; with them: ${formatOutcome(loaded)}`,
  )
  failIf(loaded.p99 > MAX_SLOWDOWN * quiet.p99)
}
