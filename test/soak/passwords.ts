/** Sends a thousand wrong passwords concurrently, and measures the event loop delay and the times of another client. */
import { setTimeout as wait } from 'node:timers/promises'
import { type Client, createClient } from '../helpers/app.ts'
import { type Owner, testFolder } from '../helpers/database.ts'
import type { RunningProcess } from '../helpers/process.ts'
import { failIf, formatTimes, summarize, type Times } from './report.ts'
import { createDatabaseSettings, startSoakServer } from './server.ts'

const ATTEMPTS = 1_000
const ATTACKERS = 32
/** The sequential attempts of each kind (unknown address, wrong password) that are timed. */
const PAIRS = 300
const PHASE_MS = 5_000
const KNOWN_USERS = 20
const NODE_OPTIONS = '--import=tsx --import=./test/soak/event-loop-delay.ts'

const measureTime = async (work: () => Promise<unknown>): Promise<number> => {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

const formatWithMean = (times: Omit<Times, 'count'>) => `${times.mean.toFixed(1)} / ${formatTimes(times)}`

/** Reads the event loop delay of the server since the last call (event-loop-delay.ts prints it). */
async function readLoopDelay({ child, output }: RunningProcess): Promise<Omit<Times, 'count'>> {
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
async function measureGuesses(t: Owner, settings: NodeJS.ProcessEnv): Promise<void> {
  const server = await startSoakServer(t, { ...settings, NODE_OPTIONS })
  const { admin } = server
  const anonymous = createClient(server.url, {})
  const statuses: Record<number, number> = {}
  const sendWrongPassword = async (email: string) => {
    const grant = { grant_type: 'password', email, password: 'wrong horse battery' }
    const { status } = await anonymous.post('/tokens', grant)
    statuses[status] = (statuses[status] ?? 0) + 1
  }
  const attack = async () => {
    let next = 0
    const runAttacker = async () => {
      while (next < ATTEMPTS) {
        const i = next++
        await sendWrongPassword(i % 2 === 0 ? getKnownEmail(i) : getUnknownEmail(i))
      }
    }
    await Promise.all(Array.from({ length: ATTACKERS }, runAttacker))
  }

  for (let i = 0; i < KNOWN_USERS; i++) {
    const user = { name: `Known ${i}`, email: getKnownEmail(i), password: 'correct horse battery' }
    await admin.post('/users', user)
  }
  // Warm-up: code that is not yet compiled is slow.
  for (let i = 0; i < 50; i++) {
    await Promise.all([sendWrongPassword(getUnknownEmail(i)), admin.get('/users?limit=20')])
  }
  delete statuses[401]

  await readLoopDelay(server)
  const printPhase = async (title: string, client?: Times) => {
    const loop = formatWithMean(await readLoopDelay(server))
    console.log(`  ${title}: event loop delay ${loop}${client ? `; GET ${formatWithMean(client)}` : ''}`)
  }
  await wait(PHASE_MS)
  await printPhase('idle')
  await printPhase('with another client', await readUntilDone(admin, wait(PHASE_MS)))
  const attackTime = measureTime(attack)
  await printPhase('with another client and wrong passwords', await readUntilDone(admin, attackTime))
  const rate = ATTEMPTS / ((await attackTime) / 1000)
  console.log(`  ${rate.toFixed(0)} wrong passwords per second; responses ${JSON.stringify(statuses)}`)

  const unknown: number[] = []
  const wrong: number[] = []
  for (let i = 0; i < PAIRS; i++) {
    unknown.push(await measureTime(() => sendWrongPassword(getUnknownEmail(i))))
    wrong.push(await measureTime(() => sendWrongPassword(getKnownEmail(i))))
  }
  const [unknownTimes, wrongTimes] = [unknown, wrong].map((times) => formatWithMean(summarize(times)))
  console.log(`  sequential: unknown address ${unknownTimes}; wrong password ${wrongTimes}`)
  failIf(Object.keys(statuses).join() !== '401')
}

export async function guessPasswords(t: Owner): Promise<void> {
  console.log(
    `${ATTEMPTS} wrong passwords, ${ATTACKERS} concurrently, PostgreSQL; ms: mean / p50 / p99 / max`,
  )
  await measureGuesses(t, await createDatabaseSettings(t))
}

export async function guessPasswordsEmbedded(t: Owner): Promise<void> {
  console.log('the same on the embedded database')
  await measureGuesses(t, { DATA_DIR: testFolder(t) })
}
