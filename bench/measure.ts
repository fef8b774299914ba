/** Measures the targets in rounds of rotating order; each target is started several times. */
import { join } from 'node:path'
import type { BenchContext } from './command.ts'
import { readProcessCpu } from './cpu.ts'
import type { BenchDatabase, DatabaseCopy } from './database.ts'
import { type LoadResult, runLoad } from './load.ts'
import { readPeakMemory, resetPeakMemory } from './memory.ts'
import { deleteOrders } from './orders.ts'
import { createCheckedCalls, FIRST_PORT, startTarget, type TargetProcess } from './target-process.ts'
import type { Call, Target } from './targets/target.ts'
import { isMeasured, type Workload } from './workloads.ts'

/** The result of one target in one round. */
export interface Measurement extends LoadResult {
  /** CPU of the server per request, in microseconds. */
  server: number
  /** CPU of PostgreSQL per request, in microseconds. */
  postgres: number
  /** The share of its core that the server used, from 0 to 1. */
  busy: number
  /** The largest resident memory of the server, in megabytes. */
  memory: number
}

/** The measurements of a workload by target: a list for each process, with one measurement for each round. */
export type WorkloadResults = Record<string, Measurement[][]>

/** The results by workload. */
export type Results = Record<string, WorkloadResults>

/** What a measurement needs of the context. */
export interface MeasureContext extends Pick<BenchContext, 'options' | 'temporaryFolder'> {
  database: Pick<BenchDatabase, 'readCpu'>
}

/** Loads a target for some seconds and reads the CPU time that the load cost. */
export async function measureLoad(
  { database, temporaryFolder, options }: MeasureContext,
  { pid, port }: TargetProcess,
  calls: readonly Call[],
  seconds: number,
): Promise<Measurement> {
  const { connections, generator } = options
  resetPeakMemory(pid)
  const [serverBefore, postgresBefore] = [readProcessCpu(pid), database.readCpu()]
  const file = join(temporaryFolder, 'requests')
  const result = await runLoad(calls, { port, seconds, connections, generator, file })
  const server = readProcessCpu(pid) - serverBefore
  const postgres = database.readCpu() - postgresBefore
  return {
    ...result,
    server: server / result.requests,
    postgres: postgres / result.requests,
    busy: server / 1e6 / result.seconds,
    memory: readPeakMemory(pid),
  }
}

export const formatMeasurement = (measurement: Measurement): string => {
  const { requests, seconds, server, postgres, busy, refused, broken } = measurement
  return (
    `${Math.round(requests / seconds)} req/s,` +
    ` server ${server.toFixed(1)} us (${Math.round(busy * 100)} % busy), PostgreSQL ${postgres.toFixed(1)} us` +
    (refused + broken > 0 ? `, ${refused} refused, ${broken} broken` : '')
  )
}

/** Returns the list with so many of its first elements at its end. */
export const rotate = <T>(list: readonly T[], by: number): T[] => [
  ...list.slice(by % list.length),
  ...list.slice(0, by % list.length),
]

interface RunningTarget {
  process: TargetProcess
  database: DatabaseCopy
}

/** Measures a workload with running targets, and adds a list of measurements for each of them. */
async function measureWorkload(
  context: BenchContext,
  workload: Workload,
  targets: readonly RunningTarget[],
  results: WorkloadResults,
): Promise<void> {
  const { options } = context
  const loads = []
  for (const { process, database } of targets) {
    const calls = await createCheckedCalls(process, workload, { ...context, database })
    await measureLoad(context, process, calls, options.warmup)
    const measurements: Measurement[] = []
    const { name } = process.target
    results[name] = [...(results[name] ?? []), measurements]
    loads.push({ process, database, calls, measurements })
  }
  for (let round = 0; round < options.rounds; round++) {
    for (const { process, database, calls, measurements } of rotate(loads, round)) {
      if (workload.writes) await database.deleteWrittenRows()
      const measurement = await measureLoad(context, process, calls, options.seconds)
      measurements.push(measurement)
      console.log(
        `${workload.name} ${round + 1} ${process.target.name.padEnd(14)} ${formatMeasurement(measurement)}`,
      )
    }
  }
  for (const { database } of targets) {
    if (!workload.writes) continue
    await database.waitUntilIdle()
    await deleteOrders(database.sql)
    await database.deleteWrittenRows()
  }
}

/**
 * Measures workloads with one process of each target. The processes run at the same time and are measured in turns, so
 * that a temporary slowdown of the machine affects all of them.
 */
async function measureProcesses(
  context: BenchContext,
  workloads: readonly Workload[],
  databases: ReadonlyMap<Target, DatabaseCopy>,
  results: Results,
): Promise<void> {
  const [first] = workloads
  if (!first) return
  const running: RunningTarget[] = []
  for (const [target, database] of databases) {
    if (!workloads.some((workload) => isMeasured(target, workload))) continue
    const port = FIRST_PORT + running.length
    running.push({ process: await startTarget({ ...context, database }, target, port, first), database })
  }
  for (const workload of workloads) {
    const measured = running.filter(({ process }) => isMeasured(process.target, workload))
    results[workload.name] ??= {}
    await measureWorkload(context, workload, measured, results[workload.name] ?? {})
  }
  await Promise.all(running.map(({ process }) => process.stop()))
}

/** Measures every workload with several processes of each target. */
export async function measureTargets(
  context: BenchContext,
  targets: readonly Target[],
  workloads: readonly Workload[],
): Promise<Results> {
  const databases = new Map<Target, DatabaseCopy>()
  for (const target of targets)
    databases.set(
      target,
      await context.database.copy(`bench_${target.name}`, target.isService ? target.folder : undefined),
    )
  const results: Results = {}
  for (let i = 0; i < context.options.processes; i++) {
    const order = rotate(workloads, i)
    // The peers have entity tags in some workloads only.
    for (const etags of [false, true]) {
      const group = order.filter((workload) => workload.etags === etags)
      await measureProcesses(context, group, databases, results)
    }
  }
  return results
}
