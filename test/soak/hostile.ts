/** Sends hostile requests, one at a time and 20 concurrently, and measures how long `/livez` takes during them. */
import { setTimeout as wait } from 'node:timers/promises'
import { type Attack, createAttacks, type Delays, sendAttack, watchLivez } from '../helpers/attacks.ts'
import type { Owner } from '../helpers/database.ts'
import { failIf, formatCells, printViolations } from './report.ts'
import { createDatabaseSettings, startSoakServer } from './server.ts'

/** Larger requests are not sent. */
const MAX_REQUEST_BYTES = 1_050_000
const CONCURRENCY = 20
const PHASE_SECONDS = 20
/** Milliseconds that `/livez` may take during one hostile request, and during 20. */
const MAX_DELAY_SINGLE_MS = 100
const MAX_DELAY_TOGETHER_MS = 250

/** Measures one server under requests of at most 1 MiB that are made to be expensive. */
export async function sendHostileRequests(t: Owner): Promise<void> {
  console.log('expensive requests of at most 1 MiB for a minute, PostgreSQL; ms')
  const { port } = await startSoakServer(t, await createDatabaseSettings(t))
  const attacks = createAttacks().filter(({ bytes }) => bytes.length <= MAX_REQUEST_BYTES)
  const unexpected = new Set<string>()
  const sendOne = async (attack: Attack) => {
    const status = await sendAttack(port, attack)
    if (status !== attack.status) unexpected.add(`unexpected response to ${attack.name}: ${status}`)
  }
  /** Sends the attacks one after the other, from the one at an index on. */
  const sendFromIndex = async (index: number) => {
    const deadline = performance.now() + PHASE_SECONDS * 1000
    for (let i = index; performance.now() < deadline; i++) {
      const attack = attacks[i % attacks.length]
      if (attack) await sendOne(attack)
    }
  }
  const printRow = (title: string, delays: Delays) => console.log(`  | ${title} | ${formatCells(delays)} |`)

  // Warm-up: code that is not yet compiled is slow.
  for (const attack of attacks) await sendOne(attack)
  console.log('  | `/livez` | requests | p50 | p99 | max |\n  |---|---|---|---|---|')
  printRow('quiet', await watchLivez(port, () => wait(PHASE_SECONDS * 1000)))
  const single = await watchLivez(port, () => sendFromIndex(0))
  printRow('one hostile request at a time', single)
  // Each client begins with another attack, so that different attacks run concurrently.
  const sendConcurrently = () =>
    Promise.all(Array.from({ length: CONCURRENCY }, (_, i) => sendFromIndex(i * 7)))
  const together = await watchLivez(port, sendConcurrently)
  printRow(`${CONCURRENCY} concurrently`, together)

  // The attacks with the longest delays when sent alone: the minimum over three runs of the maximum.
  const delays: { name: string; delay: number }[] = []
  for (const attack of attacks) {
    const maxima: number[] = []
    for (let i = 0; i < 3; i++) maxima.push((await watchLivez(port, () => sendAttack(port, attack))).max)
    delays.push({ name: attack.name, delay: Math.min(...maxima) })
  }
  for (const { name, delay } of delays.sort((a, b) => b.delay - a.delay).slice(0, 10))
    console.log(`  ${delay.toFixed(1)} ms: ${name}`)
  printViolations([...unexpected])
  failIf(single.max > MAX_DELAY_SINGLE_MS || together.max > MAX_DELAY_TOGETHER_MS)
}
