/** A way to a server (PostgreSQL, Redis) that can be cut, slowed, led elsewhere or made to lie, for tests of what happens then. */
import { createConnection, createServer, type Server, type Socket } from 'node:net'
import type { Owner } from './database.ts'
import { listen } from './listen.ts'

/**
 * - `pass`: as if it were not there
 * - `refuse`: nobody listens, and who was connected is cut off
 * - `hangUp`: accepts, and ends the connection at once
 * - `reset`: accepts, and resets (RST) the connection at once
 * - `silent`: a black hole; accepts and swallows what comes from either side, as a dead host does
 * - `deaf`: half open; what clients send is swallowed, their ends too
 * - `mute`: half open; what the server answers is swallowed
 *
 * The last three befall the connections that there are. Every other change cuts them off.
 */
export type Mode = 'pass' | 'refuse' | 'hangUp' | 'reset' | 'silent' | 'deaf' | 'mute'

const QUIET = new Set<Mode>(['silent', 'deaf', 'mute'])

export interface Slowness {
  /** Milliseconds that each piece of data takes, each way. */
  latency: number
  /** Milliseconds that it may take longer, at random. */
  jitter?: number
}

/** Writes what comes after its time, in the order in which it came. */
function delayed(to: Socket, slowness: () => Slowness) {
  const line: Buffer[] = []
  let last = 0
  return (data: Buffer) => {
    const { latency, jitter = 0 } = slowness()
    const now = performance.now()
    last = Math.max(last, now + latency + Math.random() * jitter)
    if (last <= now && line.length === 0) return void to.write(data)
    line.push(data)
    setTimeout(() => to.write(line.shift() ?? ''), last - now)
  }
}

/** Listens on a port of its own before `target`. */
export async function startProxy(t: Owner, target: string) {
  const url = new URL(target)
  const usual = url.protocol.startsWith('redis') ? 6379 : 5432
  const placeOf = ({ hostname, port }: URL) => ({ host: hostname, port: Number(port || usual) })
  let to = placeOf(url)
  let mode: Mode = 'pass'
  let slowness: Slowness = { latency: 0 }
  /** Bytes of the next replies until a reset. */
  let left = Number.POSITIVE_INFINITY
  let count = 0
  let open = 0
  let server: Server | undefined
  const sockets = new Set<Socket>()
  const stranded = new WeakSet<Socket>()

  const accept = (near: Socket) => {
    count += 1
    open += 1
    near.on('close', () => {
      open -= 1
    })
    near.on('error', () => undefined)
    // Who does not read is not told of the other's end either.
    if (mode === 'hangUp') return void near.resume().end()
    if (mode === 'reset') return void near.resetAndDestroy()
    const far = createConnection(to)
    const is = (...modes: Mode[]) => modes.includes(stranded.has(near) ? 'silent' : mode)
    for (const socket of [near, far]) sockets.add(socket.setNoDelay(true))
    const forward = delayed(far, () => slowness)
    const answer = delayed(near, () => slowness)
    far.on('error', () => undefined)
    near.on('data', (data) => is('silent', 'deaf') || forward(data))
    far.on('data', (data) => {
      if (is('silent', 'mute')) return
      answer(data.subarray(0, left))
      left -= data.length
      if (left < 0) near.resetAndDestroy()
    })
    near.on('close', () => is('silent', 'deaf') || far.destroy())
    far.on('close', () => is('silent', 'mute') || near.destroy())
  }
  const start = (port?: number) => {
    server = createServer(accept)
    return listen(server, port)
  }
  const cut = (how: 'destroy' | 'resetAndDestroy') => {
    for (const socket of sockets) socket[how]()
    sockets.clear()
  }
  const stop = () => {
    cut('destroy')
    server?.close()
    server = undefined
  }
  url.port = String(await start())
  url.hostname = '127.0.0.1'
  t.teardown(stop)
  return {
    url: url.href,
    target,
    /** So many were accepted so far. */
    connections: () => count,
    /** So many are there. */
    open: () => open,
    async set(next: Mode) {
      mode = next
      left = Number.POSITIVE_INFINITY
      if (QUIET.has(next)) return
      if (next === 'reset') cut('resetAndDestroy')
      stop()
      if (next !== 'refuse') await start(Number(url.port))
    },
    /** How slow it is from now on, for connections that there are as well. */
    slow(next: Slowness) {
      slowness = next
    },
    /** Passes so many bytes more of what is answered, then resets that connection, and every other that is answered. */
    resetAfter(bytes: number) {
      left = bytes
    },
    /** Makes a black hole of the connections that there are; who comes from now on passes. */
    strand() {
      for (const socket of sockets) stranded.add(socket)
    },
    /** Cuts off who is connected; who comes from now on is led to another server. */
    lead(elsewhere: string) {
      to = placeOf(new URL(elsewhere))
      cut('destroy')
    },
  }
}
