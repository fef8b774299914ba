/** One workload: the targets started, checked and warmed, then measured in rounds whose order rotates. */
import { join } from 'node:path'
import { check } from './check.ts'
import { cpuOf, cpuOfFamily } from './cpu.ts'
import type { Bench } from './database.ts'
import { type Load, load } from './load.ts'
import type { Options } from './options.ts'
import { SERVER_CORE, start, stop } from './processes.ts'
import type { Samples } from './samples.ts'
import type { Call, Target } from './targets/target.ts'
import { createTruth } from './truth.ts'
import type { Workload } from './workloads.ts'

/** What one target did in one round. */
export interface Measured extends Load {
  /** Microseconds of CPU for each request. */
  server: number
  postgres: number
  /** The share of its core that the server used. */
  busy: number
}

interface Started {
  target: Target
  pid: number
  port: number
  calls: readonly Call[]
  stop(): Promise<void>
}

export interface Run {
  bench: Bench
  options: Options
  samples: Samples
  /** A folder for what is needed only meanwhile. */
  scratch: string
  say(line: string): void
}

const FIRST_PORT = 29_100
const PATIENCE = 60_000

/** Waits until it answers, whatever it says. */
async function answers(base: string, ended: () => string | undefined): Promise<void> {
  const until = performance.now() + PATIENCE
  for (;;) {
    const end = ended()
    if (end !== undefined) throw new Error(end)
    try {
      await fetch(base).then((reply) => reply.text())
      return
    } catch (error) {
      if (performance.now() > until) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}

function profiling(folder: string | undefined, name: string): string[] {
  return folder === undefined
    ? []
    : [
        '--cpu-prof',
        '--cpu-prof-interval=400',
        `--cpu-prof-dir=${folder}`,
        `--cpu-prof-name=${name}.cpuprofile`,
      ]
}

/** What `npm start` and the image give this service, and so what every target gets here. */
const ROOM = '--max-semi-space-size=32'

async function startTarget(run: Run, workload: Workload, target: Target, port: number): Promise<Started> {
  const { bench, options, samples } = run
  const profile = profiling(options.profile, `${workload.name}-${target.name}`)
  const child = start({
    core: SERVER_CORE,
    args: [target.node ?? options.node, ROOM, ...profile, target.script],
    cwd: target.folder,
    env: {
      NODE_ENV: 'production',
      PORT: String(port),
      DATABASE_URL: bench.url,
      POOL_SIZE: String(options.poolSize),
      ...(workload.etags && { ETAGS: 'true' }),
      ...target.env,
    },
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-4_000)
    })
  }
  const base = `http://127.0.0.1:${port}`
  await answers(base, () =>
    child.exitCode === null && child.signalCode === null ? undefined : `${target.name} ended: ${said}`,
  )
  const headers = (await target.headers?.(base)) ?? {}
  await target.prepare?.(base, headers, workload.name === 'W3' ? samples.positions : [])
  const calls = await workload.calls(samples, { api: target.api, base, headers })
  await check(workload.name, { api: target.api, base, calls }, samples, createTruth(bench.sql))
  if (child.pid === undefined) throw new Error(`${target.name} has no process`)
  return { target, pid: child.pid, port, calls, stop: () => stop(child) }
}

async function measureOnce(run: Run, { pid, port, calls }: Started, seconds: number): Promise<Measured> {
  const { bench, scratch } = run
  const { connections, generator } = run.options
  const [server, postgres] = [cpuOf(pid), cpuOfFamily(bench.pid)]
  const file = join(scratch, 'requests')
  const done = await load(calls, { port, seconds, connections, generator, file })
  const [serverUsed, postgresUsed] = [cpuOf(pid) - server, cpuOfFamily(bench.pid) - postgres]
  return {
    ...done,
    server: serverUsed / done.requests,
    postgres: postgresUsed / done.requests,
    busy: serverUsed / 1e6 / done.seconds,
  }
}

/** In each round another one begins. */
const rotated = <T>(list: readonly T[], by: number): T[] => [
  ...list.slice(by % list.length),
  ...list.slice(0, by % list.length),
]

/** What each target did, round by round. */
export async function measure(run: Run, workload: Workload, targets: readonly Target[]) {
  const { bench, options, say } = run
  const results = new Map<string, Measured[]>(targets.map(({ name }) => [name, []]))
  await bench.tidy()
  const started: Started[] = []
  for (const [i, target] of targets.entries()) {
    started.push(await startTarget(run, workload, target, FIRST_PORT + i))
  }
  for (const each of started) await measureOnce(run, each, options.warmup)
  for (let round = 0; round < options.rounds; round++) {
    for (const each of rotated(started, round)) {
      await bench.tidy()
      const measured = await measureOnce(run, each, options.seconds)
      results.get(each.target.name)?.push(measured)
      const { requests, seconds, server, postgres, busy, refused, broken } = measured
      say(
        `${workload.name} ${round + 1} ${each.target.name.padEnd(12)} ${Math.round(requests / seconds)} req/s,` +
          ` server ${server.toFixed(1)} us (${Math.round(busy * 100)} % busy), PostgreSQL ${postgres.toFixed(1)} us` +
          (refused + broken > 0 ? `, ${refused} refused, ${broken} broken` : ''),
      )
    }
  }
  await Promise.all(started.map((each) => each.stop()))
  return results
}
