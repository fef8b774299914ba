/** `npm run bench:processes`: compares one process with two behind HAProxy, without and with Redis, or with workers. */
import type { ChildProcess } from 'node:child_process'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { assertNoFailures, type BenchContext, runCommand } from './command.ts'
import { readProcessTreeCpu } from './cpu.ts'
import { type LoadResult, runLoad } from './load.ts'
import { type Options, readOptions } from './options.ts'
import {
  ALL_CORES,
  checkPrograms,
  PROXY_PORT,
  type RunningSetup,
  type Setup,
  startSetup,
  stopSetup,
} from './process-setup.ts'
import { computeSpread, formatRatio } from './statistics.ts'
import { createCheckedCalls, type TargetProcess } from './target-process.ts'
import { serviceWithKey } from './targets/resource-api.ts'
import type { Call } from './targets/target.ts'
import { type Workload, workloads } from './workloads.ts'

const BASE = `http://127.0.0.1:${PROXY_PORT}`

const proxiedSetups: readonly Setup[] = [
  { processes: 1, redis: false },
  { processes: 2, redis: false },
  { processes: 1, redis: true },
  { processes: 2, redis: true },
]

const listSetups = ({ workers }: Options): readonly Setup[] =>
  workers === undefined
    ? proxiedSetups
    : [1, workers].map((count) => ({ processes: 1, redis: false, workers: count }))

const formatSetup = ({ processes, redis, workers }: Setup) =>
  workers !== undefined
    ? `WORKERS=${workers}`
    : `${processes} process${processes > 1 ? 'es' : ''}${redis ? ', Redis' : ''}`

interface Measurement extends LoadResult {
  /** Microseconds of CPU per request. */
  servers: number
  proxy: number
  postgres: number
  redis: number
  /** The cores that the servers used: 1 is one whole core. */
  serverCores: number
  /** The share of all cores that was in use, by the load generator too: from 0 to 1. */
  busy: number
}

/** Returns the milliseconds that all cores spent on work and in total. */
function readMachineTimes() {
  const times = cpus().map((core) => core.times)
  const idle = times.reduce((sum, each) => sum + each.idle, 0)
  const total = times.reduce((sum, each) => sum + each.user + each.nice + each.sys + each.idle + each.irq, 0)
  return { busy: total - idle, total }
}

const readCpu = (child: ChildProcess | undefined) =>
  child?.pid === undefined ? 0 : readProcessTreeCpu(child.pid)

/** Loads a setup for some seconds and reads the CPU time that the load cost. */
async function measureSetup(
  { database, options, temporaryFolder }: BenchContext,
  { servers, proxy, redis }: RunningSetup,
  calls: readonly Call[],
  seconds: number,
): Promise<Measurement> {
  const readTimes = () => ({
    servers: servers.reduce((sum, server) => sum + readCpu(server), 0),
    proxy: readCpu(proxy),
    postgres: database.readCpu(),
    redis: readCpu(redis),
    machine: readMachineTimes(),
  })
  const { connections, generator } = options
  const file = join(temporaryFolder, 'requests')
  const before = readTimes()
  const load = { port: PROXY_PORT, seconds, connections, generator, file, core: ALL_CORES }
  const result = await runLoad(calls, load)
  const after = readTimes()
  const perRequest = (part: 'servers' | 'proxy' | 'postgres' | 'redis') =>
    (after[part] - before[part]) / result.requests
  return {
    ...result,
    servers: perRequest('servers'),
    proxy: perRequest('proxy'),
    postgres: perRequest('postgres'),
    redis: perRequest('redis'),
    serverCores: (after.servers - before.servers) / 1e6 / result.seconds,
    busy: (after.machine.busy - before.machine.busy) / (after.machine.total - before.machine.total),
  }
}

/** The measurements of each workload and setup, one for each round. */
type Results = Map<string, Measurement[]>

const sumCpu = ({ servers, proxy, postgres, redis }: Measurement) => servers + proxy + postgres + redis

/** The columns of the table, and of the line of each measurement. */
const columns: readonly (readonly [title: string, digits: number, read: (m: Measurement) => number])[] = [
  ['Requests/s', 0, ({ requests, seconds }) => requests / seconds],
  ['p50 ms', 1, ({ p50 }) => p50],
  ['p99 ms', 1, ({ p99 }) => p99],
  ['Servers µs', 0, ({ servers }) => servers],
  ['HAProxy µs', 0, ({ proxy }) => proxy],
  ['PostgreSQL µs', 0, ({ postgres }) => postgres],
  ['Redis µs', 0, ({ redis }) => redis],
  ['Sum µs', 0, sumCpu],
  ['Cores of the servers', 2, ({ serverCores }) => serverCores],
  ['All cores busy %', 0, ({ busy }) => busy * 100],
]

