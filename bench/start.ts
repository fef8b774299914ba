/** `npm run bench:start`: measures the time from a start to the first 200 of `/readyz`, and the memory after it. */
import { rmSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { type BenchContext, runCommand } from './command.ts'
import { readResidentMemory } from './memory.ts'
import { type Options, readOptions } from './options.ts'
import { startProcess, stopProcess } from './processes.ts'
import { computeSpread } from './statistics.ts'
import { FIRST_PORT, waitForResponse } from './target-process.ts'
import { serviceWithKey } from './targets/resource-api.ts'

/** From readiness to the reading of the memory: time for garbage collection of what only the start needs. */
const SETTLING_MS = 1_000
const POLLING_INTERVAL_MS = 5

interface StartMeasurement {
  /** Milliseconds to the first 200. */
  ready: number
  /** Megabytes. */
  memory: number
}

/** Starts and stops one server, which may use all cores. */
async function measureStart(
  { node, flags }: Options,
  settings: Record<string, string>,
): Promise<StartMeasurement> {
  const startedAt = performance.now()
  const child = startProcess({
    core: `0-${cpus().length - 1}`,
    args: [node, ...flags, serviceWithKey.script],
    cwd: serviceWithKey.folder,
    env: { NODE_ENV: 'production', PORT: String(FIRST_PORT), ...serviceWithKey.env, ...settings },
  })
  const base = `http://127.0.0.1:${FIRST_PORT}`
  await waitForResponse(child, {
    name: serviceWithKey.name,
    base,
    path: '/readyz',
    status: 200,
    intervalMs: POLLING_INTERVAL_MS,
  })
  const ready = performance.now() - startedAt
  await wait(SETTLING_MS)
  const memory = readResidentMemory(child.pid ?? 0)
  await stopProcess(child)
  return { ready, memory }
}

async function measureStarts(
  { options }: BenchContext,
  title: string,
  settings: Record<string, string>,
): Promise<void> {
  // The first start applies migrations or creates the folder; it is not counted.
  await measureStart(options, settings)
  const measurements: StartMeasurement[] = []
  for (let i = 0; i < options.starts; i++) measurements.push(await measureStart(options, settings))
  const ready = computeSpread(measurements.map((each) => each.ready))
  const memory = computeSpread(measurements.map((each) => each.memory))
  console.log(
    `${title}: ready after ${ready.median.toFixed(0)} ms (${ready.min.toFixed(0)}-${ready.max.toFixed(0)}),` +
      ` then ${memory.median.toFixed(0)} MB resident (${memory.min.toFixed(0)}-${memory.max.toFixed(0)}),` +
      ` ${measurements.length} starts`,
  )
}

async function measureAllStarts(context: BenchContext): Promise<void> {
  const folder = join(context.temporaryFolder, 'embedded')
  await measureStarts(context, 'PostgreSQL, migrated', { DATABASE_URL: context.database.url })
  await measureStarts(context, 'embedded, existing', { DATA_DIR: folder })
  rmSync(folder, { recursive: true })
}

await runCommand(
  () => readOptions('bench:start', ['starts', 'users', 'node', 'flags'], process.argv.slice(2)),
  measureAllStarts,
)
