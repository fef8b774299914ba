/** Sends hostile requests, one at a time and 20 concurrently, and measures how long `/livez` takes during them. */
import { setTimeout as wait } from 'node:timers/promises'
import { createAttacks, sendAttack, watchLivez } from '../../packages/testing/helpers/attacks.ts'
import type { Owner } from '../../packages/testing/helpers/database.ts'
import { failIf, formatCells, printViolations, summarize } from './report.ts'
import { createDatabaseSettings, startSoakServer } from './server.ts'

/** Larger requests are not sent. */
const MAX_REQUEST_BYTES = 1_050_000
const CONCURRENCY = 20
const PHASE_MS = 10_000
/** Milliseconds that `/livez` may take during one hostile request, and during 20. */
const MAX_DELAY_SINGLE_MS = 100
const MAX_DELAY_TOGETHER_MS = 250

/** Measures one server under requests of at most 1 MiB that are made to be expensive. */
export async function sendHostileRequests(t: Owner): Promise<void> {
  console.log('expensive requests of at most 1 MiB for half a minute, PostgreSQL; ms')
  const { port } = await startSoakServer(t, await createDatabaseSettings(t))
  const attacks = createAttacks().filter(({ bytes }) => bytes.length <= MAX_REQUEST_BYTES)
  const unexpected = new Set<string>()
  /** Sends the attacks one after the other, from the one at an index on. */
  const sendFromIndex = async (index: number) => {
    const deadline = performance.now() + PHASE_MS
    for (let i = index; performance.now() < deadline; i++) {
      const attack = attacks[i % attacks.length]
      const status = attack && (await sendAttack(port, attack))
      if (status !== attack?.status) unexpected.add(`unexpected response to ${attack?.name}: ${status}`)
    }
  }
  const measure = async (title: string, work: () => Promise<unknown>) => {
    const delays = await watchLivez(port, work)
    console.log(`  | ${title} | ${formatCells(delays)} |`)
    return delays.max
  }

  // Warm-up: code that is not yet compiled is slow.
  for (const attack of attacks) await sendAttack(port, attack)
  console.log('  | `/livez` | requests | p50 | p99 | max |\n  |---|---|---|---|---|')
  await measure('quiet', () => wait(PHASE_MS))
  const single = await measure('one hostile request at a time', () => sendFromIndex(0))
  // Each client begins with another attack, so that different attacks run concurrently.
  const together = await measure(`${CONCURRENCY} concurrently`, () =>
    Promise.all(Array.from({ length: CONCURRENCY }, (_, i) => sendFromIndex(i * 7))),
  )

  // The attacks with the longest delays when sent alone: the minimum over three runs of the maximum.
  const delays: { name: string; delay: number }[] = []
  for (const attack of attacks) {
    const maxima: number[] = []
    for (let i = 0; i < 3; i++) maxima.push((await watchLivez(port, () => sendAttack(port, attack))).max)
    delays.push({ name: attack.name, delay: summarize(maxima).min })
  }
  for (const { name, delay } of delays.sort((a, b) => b.delay - a.delay).slice(0, 10))
    console.log(`  ${delay.toFixed(1)} ms: ${name}`)
  printViolations([...unexpected])
  failIf(single > MAX_DELAY_SINGLE_MS || together > MAX_DELAY_TOGETHER_MS)
}