/** Prints a table of the medians, in Markdown; requests per second also with their range. */
function printTable(results: Results): void {
  console.log(`\n| | | ${columns.map(([title]) => title).join(' | ')} |`)
  console.log(`|---|---|${'--:|'.repeat(columns.length)}`)
  for (const [key, measurements] of results) {
    const cells = columns.map(([, digits, read], i) => {
      const { median, min, max } = computeSpread(measurements.map(read))
      return median.toFixed(digits) + (i === 0 ? ` (${min.toFixed(0)}-${max.toFixed(0)})` : '')
    })
    console.log(`| ${key} | ${cells.join(' | ')} |`)
  }
}

/** Prints what workers bring: the ratios of each round, and what they would serve if each had a core for itself. */
function printRatios(results: Results, workers: number, selected: readonly Workload[]): void {
  console.log(
    '\n| | Requests/s | CPU of the servers per request | Requests/s with a core for each server |\n|---|--:|--:|--:|',
  )
  for (const workload of selected) {
    const [one = [], several = []] = [1, workers].map(
      (count) => results.get(formatKey(workload, { processes: 1, redis: false, workers: count })) ?? [],
    )
    const rates = [several, one].map((list) => list.map(({ requests, seconds }) => requests / seconds))
    const cpu = [several, one].map((list) => list.map(({ servers }) => servers))
    const capacities = [
      several.map(({ servers }) => workers / servers),
      one.map(({ servers }) => 1 / servers),
    ]
    const cells = [rates, cpu, capacities].map(([a = [], b = []]) => formatRatio(a, b))
    console.log(`| ${workload.name}: WORKERS=${workers} / WORKERS=1 | ${cells.join(' | ')} |`)
  }
}

const formatKey = (workload: Workload, setup: Setup) => `${workload.name} | ${formatSetup(setup)}`

/** Warms a running setup up for a workload and measures it. */
async function measureWorkload(
  context: BenchContext,
  running: RunningSetup,
  headers: Record<string, string>,
  workload: Workload,
): Promise<Measurement> {
  const { database, options } = context
  await database.deleteWrittenRows()
  const target: TargetProcess = {
    target: serviceWithKey,
    pid: running.proxy?.pid ?? 0,
    port: PROXY_PORT,
    base: BASE,
    headers,
    stop: () => stopSetup(running),
  }
  const calls = await createCheckedCalls(target, workload, context)
  // Each process needs its own warm-up.
  await measureSetup(
    context,
    running,
    calls,
    options.warmup * Math.max(running.servers.length, options.workers ?? 1),
  )
  const measurement = await measureSetup(context, running, calls, options.seconds)
  assertNoFailures([measurement])
  return measurement
}

async function compareProcesses(context: BenchContext): Promise<void> {
  const { options } = context
  const setups = listSetups(options)
  const selected = workloads.filter(({ name }) => options.workloads.includes(name))
  const results: Results = new Map(
    selected.flatMap((workload) => setups.map((setup) => [formatKey(workload, setup), []] as const)),
  )
  let headers: Record<string, string> | undefined
  for (let round = 0; round < options.rounds; round += 1) {
    for (const i of setups.keys()) {
      const setup = setups[(i + round) % setups.length]
      if (!setup) continue
      // Only one setup runs at a time: every server takes part in the work on events.
      const running = await startSetup(context, setup)
      headers ??= (await serviceWithKey.createHeaders?.(BASE)) ?? {}
      for (const workload of selected) {
        const measurement = await measureWorkload(context, running, headers, workload)
        results.get(formatKey(workload, setup))?.push(measurement)
        const figures = columns.map(
          ([title, digits, read]) => `${title} ${read(measurement).toFixed(digits)}`,
        )
        console.log(`${round + 1} ${formatKey(workload, setup)}: ${figures.join(', ')}`)
      }
      await stopSetup(running)
    }
  }
  printTable(results)
  if (options.workers !== undefined) printRatios(results, options.workers, selected)
}

await runCommand(() => {
  // `bench/postgres.sh` reads it.
  process.env.BENCH_PGCORE ??= ALL_CORES
  const options = readOptions(
    'bench:processes',
    [
      'workloads',
      'seconds',
      'warmup',
      'rounds',
      'connections',
      'pool',
      'generator',
      'users',
      'node',
      'flags',
      'workers',
    ],
    process.argv.slice(2),
    { workloads: 'W1,W2,W6' },
  )
  if (options && options.workers === undefined) checkPrograms('haproxy', 'redis-server')
  return options
}, compareProcesses)
