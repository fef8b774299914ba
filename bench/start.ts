/** `npm run bench:start`: how long a process takes to its first 200 of `/readyz`, and what it then has in memory. */
import { rmSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { command } from './command.ts'
import { memoryOf } from './memory.ts'
import { type Options, readOptions } from './options.ts'
import { start, stop } from './processes.ts'
import { answers, FIRST_PORT, type Run } from './started.ts'
import { spreadOf } from './statistics.ts'
import { oursWithKey as ours } from './targets/ours.ts'

/** Milliseconds until what only the start needed has been done with. */
const SETTLING = 1_000
/** Milliseconds between two looks. */
const PAUSE = 5

interface Figures {
  /** Milliseconds to the first 200. */
  ready: number
  /** Megabytes. */
  memory: number
}

/** As it is started by people: on whichever core is free. */
async function startOnce({ node, flags }: Options, where: Record<string, string>): Promise<Figures> {
  const began = performance.now()
  const child = start({
    core: `0-${cpus().length - 1}`,
    args: [node, ...flags, ours.script],
    cwd: ours.folder,
    env: { NODE_ENV: 'production', PORT: String(FIRST_PORT), ...ours.env, ...where },
  })
  const base = `http://127.0.0.1:${FIRST_PORT}`
  await answers(child, { name: ours.name, base, path: '/readyz', status: 200, pause: PAUSE })
  const ready = performance.now() - began
  await wait(SETTLING)
  const memory = memoryOf(child.pid ?? 0)
  await stop(child)
  return { ready, memory }
}

async function startOften(run: Run, title: string, where: Record<string, string>): Promise<void> {
  // The first one migrates, or makes the folder.
  await startOnce(run.options, where)
  const figures: Figures[] = []
  for (let i = 0; i < run.options.starts; i++) figures.push(await startOnce(run.options, where))
  const ready = spreadOf(figures.map((each) => each.ready))
  const memory = spreadOf(figures.map((each) => each.memory))
  run.say(
    `${title}: ready after ${ready.median.toFixed(0)} ms (${ready.least.toFixed(0)}-${ready.most.toFixed(0)}),` +
      ` then ${memory.median.toFixed(0)} MB resident (${memory.least.toFixed(0)}-${memory.most.toFixed(0)}),` +
      ` ${figures.length} starts`,
  )
}

async function starts(run: Run): Promise<void> {
  const folder = join(run.scratch, 'embedded')
  await startOften(run, 'PostgreSQL, migrated', { DATABASE_URL: run.bench.url })
  await startOften(run, 'embedded, existing', { DATA_DIR: folder })
  rmSync(folder, { recursive: true })
}

await command(
  () => readOptions('bench:start', ['starts', 'users', 'node', 'flags'], process.argv.slice(2)),
  starts,
)
