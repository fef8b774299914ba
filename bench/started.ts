/** A target's process: started on its core, waited for, and ready to be asked. */
import type { ChildProcess } from 'node:child_process'
import { setTimeout as wait } from 'node:timers/promises'
import { check } from './check.ts'
import type { Bench } from './database.ts'
import type { Options } from './options.ts'
import { SERVER_CORE, start, stop } from './processes.ts'
import type { Samples } from './samples.ts'
import { type Call, send, type Target } from './targets/target.ts'
import { createTruth } from './truth.ts'
import type { Workload } from './workloads.ts'

export interface Run {
  bench: Bench
  options: Options
  samples: Samples
  /** A folder for what is needed only meanwhile. */
  scratch: string
  say(line: string): void
}

export interface Started {
  target: Target
  pid: number
  port: number
  base: string
  headers: Record<string, string>
  stop(): Promise<void>
}

/** BENCH_PORT says where, as BENCH_PGPORT does of PostgreSQL. */
export const FIRST_PORT = Number(process.env.BENCH_PORT ?? 29_100)
const PATIENCE = 60_000

/** What a process has said last, and whether it has ended. */
function watch(child: ChildProcess, name: string): () => string | undefined {
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-4_000)
    })
  }
  return () => (child.exitCode === null && child.signalCode === null ? undefined : `${name} ended: ${said}`)
}

/** Waits until a process answers, with a status if one is wanted. */
export async function answers(
  child: ChildProcess,
  {
    name,
    base,
    path = '/',
    status,
    pause = 100,
  }: {
    name: string
    base: string
    path?: string
    status?: number
    /** Milliseconds between two tries. */
    pause?: number
  },
): Promise<void> {
  const ended = watch(child, name)
  const until = performance.now() + PATIENCE
  for (;;) {
    const end = ended()
    if (end !== undefined) throw new Error(end)
    const reply = await send(base, { method: 'GET', path }).catch(() => undefined)
    if (reply && (status === undefined || reply.status === status)) return
    if (performance.now() > until) throw new Error(`${name} does not answer at ${base}${path}`)
    await wait(pause)
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

/** @param purpose what it is started for, as its profile is called; with entity tags where peers must be told */
export async function startTarget(
  { bench, options }: Run,
  target: Target,
  port: number,
  purpose: { name: string; etags: boolean },
): Promise<Started> {
  const profile = profiling(options.profile, `${purpose.name}-${target.name}`)
  const child = start({
    core: SERVER_CORE,
    args: [target.node ?? options.node, ...options.flags, ...profile, target.script],
    cwd: target.folder,
    env: {
      NODE_ENV: 'production',
      PORT: String(port),
      DATABASE_URL: bench.url,
      POOL_SIZE: String(options.poolSize),
      ...(purpose.etags && { ETAGS: 'true' }),
      ...target.env,
    },
  })
  const base = `http://127.0.0.1:${port}`
  await answers(child, { name: target.name, base })
  if (child.pid === undefined) throw new Error(`${target.name} has no process`)
  const headers = (await target.headers?.(base)) ?? {}
  return { target, pid: child.pid, port, base, headers, stop: () => stop(child) }
}

/** A workload's requests to it, a few of which were answered rightly. */
export async function callsTo(
  { target, base, headers }: Started,
  workload: Workload,
  { bench, samples }: Run,
): Promise<readonly Call[]> {
  const { api } = target
  await target.prepare?.(base, headers, workload.name === 'W3' ? samples.positions : [])
  const calls = await workload.calls(samples, { api, base, headers })
  await check(workload.name, { api, base, calls }, samples, createTruth(bench.sql))
  return calls
}
