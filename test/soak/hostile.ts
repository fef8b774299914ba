/** Sends hostile requests, one at a time and 20 concurrently, and measures how long `/livez` takes during them. */
import { ADMIN_KEY } from '../helpers/app.ts'
import { type Attack, createAttacks, type Delays, sendAttack, watchLivez } from '../helpers/attacks.ts'
import type { Owner } from '../helpers/database.ts'
import { startServer } from '../helpers/process.ts'
import { WITHOUT_LIMITS } from '../helpers/without-limits.ts'

/** Larger requests are not sent. */
const MAX_REQUEST_BYTES = 1_050_000
const CONCURRENCY = 20
const APP_SECRET = 'soak-secret-soak-secret-soak-secret-soak'

export interface HostileReport {
  /** Delays of `/livez` without attacks, with one at a time, and with 20 concurrently. */
  quiet: Delays
  single: Delays
  together: Delays
  /** The attacks with the longest delays when sent alone, in milliseconds: the minimum over three runs of the maximum. */
  worst: { name: string; delay: number }[]
  /** Attacks whose response differs from the expected one. */
  unexpected: string[]
}

export interface HostileOptions {
  settings: NodeJS.ProcessEnv
  /** Seconds of all phases together. */
  seconds: number
}

/** Sends the attacks one after the other, repeatedly, for some seconds. */
async function sendFor(
  seconds: number,
  attacks: readonly Attack[],
  sendAttack: (attack: Attack) => Promise<unknown>,
) {
  const deadline = performance.now() + seconds * 1000
  for (let i = 0; performance.now() < deadline; i++) {
    const attack = attacks[i % attacks.length]
    if (attack) await sendAttack(attack)
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
  const attacks = createAttacks().filter(({ bytes }) => bytes.length <= MAX_REQUEST_BYTES)
  const phaseSeconds = seconds / 3
  const unexpected = new Set<string>()
  const sendOne = async (attack: Attack) => {
    const status = await sendAttack(port, attack)
    if (status !== attack.status) unexpected.add(`${attack.name}: ${status}`)
  }

  // Warm-up: code that is not yet compiled is slow.
  for (const attack of attacks) await sendOne(attack)
  const quiet = await watchLivez(
    port,
    () => new Promise((resolve) => setTimeout(resolve, phaseSeconds * 1000)),
  )
  const single = await watchLivez(port, () => sendFor(phaseSeconds, attacks, sendOne))
  const together = await watchLivez(port, () =>
    Promise.all(
      Array.from({ length: CONCURRENCY }, (_, i) =>
        // Each client begins with another attack, so that different attacks run concurrently.
        sendFor(
          phaseSeconds,
          attacks.map((_, j) => attacks[(j + i * 7) % attacks.length]).filter((each) => each !== undefined),
          sendOne,
        ),
      ),
    ),
  )

  const delays: HostileReport['worst'] = []
  for (const attack of attacks) {
    const maxima: number[] = []
    for (let i = 0; i < 3; i++) maxima.push((await watchLivez(port, () => sendAttack(port, attack))).max)
    delays.push({ name: attack.name, delay: Math.min(...maxima) })
  }
  const worst = delays.sort((a, b) => b.delay - a.delay).slice(0, 10)
  return { quiet, single, together, worst, unexpected: [...unexpected] }
}
