/** Opens a thousand slow sockets, and measures when the server closes them and how a normal client is affected. */
import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { ADMIN_KEY } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { bindServer, runLoad } from './load.ts'
import { failIf, formatOutcome, summarize } from './report.ts'
import { startSeededServer } from './server.ts'

/** Three kinds (header sections, bodies, readers): about a thousand sockets in all. */
const SOCKETS_PER_KIND = 334
/** The factor by which the p99 of a normal client may grow. */
const MAX_SLOWDOWN = 2
/** The time until the last slow socket must be closed: the timeout of unread responses, and a few seconds. */
const MAX_CLOSE_MS = 35_000
/** Requests per second of the normal client. */
const NORMAL_RATE = 100
const PHASE_SECONDS = 20
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

/** Sends the beginning of a request, then a byte per interval, or reads the response slowly. */
function openSlowSocket(port: number, beginning: string, isReader: boolean): Socket {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined)
  socket.write(beginning)
  if (isReader) socket.read(0)
  else socket.resume()
  const step = () => (isReader ? socket.read(SLOW_READ_BYTES) : socket.write('a'))
  const timer = setInterval(step, SLOW_INTERVAL_MS)
  return socket.on('close', () => clearInterval(timer))
}

export async function measureSlowSockets(t: Owner): Promise<void> {
  console.log(
    `${SOCKETS_PER_KIND * 3} slow sockets (header sections, bodies, readers), PostgreSQL; responses (ms: p50 / p99 / max)`,
  )
  const { server, requests } = await startSeededServer(t)
  const { port, admin } = server
  const { pid } = server.child
  bindServer(pid)
  for (let i = 0; i < POST_COUNT; i++) {
    const { status } = await admin.post('/users/me/posts', { title: `${i}`, body: 'y'.repeat(POST_LENGTH) })
    if (status !== 201) throw new Error(`POST /users/me/posts returned ${status}`)
  }
  const runNormalClient = async () =>
    (await runLoad({ port, requests, rate: NORMAL_RATE, seconds: PHASE_SECONDS })).served
  // Warm-up: code that is not yet compiled is slow.
  await runLoad({ port, requests, connections: 32, seconds: 5 })
  const quiet = await runNormalClient()

  const before = countSockets(pid)
  const opened: Socket[] = []
  t.teardown(() => {
    for (const socket of opened) socket.destroy()
  })
  const closeTimes: Record<string, number[]> = { heads: [], bodies: [] }
  const open = (beginning: string, kind?: string) => {
    const socket = openSlowSocket(port, beginning, kind === undefined)
    const openedAt = performance.now()
    if (kind) socket.on('close', () => closeTimes[kind]?.push((performance.now() - openedAt) / 1000))
    opened.push(socket)
    return socket
  }
  const headers = `Host: a\r\nX-API-Key: ${ADMIN_KEY}\r\n`
  // Readers first and one at a time: the cost of creating their pages is not part of the measurement.
  for (let i = 0; i < SOCKETS_PER_KIND; i++) {
    const socket = open(`GET /api/v1/users/me/posts?limit=100 HTTP/1.1\r\n${headers}\r\n`)
    await once(socket, 'connect')
    while (socket.bytesRead === 0) await wait(5)
  }
  const normalClient = runNormalClient()
  const body = 'Content-Type: application/json\r\nContent-Length: 500\r\n\r\n'
  for (let i = 0; i < SOCKETS_PER_KIND; i++) {
    open('GET /api/v1/products HTTP/1.1\r\nHost: ', 'heads')
    open(`POST /api/v1/products HTTP/1.1\r\n${headers}${body}`, 'bodies')
    // Opened gradually: a burst of connections would be another test.
    await wait(5)
  }
  // The sockets are counted at the server: the end of a slow reader's connection follows the data that it has not read.
  const openedAt = performance.now()
  const max = countSockets(pid)
  while (countSockets(pid) > before && performance.now() - openedAt < 2 * MAX_CLOSE_MS) await wait(500)
  const closedAfter = performance.now() - openedAt
  console.log(
    `  sockets: ${before} before, ${max} with slow ones, all closed after ${closedAfter.toFixed(0)} ms`,
  )
  failIf(closedAfter > MAX_CLOSE_MS)
  for (const [kind, times] of Object.entries(closeTimes)) {
    const { count, min, max } = summarize(times)
    console.log(
      `  ${kind}: ${count} of ${SOCKETS_PER_KIND} closed after ${min.toFixed(1)} to ${max.toFixed(1)} s`,
    )
    failIf(count !== SOCKETS_PER_KIND)
  }
  const loaded = await normalClient
  console.log(
    `  a normal client without slow sockets: ${formatOutcome(quiet)}; with them: ${formatOutcome(loaded)}`,
  )
  failIf(loaded.p99 > MAX_SLOWDOWN * quiet.p99)
}
