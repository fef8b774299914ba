/** One workload: the targets started, checked and warmed, then measured in rounds whose order rotates. */
import { join } from 'node:path'
import { cpuOf, cpuOfFamily } from './cpu.ts'
import { type Load, load } from './load.ts'
import { callsTo, FIRST_PORT, type Run, type Started, startTarget } from './started.ts'
import type { Call, Target } from './targets/target.ts'
import type { Workload } from './workloads.ts'

/** What one target did in one round. */
export interface Measured extends Load {
  /** Microseconds of CPU for each request. */
  server: number
  postgres: number
  /** The share of its core that the server used. */
  busy: number
}

/** What it did in so many seconds of these requests. */
export async function measureOnce(
  run: Run,
  { pid, port }: Started,
  calls: readonly Call[],
  seconds: number,
): Promise<Measured> {
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

/** What it did, in words. */
export const told = ({ requests, seconds, server, postgres, busy, refused, broken }: Measured): string =>
  `${Math.round(requests / seconds)} req/s,` +
  ` server ${server.toFixed(1)} us (${Math.round(busy * 100)} % busy), PostgreSQL ${postgres.toFixed(1)} us` +
  (refused + broken > 0 ? `, ${refused} refused, ${broken} broken` : '')

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
  const running: { started: Started; calls: readonly Call[] }[] = []
  for (const [i, target] of targets.entries()) {
    const started = await startTarget(run, target, FIRST_PORT + i, workload)
    running.push({ started, calls: await callsTo(started, workload, run) })
  }
  for (const { started, calls } of running) await measureOnce(run, started, calls, options.warmup)
  for (let round = 0; round < options.rounds; round++) {
    for (const { started, calls } of rotated(running, round)) {
      await bench.tidy()
      const measured = await measureOnce(run, started, calls, options.seconds)
      const { name } = started.target
      results.get(name)?.push(measured)
      say(`${workload.name} ${round + 1} ${name.padEnd(12)} ${told(measured)}`)
    }
  }
  await Promise.all(running.map(({ started }) => started.stop()))
  return results
}
