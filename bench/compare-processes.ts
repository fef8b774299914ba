/** `npm run bench:processes`: compares one process with two behind HAProxy, without and with Redis. */
import type { ChildProcess } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { assertNoFailures, type BenchContext, runCommand } from './command.ts'
import { readProcessCpu, readProcessTreeCpu } from './cpu.ts'
import { type LoadResult, runLoad } from './load.ts'
import { readOptions } from './options.ts'
import { isInstalled, startProcess, stopProcess } from './processes.ts'
import { computeSpread } from './statistics.ts'
import { createCheckedCalls, FIRST_PORT, type TargetProcess, waitForResponse } from './target-process.ts'
import { serviceWithKey } from './targets/resource-api.ts'
import type { Call } from './targets/target.ts'
import { workloads } from './workloads.ts'

/** No process is bound to a core, so that two servers can use both. */
const ALL_CORES = `0-${cpus().length - 1}`
const PROXY_PORT = FIRST_PORT
const REDIS_PORT = FIRST_PORT + 1
const FIRST_SERVER_PORT = FIRST_PORT + 2

const proxySample = fileURLToPath(new URL('../deploy/haproxy/haproxy.cfg', import.meta.url))

interface Setup {
  processes: 1 | 2
  redis: boolean
}

const setups: readonly Setup[] = [
  { processes: 1, redis: false },
  { processes: 2, redis: false },
  { processes: 1, redis: true },
  { processes: 2, redis: true },
]

const formatSetup = ({ processes, redis }: Setup) =>
  `${processes} process${processes > 1 ? 'es' : ''}${redis ? ', Redis' : ''}`

interface RunningSetup {
  servers: readonly ChildProcess[]
  proxy: ChildProcess
  redis: ChildProcess | undefined
}

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

/** Returns the sample configuration of HAProxy with the ports of the bench and without TLS. */
function adaptProxySample(processes: number): string {
  const replacements: [string, string][] = [
    ['frontend http\n  bind :80\n  http-request redirect scheme https code 308\n', ''],
    [
      'bind :443 ssl crt /etc/ssl/resource-api/fullchain-and-key.pem ssl-min-ver TLSv1.2 alpn h2,http/1.1',
      `bind 127.0.0.1:${PROXY_PORT}`,
    ],
    ['127.0.0.1:3001', `127.0.0.1:${FIRST_SERVER_PORT}`],
    processes === 1
      ? ['  server two 127.0.0.1:3002\n', '']
      : ['127.0.0.1:3002', `127.0.0.1:${FIRST_SERVER_PORT + 1}`],
  ]
  return replacements.reduce(
    (text, [from, to]) => {
      if (!text.includes(from)) throw new Error(`${proxySample} has no "${from}"`)
      return text.replace(from, to)
    },
    readFileSync(proxySample, 'utf8'),
  )
}

function startRedis(context: BenchContext): ChildProcess {
  const flags = ['--port', `${REDIS_PORT}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  return startProcess({ core: ALL_CORES, args: ['redis-server', ...flags], cwd: context.temporaryFolder })
}

async function startServer({ database, options }: BenchContext, port: number, redis: boolean) {
  const child = startProcess({
    core: ALL_CORES,
    args: [options.node, ...options.flags, serviceWithKey.script],
    cwd: serviceWithKey.folder,
    env: {
      NODE_ENV: 'production',
      PORT: String(port),
      DATABASE_URL: database.url,
      POOL_SIZE: String(options.poolSize),
      TRUST_PROXY: '127.0.0.1',
      ...(redis && { REDIS_URL: `redis://127.0.0.1:${REDIS_PORT}` }),
      ...serviceWithKey.env,
    },
  })
  const base = `http://127.0.0.1:${port}`
  await waitForResponse(child, { name: `the server on port ${port}`, base, path: '/readyz', status: 200 })
  return child
}

async function startSetup(context: BenchContext, setup: Setup): Promise<RunningSetup> {
  const redis = setup.redis ? startRedis(context) : undefined
  const servers: ChildProcess[] = []
  for (let i = 0; i < setup.processes; i += 1) {
    servers.push(await startServer(context, FIRST_SERVER_PORT + i, setup.redis))
  }
  const file = join(context.temporaryFolder, 'haproxy.cfg')
  writeFileSync(file, adaptProxySample(setup.processes))
  const proxy = startProcess({ core: ALL_CORES, args: ['haproxy', '-db', '-f', file] })
  const base = `http://127.0.0.1:${PROXY_PORT}`
  await waitForResponse(proxy, { name: 'haproxy', base, path: '/readyz', status: 200 })
  return { servers, proxy, redis }
}

async function stopSetup({ servers, proxy, redis }: RunningSetup): Promise<void> {
  for (const child of [proxy, ...servers, redis]) if (child) await stopProcess(child)
}

/** Returns the milliseconds that all cores spent on work and in total. */
function readMachineTimes() {
  const times = cpus().map((core) => core.times)
  const idle = times.reduce((sum, each) => sum + each.idle, 0)
  const total = times.reduce((sum, each) => sum + each.user + each.nice + each.sys + each.idle + each.irq, 0)
  return { busy: total - idle, total }
}

const readCpu = (child: ChildProcess | undefined) =>
  child?.pid === undefined ? 0 : readProcessCpu(child.pid)

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
    postgres: readProcessTreeCpu(database.pid),
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
function printTable(results: ReadonlyMap<string, readonly Measurement[]>): void {
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

async function compareProcesses(context: BenchContext): Promise<void> {
  const { database, options } = context
  const selected = workloads.filter(({ name }) => options.workloads.includes(name))
  const base = `http://127.0.0.1:${PROXY_PORT}`
  const results = new Map<string, Measurement[]>(
    selected.flatMap(({ name }) => setups.map((setup) => [`${name} | ${formatSetup(setup)}`, []] as const)),
  )
  let headers: Record<string, string> | undefined
  for (let round = 0; round < options.rounds; round += 1) {
    for (const i of setups.keys()) {
      // Only one setup runs at a time: every server takes part in the work on events.
      const setup = setups[(i + round) % setups.length]
      if (!setup) continue
      const running = await startSetup(context, setup)
      headers ??= (await serviceWithKey.createHeaders?.(base)) ?? {}
      for (const workload of selected) {
        await database.deleteWrittenRows()
        const target: TargetProcess = {
          target: serviceWithKey,
          pid: running.proxy.pid ?? 0,
          port: PROXY_PORT,
          base,
          headers,
          stop: () => stopSetup(running),
        }
        const calls = await createCheckedCalls(target, workload, context)
        // Each process needs its own warm-up.
        await measureSetup(context, running, calls, options.warmup * setup.processes)
        const measurement = await measureSetup(context, running, calls, options.seconds)
        assertNoFailures([measurement])
        const key = `${workload.name} | ${formatSetup(setup)}`
        results.get(key)?.push(measurement)
        const figures = columns.map(
          ([title, digits, read]) => `${title} ${read(measurement).toFixed(digits)}`,
        )
        console.log(`${round + 1} ${key}: ${figures.join(', ')}`)
      }
      await stopSetup(running)
    }
  }
  printTable(results)
}

await runCommand(() => {
  for (const program of ['haproxy', 'redis-server']) {
    if (!isInstalled(program)) throw new Error(`${program} is not installed`)
  }
  // `bench/postgres.sh` reads it.
  process.env.BENCH_PGCORE ??= ALL_CORES
  return readOptions(
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
    ],
    process.argv.slice(2),
    { workloads: 'W1,W2,W6' },
  )
}, compareProcesses)
