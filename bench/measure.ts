/** Measures one workload: starts, checks and warms up the targets, then measures them in rounds of rotating order. */
import { join } from 'node:path'
import type { BenchContext } from './command.ts'
import { readProcessCpu } from './cpu.ts'
import type { BenchDatabase } from './database.ts'
import { type LoadResult, runLoad } from './load.ts'
import { createCheckedCalls, FIRST_PORT, startTarget, type TargetProcess } from './target-process.ts'
import type { Call, Target } from './targets/target.ts'
import type { Workload } from './workloads.ts'

/** The result of one target in one round. */
export interface Measurement extends LoadResult {
  /** CPU of the server per request, in microseconds. */
  server: number
  /** CPU of PostgreSQL per request, in microseconds. */
  postgres: number
  /** The share of its core that the server used, from 0 to 1. */
  busy: number
}

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

const rotate = <T>(list: readonly T[], by: number): T[] => [
  ...list.slice(by % list.length),
  ...list.slice(0, by % list.length),
]

/** Returns the measurements of each target, one for each round. */
export async function measureWorkload(context: BenchContext, workload: Workload, targets: readonly Target[]) {
  const { database, options } = context
  const results = new Map<string, Measurement[]>(targets.map(({ name }) => [name, []]))
  await database.deleteWrittenRows()
  const running: { process: TargetProcess; calls: readonly Call[] }[] = []
  for (const [i, target] of targets.entries()) {
    const process = await startTarget(context, target, FIRST_PORT + i, workload)
    running.push({ process, calls: await createCheckedCalls(process, workload, context) })
  }
  for (const { process, calls } of running) await measureLoad(context, process, calls, options.warmup)
  for (let round = 0; round < options.rounds; round++) {
    for (const { process, calls } of rotate(running, round)) {
      await database.deleteWrittenRows()
      const measurement = await measureLoad(context, process, calls, options.seconds)
      const { name } = process.target
      results.get(name)?.push(measurement)
      console.log(`${workload.name} ${round + 1} ${name.padEnd(12)} ${formatMeasurement(measurement)}`)
    }
  }
  await Promise.all(running.map(({ process }) => process.stop()))
  return results
}
