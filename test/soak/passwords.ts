/** Sends a thousand wrong passwords concurrently, and measures the event loop delay and the times of another client. */
import { setTimeout as wait } from 'node:timers/promises'
import { type Client, createClient } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { type RunningProcess, startServer } from '../helpers/process.ts'

export interface PasswordsOptions {
  settings: NodeJS.ProcessEnv
  /** The number of wrong passwords. */
  attempts: number
  /** The number of concurrent attackers. */
  clients: number
  /** The number of sequential attempts of each kind (unknown address, wrong password) that are timed. */
  pairs: number
  /** The module to run: `server.ts`, or `server.js` for the build. */
  file: string
  /** Milliseconds of the phases without attack. */
  rest: number
}

/** Milliseconds. */
export interface Times {
  mean: number
  p50: number
  p99: number
  max: number
}

export interface PasswordPhase {
  /** The event loop delay of the server. */
  loop: Times
  /** The response times of the other client, if there was one. */
  client?: Times
}

export interface PasswordsReport {
  idle: PasswordPhase
  alone: PasswordPhase
  attacked: PasswordPhase
  /** Wrong passwords per second. */
  rate: number
  /** The number of responses to wrong passwords, by status. */
  statuses: Record<number, number>
  /** Sequential attempts with an unknown address, and with a wrong password. */
  unknown: Times
  wrong: Times
}

const KEY = 'soak-admin-key-soak-admin-key-soak-admin-key'
const KNOWN_USERS = 20
const PASSWORD = 'correct horse battery'
const WRONG_PASSWORD = 'wrong horse battery'
const HIGH_LIMIT = '1000000000'
const SERVER_SETTINGS = {
  PORT: '0',
  ADMIN_API_KEY: KEY,
  LOG_LEVEL: 'silent',
  RATE_LIMIT: HIGH_LIMIT,
  RATE_LIMIT_BURST: HIGH_LIMIT,
  RATE_LIMIT_ANONYMOUS: HIGH_LIMIT,
  RATE_LIMIT_TOKENS: HIGH_LIMIT,
  RATE_LIMIT_AUTH_FAILURES: HIGH_LIMIT,
  LOGIN_FAILURES: HIGH_LIMIT,
  NODE_OPTIONS: '--import=tsx --import=./test/soak/event-loop-delay.ts',
}

function summarize(times: readonly number[]): Times {
  const sorted = [...times].sort((a, b) => a - b)
  const getQuantile = (share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN
  const mean = sorted.reduce((sum, time) => sum + time, 0) / sorted.length
  return { mean, p50: getQuantile(0.5), p99: getQuantile(0.99), max: getQuantile(1) }
}

const measureTime = async (work: () => Promise<unknown>): Promise<number> => {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

/** Reads the event loop delay of the server since the last call (event-loop-delay.ts prints it). */
async function readLoopDelay({ child, output }: RunningProcess): Promise<Times> {
  const from = output.out.length
  child.kill('SIGUSR2')
  for (;;) {
    const line = /^\{"loop":.*\}$/m.exec(output.out.slice(from))
    if (line) return JSON.parse(line[0]).loop
    await wait(10)
  }
}

/** Reads a list repeatedly until `work` is done. Returns the response times. */
async function readUntilDone(admin: Client, work: Promise<unknown>): Promise<Times> {
  const state = { isOver: false }
  const done = work.finally(() => {
    state.isOver = true
  })
  const times: number[] = []
  const readList = async () => {
    const { status } = await admin.get('/users?limit=20')
    if (status !== 200) throw new Error(`GET /users returned ${status}`)
  }
  while (!state.isOver) {
    times.push(await measureTime(readList))
    await wait(5)
  }
  await done
  return summarize(times)
}

const getKnownEmail = (i: number) => `known.${i % KNOWN_USERS}@example.com`
const getUnknownEmail = (i: number) => `unknown.${i}@example.com`

/** Measures a server in three phases: idle, with another client, and with that client during wrong passwords. */
export async function wrongPasswords(t: Owner, options: PasswordsOptions): Promise<PasswordsReport> {
  const { settings, attempts, clients, pairs, file, rest } = options
  const server = await startServer(t, { ...settings, ...SERVER_SETTINGS }, file)
  const admin = createClient(server.url, { 'x-api-key': KEY })
  const anonymous = createClient(server.url, {})
  const statuses: Record<number, number> = {}
  const sendWrongPassword = async (email: string) => {
    const body = { grant_type: 'password', email, password: WRONG_PASSWORD }
    const { status } = await anonymous.post('/tokens', body)
    statuses[status] = (statuses[status] ?? 0) + 1
  }
  const attack = async () => {
    let next = 0
    const runAttacker = async () => {
      while (next < attempts) {
        const i = next++
        await sendWrongPassword(i % 2 === 0 ? getKnownEmail(i) : getUnknownEmail(i))
      }
    }
    await Promise.all(Array.from({ length: clients }, runAttacker))
  }

  for (let i = 0; i < KNOWN_USERS; i++) {
    await admin.post('/users', { name: `Known ${i}`, email: getKnownEmail(i), password: PASSWORD })
  }
  // Warm-up: code that is not yet compiled is slow.
  for (let i = 0; i < 50; i++) {
    await Promise.all([sendWrongPassword(getUnknownEmail(i)), admin.get('/users?limit=20')])
  }
  delete statuses[401]

  await readLoopDelay(server)
  await wait(rest)
  const idle = { loop: await readLoopDelay(server) }
  const alone = { client: await readUntilDone(admin, wait(rest)), loop: await readLoopDelay(server) }
  const attackTime = measureTime(attack)
  const attacked = { client: await readUntilDone(admin, attackTime), loop: await readLoopDelay(server) }
  const rate = attempts / ((await attackTime) / 1000)

  const unknown: number[] = []
  const wrong: number[] = []
  for (let i = 0; i < pairs; i++) {
    unknown.push(await measureTime(() => sendWrongPassword(getUnknownEmail(i))))
    wrong.push(await measureTime(() => sendWrongPassword(getKnownEmail(i))))
  }
  return { idle, alone, attacked, rate, statuses, unknown: summarize(unknown), wrong: summarize(wrong) }
}
