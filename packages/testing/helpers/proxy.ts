/** A TCP proxy before PostgreSQL or Redis that delays, discards, resets or redirects connections. */
import { createConnection, createServer, type Server, type Socket } from 'node:net'
import type { Owner } from './database.ts'
import { listen } from './network.ts'

/**
 * - `pass`: forwards everything
 * - `refuse`: does not listen, and closes open connections
 * - `hangUp`: accepts, and closes the connection immediately
 * - `reset`: accepts, and resets (RST) the connection immediately
 * - `silent`: accepts and discards the data of both sides, as an unreachable host does
 * - `deaf`: half open; discards what clients send, including the end of the connection
 * - `mute`: half open; discards what the server sends
 *
 * The last three apply to open connections. Every other change closes them.
 */
export type Mode = 'pass' | 'refuse' | 'hangUp' | 'reset' | 'silent' | 'deaf' | 'mute'

const QUIET = new Set<Mode>(['silent', 'deaf', 'mute'])

export interface Slowness {
  /** Milliseconds that each chunk is delayed, in each direction. */
  latency: number
  /** Maximum random extra delay in milliseconds. */
  jitter?: number
}

/** Returns a function that writes data after the configured delay, in order. */
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

/** Starts a proxy on a free port that forwards to `target`. */
export async function startProxy(t: Owner, target: string) {
  const url = new URL(target)
  const usual = url.protocol.startsWith('redis') ? 6379 : 5432
  const placeOf = ({ hostname, port }: URL) => ({ host: hostname, port: Number(port || usual) })
  let to = placeOf(url)
  let mode: Mode = 'pass'
  let slowness: Slowness = { latency: 0 }
  /** Bytes of the replies that are still forwarded before a reset. */
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
    // A socket that is not read does not report the end of the other side.
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
    /** Returns the number of connections accepted so far. */
    connections: () => count,
    /** Returns the number of open connections. */
    open: () => open,
    async set(next: Mode) {
      mode = next
      left = Number.POSITIVE_INFINITY
      if (QUIET.has(next)) return
      if (next === 'reset') cut('resetAndDestroy')
      stop()
      if (next !== 'refuse') await start(Number(url.port))
    },
    /** Sets the delay, also for open connections. */
    slow(next: Slowness) {
      slowness = next
    },
    /** Forwards `bytes` more of the replies, then resets each connection that gets one. */
    resetAfter(bytes: number) {
      left = bytes
    },
    /** Discards all data of the open connections; new connections are forwarded. */
    strand() {
      for (const socket of sockets) stranded.add(socket)
    },
    /** Closes the open connections and forwards new ones to another server. */
    lead(elsewhere: string) {
      to = placeOf(new URL(elsewhere))
      cut('destroy')
    },
  }
}
