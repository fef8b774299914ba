/** Opens 1,000 slow sockets, and measures when each is closed and the latency of another client. */
import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { Owner } from '../helpers/database.ts'
import type { Outcome } from './load.ts'
import { loaded, type Served } from './mixture.ts'
import { PROCESSORS, pin, runLoad } from './pinned.ts'

export interface SlowOptions extends Served {
  /** Sockets of each kind. */
  each: number
}

export interface SlowReport {
  /** The latency of another client: alone, and with the slow sockets. */
  quiet: Outcome
  attacked: Outcome
  /** Sockets of each kind whose end was heard of, and seconds until the first and the last. */
  closed: Record<'heads' | 'bodies', { count: number; first: number; last: number }>
  /**
   * What the server has: sockets before, at most, and seconds after the last slow one came until as few as before.
   * Readers do not hear of their end: it stands behind all that they have not read.
   */
  sockets: { before: number; most: number; gone: number | undefined }
}

/** Requests a second of the healthy client. */
const RATE = 100
const SECONDS = 20
/** Milliseconds after which a socket is there for ever. */
const PATIENCE = 60_000
/** Milliseconds between two bytes, or two sips. */
const DRIP = 500
/** Posts of a page, and characters of each: more than the buffers of two kernels take. */
const POSTS = 40
const CHARACTERS = 100_000

/** Reads /proc, on Linux. */
function socketsOf(pid: number | undefined): number {
  const folder = `/proc/${pid}/fd`
  return readdirSync(folder).filter((fd) => {
    try {
      return readlinkSync(`${folder}/${fd}`).startsWith('socket:')
    } catch {
      return false
    }
  }).length
}

interface Slow {
  socket: Socket
  /** Seconds until it was closed. */
  closed?: number
}

/** Sends `first` and then byte by byte; the reply is read completely or slowly. */
function open(port: number, first: string, isReader: boolean): Slow {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined)
  const slow: Slow = { socket }
  const began = performance.now()
  socket.write(first)
  if (isReader) socket.read(0)
  const timer = setInterval(() => (isReader ? socket.read(1_000) : socket.write('a')), DRIP)
  if (!isReader) socket.resume()
  socket.on('close', () => {
    clearInterval(timer)
    slow.closed = (performance.now() - began) / 1000
  })
  return slow
}

function summary(all: readonly Slow[]) {
  const times = all.flatMap(({ closed }) => closed ?? []).sort((a, b) => a - b)
  return { count: times.length, first: times[0] ?? Number.NaN, last: times.at(-1) ?? Number.NaN }
}

export async function slowSockets(t: Owner, options: SlowOptions): Promise<SlowReport> {
  const { server, port, admin, credential, requests } = await loaded(t, options)
  const { each } = options
  pin(server.child.pid, PROCESSORS.server)
  for (let i = 0; i < POSTS; i++) {
    const { status } = await admin.post('/users/me/posts', { title: `${i}`, body: 'y'.repeat(CHARACTERS) })
    if (status !== 201) throw new Error(`POST is ${status}`)
  }
  const healthy = () =>
    runLoad({ port, requests, connections: 8, rate: RATE, seconds: SECONDS }).then(({ served }) => served)
  // What runs for the first time is slow for reasons of its own.
  await runLoad({ port, requests, connections: 32, seconds: 5 })
  const quiet = await healthy()

  const head = `Host: a\r\n${credential}`
  const first = {
    heads: 'GET /api/v1/products HTTP/1.1\r\nHost: ',
    bodies: `POST /api/v1/products HTTP/1.1\r\n${head}Content-Type: application/json\r\nContent-Length: 500\r\n\r\n`,
    readers: `GET /api/v1/users/me/posts?limit=100 HTTP/1.1\r\n${head}\r\n`,
  }
  const before = socketsOf(server.child.pid)
  const slow = { heads: [] as Slow[], bodies: [] as Slow[], readers: [] as Slow[] }
  // First those whose pages are work to make, a few at a time: what is measured is that they are slow.
  for (let i = 0; i < each; i++) {
    const reader = open(port, first.readers, true)
    slow.readers.push(reader)
    await once(reader.socket, 'connect')
    while (reader.socket.bytesRead === 0) await wait(5)
  }
  const running = healthy()
  for (let i = 0; i < each; i++) {
    slow.heads.push(open(port, first.heads, false))
    slow.bodies.push(open(port, first.bodies, false))
    // Opened as fast as they are accepted, because all together would be another test.
    await wait(5)
  }
  t.teardown(() => Object.values(slow).map((sockets) => sockets.map(({ socket }) => socket.destroy())))
  const began = performance.now()
  const sockets: SlowReport['sockets'] = { before, most: 0, gone: undefined }
  while (performance.now() - began < PATIENCE && sockets.gone === undefined) {
    const count = socketsOf(server.child.pid)
    sockets.most = Math.max(sockets.most, count)
    if (count <= before) sockets.gone = (performance.now() - began) / 1000
    await wait(500)
  }
  const attacked = await running
  return { quiet, attacked, closed: { heads: summary(slow.heads), bodies: summary(slow.bodies) }, sockets }
}
