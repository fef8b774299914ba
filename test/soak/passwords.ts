/** Sends a thousand wrong passwords concurrently, and measures the times of `/livez` and of another client. */
import { setTimeout as wait } from 'node:timers/promises'
import { createClient } from '../helpers/app.ts'
import { watchLivez } from '../helpers/attacks.ts'
import { type Owner, testFolder } from '../helpers/database.ts'
import { failIf, formatTimes, summarize } from './report.ts'
import { createDatabaseSettings, startSoakServer } from './server.ts'

const ATTEMPTS = 1_000
const ATTACKERS = 32
/** The sequential attempts of each kind (unknown address, wrong password) that are timed. */
const PAIRS = 300
const PHASE_MS = 5_000
const KNOWN_USERS = 20

async function measureTime(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

function formatWithMean(times: readonly number[]): string {
  const summary = summarize(times)
  return `${summary.mean.toFixed(1)} / ${formatTimes(summary)}`
}

const getKnownEmail = (i: number) => `known.${i % KNOWN_USERS}@example.com`
const getUnknownEmail = (i: number) => `unknown.${i}@example.com`

/** Measures a server in three phases: idle, with another client, and with that client during wrong passwords. */
async function measureGuesses(t: Owner, settings: NodeJS.ProcessEnv): Promise<void> {
  const { admin, url, port } = await startSoakServer(t, settings)
  const anonymous = createClient(url, {})
  const statuses: Record<number, number> = {}
  const sendWrongPassword = async (email: string) => {
    const grant = { grant_type: 'password', email, password: 'wrong horse battery' }
    const { status } = await anonymous.post('/tokens', grant)
    statuses[status] = (statuses[status] ?? 0) + 1
  }
  const attack = async () => {
    let next = 0
    const runAttacker = async () => {
      for (let i = next++; i < ATTEMPTS; i = next++) {
        await sendWrongPassword(i % 2 === 0 ? getKnownEmail(i) : getUnknownEmail(i))
      }
    }
    await Promise.all(Array.from({ length: ATTACKERS }, runAttacker))
  }
  const readList = async () => {
    const { status } = await admin.get('/users?limit=20')
    if (status !== 200) throw new Error(`GET /users returned ${status}`)
  }
  /** Reads a list repeatedly until `work` is done. Returns the response times. */
  const readDuring = async (work: Promise<unknown>) => {
    const times: number[] = []
    let isOver = false
    const done = work.finally(() => {
      isOver = true
    })
    while (!isOver) {
      times.push(await measureTime(readList))
      await wait(5)
    }
    await done
    return times
  }

  for (let i = 0; i < KNOWN_USERS; i++) {
    await admin.post('/users', { name: `${i}`, email: getKnownEmail(i), password: 'correct horse battery' })
  }
  // Warm-up: code that is not yet compiled is slow.
  for (let i = 0; i < 50; i++) await Promise.all([sendWrongPassword(getUnknownEmail(i)), readList()])
  delete statuses[401]

  console.log(`  idle: /livez ${formatTimes(await watchLivez(port, () => wait(PHASE_MS)))}`)
  const runPhase = async (title: string, work: () => Promise<unknown>) => {
    let times: number[] = []
    const livez = await watchLivez(port, async () => {
      times = await readDuring(work())
    })
    console.log(`  ${title}: /livez ${formatTimes(livez)}; GET ${formatWithMean(times)}`)
  }
  await runPhase('with another client', () => wait(PHASE_MS))
  const seconds = (await measureTime(() => runPhase('and wrong passwords', attack))) / 1000
  const rate = (ATTEMPTS / seconds).toFixed(0)
  console.log(`  ${rate} wrong passwords per second; responses ${JSON.stringify(statuses)}`)

  const unknown: number[] = []
  const wrong: number[] = []
  for (let i = 0; i < PAIRS; i++) {
    unknown.push(await measureTime(() => sendWrongPassword(getUnknownEmail(i))))
    wrong.push(await measureTime(() => sendWrongPassword(getKnownEmail(i))))
  }
  console.log(
    `  sequential: unknown address ${formatWithMean(unknown)}; wrong password ${formatWithMean(wrong)}`,
  )
  failIf(Object.keys(statuses).join() !== '401')
}

export async function guessPasswords(t: Owner): Promise<void> {
  console.log(
    `${ATTEMPTS} wrong passwords, ${ATTACKERS} concurrently; ms: /livez p50 / p99 / max, others mean / p50 / p99 / max`,
  )
  console.log('PostgreSQL')
  await measureGuesses(t, await createDatabaseSettings(t))
  console.log('embedded database')
  await measureGuesses(t, { DATA_DIR: testFolder(t) })
}
