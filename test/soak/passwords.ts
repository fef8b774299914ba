/**
 * Sends 1,000 concurrent wrong passwords, and measures the event loop delay of the server and the latency of another
 * client.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { type Client, createClient } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { type RunningProcess, startServer } from '../helpers/process.ts'

export interface PasswordsOptions {
  settings: NodeJS.ProcessEnv
  /** The number of wrong passwords, and of concurrent ones. */
  attempts: number
  clients: number
  /** How many of each kind are timed one after the other. */
  pairs: number
  /** The module that is run: `server.ts`, or `server.js` for what was built. */
  file: string
  /** Milliseconds for which the server is measured at rest, and with the healthy client alone. */
  rest: number
}

/** Milliseconds. */
export interface Spread {
  mean: number
  p50: number
  p99: number
  max: number
}

/** How late the event loop was, and how long the healthy client waited, if there was one. */
export interface Phase {
  loop: Spread
  client?: Spread
}

export interface PasswordsReport {
  idle: Phase
  alone: Phase
  attacked: Phase
  /** Wrong passwords per second. */
  rate: number
  /** Answers to wrong passwords, by their status. */
  statuses: Record<number, number>
  /** Milliseconds of one at a time, in turn. */
  unknown: Spread
  wrong: Spread
}

const KEY = 'soak-admin-key-soak-admin-key-soak-admin-key'
const KNOWN = 20
const PASSWORD = 'correct horse battery'
const WITHOUT_LIMIT = '1000000000'
const OPEN = {
  PORT: '0',
  ADMIN_API_KEY: KEY,
  LOG_LEVEL: 'silent',
  RATE_LIMIT: WITHOUT_LIMIT,
  RATE_LIMIT_BURST: WITHOUT_LIMIT,
  RATE_LIMIT_ANONYMOUS: WITHOUT_LIMIT,
  RATE_LIMIT_TOKENS: WITHOUT_LIMIT,
  RATE_LIMIT_AUTH_FAILURES: WITHOUT_LIMIT,
  LOGIN_FAILURES: WITHOUT_LIMIT,
  NODE_OPTIONS: '--import=tsx --import=./test/soak/loop.ts',
}

function spread(times: readonly number[]): Spread {
  const sorted = [...times].sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN
  const mean = sorted.reduce((sum, time) => sum + time, 0) / sorted.length
  return { mean, p50: at(0.5), p99: at(0.99), max: at(1) }
}

const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const began = performance.now()
  await work()
  return performance.now() - began
}

/** What the server's loop was like since it was last asked. */
async function loopOf({ child, output }: RunningProcess): Promise<Spread> {
  const from = output.out.length
  child.kill('SIGUSR2')
  for (;;) {
    const line = /^\{"loop":.*\}$/m.exec(output.out.slice(from))
    if (line) return JSON.parse(line[0]).loop
    await wait(10)
  }
}

/** A client that reads a list again and again, until `work` is done. */
async function measureDuring(admin: Client, work: Promise<unknown>): Promise<Spread> {
  const state = { over: false }
  const done = work.finally(() => {
    state.over = true
  })
  const times: number[] = []
  while (!state.over) {
    times.push(
      await timed(async () => {
        const { status } = await admin.get('/users?limit=20')
        if (status !== 200) throw new Error(`GET /users is ${status}`)
      }),
    )
    await wait(5)
  }
  await done
  return spread(times)
}

const known = (i: number) => `known.${i % KNOWN}@example.com`
const unknown = (i: number) => `unknown.${i}@example.com`

/** Measures one server: at rest, with a healthy client, and with that client amid wrong passwords. */
export async function wrongPasswords(t: Owner, options: PasswordsOptions): Promise<PasswordsReport> {
  const { settings, attempts, clients, pairs, file, rest } = options
  const server = await startServer(t, { ...settings, ...OPEN }, file)
  const admin = createClient(server.url, { 'x-api-key': KEY })
  const anybody = createClient(server.url, {})
  const statuses: Record<number, number> = {}
  const fail = async (email: string) => {
    const body = { grant_type: 'password', email, password: 'wrong horse battery' }
    const { status } = await anybody.post('/tokens', body)
    statuses[status] = (statuses[status] ?? 0) + 1
  }
  const attack = async () => {
    let next = 0
    const attacker = async () => {
      while (next < attempts) {
        const i = next++
        await fail(i % 2 === 0 ? known(i) : unknown(i))
      }
    }
    await Promise.all(Array.from({ length: clients }, attacker))
  }

  for (let i = 0; i < KNOWN; i++) {
    await admin.post('/users', { name: `Known ${i}`, email: known(i), password: PASSWORD })
  }
  // What runs for the first time is slow for reasons of its own.
  for (let i = 0; i < 50; i++) await Promise.all([fail(unknown(i)), admin.get('/users?limit=20')])
  delete statuses[401]

  await loopOf(server)
  await wait(rest)
  const idle = { loop: await loopOf(server) }
  const alone = { client: await measureDuring(admin, wait(rest)), loop: await loopOf(server) }
  const work = timed(attack)
  const attacked = { client: await measureDuring(admin, work), loop: await loopOf(server) }
  const rate = attempts / ((await work) / 1000)

  const times = { unknown: [] as number[], wrong: [] as number[] }
  for (let i = 0; i < pairs; i++) {
    times.unknown.push(await timed(() => fail(unknown(i))))
    times.wrong.push(await timed(() => fail(known(i))))
  }
  return { idle, alone, attacked, rate, statuses, unknown: spread(times.unknown), wrong: spread(times.wrong) }
}
