/** Starts the process of a target on the server core and waits until it responds. */
import type { ChildProcess } from 'node:child_process'
import { setTimeout as wait } from 'node:timers/promises'
import { checkResponses } from './check.ts'
import type { BenchContext } from './command.ts'
import type { DatabaseCopy } from './database.ts'
import { createExpectedRows } from './expected-rows.ts'
import { SERVER_CORE, startProcess, stopProcess } from './processes.ts'
import type { Samples } from './samples.ts'
import { type Call, send, type Target } from './targets/target.ts'
import type { Workload } from './workloads.ts'

export interface TargetProcess {
  target: Target
  pid: number
  port: number
  base: string
  headers: Record<string, string>
  stop(): Promise<void>
}

/** The port of the first target; the others follow. BENCH_PORT sets it. */
export const FIRST_PORT = Number(process.env.BENCH_PORT ?? 29_100)
const START_TIMEOUT_MS = 60_000
const MAX_OUTPUT_LENGTH = 4_000

/** Collects the output of a process. The returned function describes the end of the process, if it has ended. */
function watchForExit(child: ChildProcess, name: string): () => string | undefined {
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-MAX_OUTPUT_LENGTH)
    })
  }
  return () =>
    child.exitCode === null && child.signalCode === null ? undefined : `${name} exited: ${output}`
}

interface WaitOptions {
  name: string
  base: string
  path?: string
  /** The status to wait for; by default any. */
  status?: number
  /** Milliseconds between two requests. */
  intervalMs?: number
}

/** @throws Error if the process exits or does not respond in time */
export async function waitForResponse(child: ChildProcess, options: WaitOptions): Promise<void> {
  const { name, base, path = '/', status, intervalMs = 100 } = options
  const describeExit = watchForExit(child, name)
  const deadline = performance.now() + START_TIMEOUT_MS
  for (;;) {
    const exit = describeExit()
    if (exit !== undefined) throw new Error(exit)
    const response = await send(base, { method: 'GET', path }).catch(() => undefined)
    if (response && (status === undefined || response.status === status)) return
    if (performance.now() > deadline) throw new Error(`${name} does not respond at ${base}${path}`)
    await wait(intervalMs)
  }
}

function createProfileFlags(folder: string | undefined, name: string): string[] {
  return folder === undefined
    ? []
    : [
        '--cpu-prof',
        '--cpu-prof-interval=400',
        `--cpu-prof-dir=${folder}`,
        `--cpu-prof-name=${name}.cpuprofile`,
      ]
}

/** @param workload its name becomes part of the profile's name; `etags` enables entity tags in peers */
export async function startTarget(
  { database, options }: Pick<BenchContext, 'options'> & { database: Pick<DatabaseCopy, 'url'> },
  target: Target,
  port: number,
  workload: { name: string; etags: boolean },
): Promise<TargetProcess> {
  const profileFlags = createProfileFlags(options.profile, `${workload.name}-${target.name}`)
  const child = startProcess({
    core: SERVER_CORE,
    args: [target.node ?? options.node, ...options.flags, ...profileFlags, target.script],
    cwd: target.folder,
    env: {
      NODE_ENV: 'production',
      PORT: String(port),
      DATABASE_URL: database.url,
      POOL_SIZE: String(options.poolSize),
      ...(workload.etags && { ETAGS: 'true' }),
      ...target.env,
    },
  })
  const base = `http://127.0.0.1:${port}`
  await waitForResponse(child, { name: target.name, base })
  if (child.pid === undefined) throw new Error(`${target.name} has no process id`)
  const headers = (await target.createHeaders?.(base)) ?? {}
  return { target, pid: child.pid, port, base, headers, stop: () => stopProcess(child) }
}

/** Creates the requests of a workload for a target, and checks some of the responses. */
export async function createCheckedCalls(
  { target, base, headers }: TargetProcess,
  workload: Workload,
  { database, samples }: { database: Pick<DatabaseCopy, 'sql'>; samples: Samples },
): Promise<readonly Call[]> {
  const { api } = target
  await target.prepare?.(base, headers, workload.name === 'W3' ? samples.positions : [])
  const calls = await workload.createCalls(samples, { api, base, headers })
  await checkResponses(workload.name, { api, base, calls }, samples, createExpectedRows(database.sql))
  return calls
}
