/**
 * `npm run soak -- [--kills N] [part ...]`: runs tests that take minutes, prints their results and fails if a guarantee is
 * broken.
 */
import { parseArgs } from 'node:util'
import type { Owner } from '../../packages/testing/helpers/database.ts'
import { soakCrashes, soakEvents } from './events.ts'
import { sendHostileRequests } from './hostile.ts'
import { attackAsMember } from './hostile-member.ts'
import { soakKills } from './kill.ts'
import { importOrders } from './order-imports.ts'
import { soakRestarts } from './restarts.ts'
import { createDatabaseSettings, SkippedError, seedDatabase } from './server.ts'
import { soakSlowEndpoints } from './slow-endpoints.ts'
import { readExportsSlowly } from './slow-exports.ts'

/** @param kills the number of kills of a part that kills */
type Run = (t: Owner, kills: number) => Promise<void>

async function seed(t: Owner): Promise<void> {
  console.log('npm run bench:seed -- --users 10000, PostgreSQL')
  console.log(await seedDatabase(await createDatabaseSettings(t), 10_000))
}

const parts: Readonly<Record<string, readonly Run[]>> = {
  kill: [soakKills],
  crash: [soakCrashes],
  events: [soakEvents],
  seed: [seed],
  restarts: [soakRestarts],
  webhooks: [soakSlowEndpoints],
  hostile: [sendHostileRequests, attackAsMember, importOrders, readExportsSlowly],
}

/** Runs a part and then its teardown functions, last first, also after an error. */
async function runWithTeardown(run: Run, kills: number): Promise<void> {
  const teardowns: (() => unknown)[] = []
  try {
    await run({ teardown: (undo) => teardowns.push(undo) }, kills)
  } catch (error) {
    if (!(error instanceof SkippedError)) throw error
    console.log(`  skipped: ${error.message}`)
  } finally {
    for (const undo of teardowns.reverse()) await undo()
  }
}

const { values, positionals } = parseArgs({
  options: { kills: { type: 'string', default: '20' } },
  allowPositionals: true,
})
const kills = Number(values.kills)
const names = positionals.length > 0 ? positionals : Object.keys(parts)
if (!names.every((name) => Object.hasOwn(parts, name)) || !Number.isSafeInteger(kills)) {
  console.error(`npm run soak -- [--kills N] [part ...]; the parts are ${Object.keys(parts).join(', ')}`)
  process.exitCode = 2
} else {
  for (const run of names.flatMap((name) => parts[name] ?? [])) await runWithTeardown(run, kills)
}
