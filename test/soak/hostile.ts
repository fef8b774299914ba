/** Measures the delay of `/livez` while a server answers hostile requests, one at a time and 20 together. */
import { setTimeout as wait } from 'node:timers/promises'
import { ADMIN_KEY } from '../helpers/app.ts'
import { type Attack, createAttacks, type Delays, sendAttack, watchLivez } from '../helpers/attacks.ts'
import type { Owner } from '../helpers/database.ts'
import { startServer } from '../helpers/process.ts'
import { WITHOUT_LIMITS } from '../helpers/without-limits.ts'

/** Requests of at most this many bytes are sent. */
const MAX_BYTES = 1_050_000
const AT_ONCE = 20
const APP_SECRET = 'soak-secret-soak-secret-soak-secret-soak'

export interface HostileReport {
  /** Delays of `/livez` without attacks, with one at a time, and with 20 together. */
  quiet: Delays
  single: Delays
  together: Delays
  /** Those with the longest delays, when each is sent alone: milliseconds, the least of the longest of three times. */
  worst: { name: string; delay: number }[]
  /** Attacks whose reply was another than expected. */
  unexpected: string[]
}

export interface HostileOptions {
  settings: NodeJS.ProcessEnv
  /** Of all phases together. */
  seconds: number
}

/** Sends the attacks of a list one after the other, as often as it takes for so many seconds. */
async function sendFor(
  seconds: number,
  attacks: readonly Attack[],
  each: (attack: Attack) => Promise<unknown>,
) {
  const until = performance.now() + seconds * 1000
  for (let i = 0; performance.now() < until; i++) {
    const attack = attacks[i % attacks.length]
    if (attack) await each(attack)
  }
}

/** Measures one server under requests of at most 1 MiB that are made to be expensive. */
export async function hostileRequests(
  t: Owner,
  { settings, seconds }: HostileOptions,
): Promise<HostileReport> {
  const env = { PORT: '0', APP_SECRET, ...WITHOUT_LIMITS, ADMIN_API_KEY: ADMIN_KEY, ...settings }
  const { url } = await startServer(t, env)
  const port = Number(new URL(url).port)
  const attacks = createAttacks().filter(({ bytes }) => bytes.length <= MAX_BYTES)
  const phase = seconds / 3
  const unexpected = new Set<string>()
  const sendOne = async (attack: Attack) => {
    const status = await sendAttack(port, attack)
    if (status !== attack.status) unexpected.add(`${attack.name}: ${status}`)
  }

  // Code that runs for the first time is slower than afterwards.
  for (const attack of attacks) await sendOne(attack)
  const quiet = await watchLivez(port, () => wait(phase * 1000))
  const single = await watchLivez(port, () => sendFor(phase, attacks, sendOne))
  const together = await watchLivez(port, () =>
    Promise.all(
      Array.from({ length: AT_ONCE }, (_, i) =>
        // Each begins at another attack, so that all kinds meet.
        sendFor(
          phase,
          attacks.map((_, j) => attacks[(j + i * 7) % attacks.length]).filter((each) => each !== undefined),
          sendOne,
        ),
      ),
    ),
  )

  const delays: HostileReport['worst'] = []
  for (const attack of attacks) {
    const longest: number[] = []
    for (let i = 0; i < 3; i++) longest.push((await watchLivez(port, () => sendAttack(port, attack))).max)
    delays.push({ name: attack.name, delay: Math.min(...longest) })
  }
  const worst = delays.sort((a, b) => b.delay - a.delay).slice(0, 10)
  return { quiet, single, together, worst, unexpected: [...unexpected] }
}
