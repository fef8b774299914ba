/**
 * Runs two servers behind haproxy with Redis, a PostgreSQL and a delayed streaming standby, which is killed and paused
 * under load. Reports failures, stale reads and the CPU time of each component.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { type Database, openDatabase } from '../../drizzle/client/index.ts'
import { createClient } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { parseExposition, sumSamples } from '../helpers/exposition.ts'
import { type RunningProcess, startServer } from '../helpers/process.ts'
import { WITHOUT_LIMITS } from '../helpers/without-limits.ts'
import { readCpuSeconds } from './cpu-affinity.ts'
import { type Backends, startBackends, startHaproxy } from './replica-backends.ts'
import {
  createUser,
  type LoadFindings,
  type ReplicaLoad,
  runReader,
  runReplicaWriter,
} from './replica-load.ts'

export interface ReplicasOptions {
  file: string
  /** The number of users that write; as many users only read. */
  writers: number
  /** Seconds of each phase. */
  phase: number
  onPhase: (phase: ReplicaPhase) => void
}

type Component = 'haproxy' | 'servers' | 'primary' | 'standby' | 'Redis'

/** The measurements of one phase. */
export interface ReplicaPhase {
  name: string
  requests: number
  writes: number
  /** CPU time per request in microseconds. */
  costs: Record<Component, number>
  /** The number of reads by database and reason. */
  reads: { replica: number; afterWrite: number; noReplica: number }
  /** Statements that failed on the standby and were repeated on the primary. */
  fallbacks: number
  /** Milliseconds. */
  p50: number
  p99: number
  max: number
}

export interface ReplicasReport extends LoadFindings {
  version: string
}

const REPLICA_LAG_SECONDS = 2
const WARM_UP_MS = 3_000
const METRICS_TOKEN = 'soak-metrics-token-soak-metrics'
const SERVER_SETTINGS = {
  ...WITHOUT_LIMITS,
  PORT: '0',
  LOG_LEVEL: 'warn',
  APP_SECRET: 'soak-secret-soak-secret-soak-secret-soak',
  ADMIN_API_KEY: 'soak-admin-key-soak-admin-key-soak-admin-key',
  METRICS_TOKEN,
}

/** Sums the metrics and the CPU time of the servers. @throws Error if a server has exited */
async function readServerCounters(servers: readonly RunningProcess[], urls: readonly string[]) {
  const exited = servers.find(({ child }) => child.exitCode !== null || child.signalCode !== null)
  if (exited) throw new Error(`A server has exited: ${exited.output.err}${exited.output.out.slice(-2_000)}`)
  const expositions = await Promise.all(
    urls.map(async (url) => {
      const client = createClient(url, { authorization: `Bearer ${METRICS_TOKEN}` })
      return parseExposition((await client.get('/metrics')).text)
    }),
  )
  const sum = (name: string, labels = {}) =>
    expositions.reduce(
      (total, families) => total + (families.has(name) ? sumSamples(families, name, labels) : 0),
      0,
    )
  const sumReads = (from: string) => sum('database_reads_total', { from })
  return {
    reads: {
      replica: sumReads('replica'),
      afterWrite: sumReads('primary_after_write'),
      noReplica: sumReads('primary_no_replica'),
    },
    fallbacks: sum('database_replica_fallbacks_total'),
    servers: servers.reduce((total, { child }) => total + readCpuSeconds(child.pid), 0),
  }
}

type Counters = Awaited<ReturnType<typeof readServerCounters>> & Record<Component, number>

/** Computes the measurements of a phase from the counters before and after it. */
function summarizePhase(name: string, load: ReplicaLoad, before: Counters, after: Counters): ReplicaPhase {
  const requests = load.times.length
  const sorted = Float64Array.from(load.times).sort()
  const getQuantile = (share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN
  // The counter of a component that was restarted during the phase began at 0.
  const getCost = (part: Component) =>
    ((after[part] < before[part] ? after[part] : after[part] - before[part]) * 1e6) / requests
  const getReads = (from: keyof ReplicaPhase['reads']) => after.reads[from] - before.reads[from]
  return {
    name,
    requests,
    writes: load.writes,
    costs: {
      haproxy: getCost('haproxy'),
      servers: getCost('servers'),
      primary: getCost('primary'),
      standby: getCost('standby'),
      Redis: getCost('Redis'),
    },
    reads: {
      replica: getReads('replica'),
      afterWrite: getReads('afterWrite'),
      noReplica: getReads('noReplica'),
    },
    fallbacks: after.fallbacks - before.fallbacks,
    ...{ p50: getQuantile(0.5), p99: getQuantile(0.99), max: getQuantile(1) },
  }
}

/** Starts two servers behind haproxy. Returns a function that runs the load during one phase. */
async function startServers(
  t: Owner,
  { primary, standby, redis }: Backends,
  options: ReplicasOptions,
  settings: NodeJS.ProcessEnv,
) {
  const all = { ...SERVER_SETTINGS, DATABASE_URL: primary.url, REDIS_URL: redis.url, ...settings }
  const servers = [await startServer(t, all, options.file), await startServer(t, all, options.file)]
  const urls = servers.map(({ url }) => url)
  const haproxy = await startHaproxy(t, urls)
  const database = await openDatabase({ url: primary.url, poolSize: 2 })
  t.teardown(() => database.close())
  const users = await Promise.all(
    Array.from({ length: 2 * options.writers }, () => createUser(database, haproxy.url)),
  )
  await database.run('analyze')
  while ((await fetch(`${haproxy.url}/readyz`).catch(() => undefined))?.status !== 200) await wait(50)
  const products = await database.run(`select id from products where status = 'active' limit 500`)
  const productIds = products.map(({ id }) => String(id))

  const readCounters = async (): Promise<Counters> => ({
    ...(await readServerCounters(servers, urls)),
    haproxy: readCpuSeconds(haproxy.pid),
    primary: primary.readCpuSeconds(),
    standby: standby.readCpuSeconds(),
    Redis: readCpuSeconds(redis.pid),
  })

  /** @param standbyDatabase a connection to the standby, to count the stale reads that it would have returned */
  return async (
    name: string,
    findings: LoadFindings,
    standbyDatabase: Database | undefined,
    work: () => Promise<unknown>,
  ) => {
    const load: ReplicaLoad = {
      ...{ findings, times: [], writes: 0, isOver: false },
      ...{ standby: standbyDatabase, productIds, replicaLag: REPLICA_LAG_SECONDS },
    }
    const before = await readCounters()
    const running = users.map((user, i) =>
      i % 2 === 0 ? runReplicaWriter(load, user) : runReader(load, user),
    )
    await work()
    load.isOver = true
    await Promise.all(running)
    options.onPhase(summarizePhase(name, load, before, await readCounters()))
  }
}

/** Runs all phases. Returns undefined if PostgreSQL is not installed. */
export async function standbySoak(t: Owner, options: ReplicasOptions): Promise<ReplicasReport | undefined> {
  const backends = await startBackends(t)
  if (!backends) return undefined
  const { primary, standby } = backends
  const report: ReplicasReport = {
    version: primary.version,
    failed: [],
    overloaded: 0,
    stale: [],
    standbyReads: { total: 0, stale: 0 },
  }
  const phaseMs = options.phase * 1000

  const runWithoutReplicas = await startServers(t, backends, options, {})
  await runWithoutReplicas('warm-up', report, undefined, () => wait(WARM_UP_MS))
  await runWithoutReplicas('without replicas', report, undefined, () => wait(phaseMs))

  const runWithReplica = await startServers(t, backends, options, {
    DATABASE_REPLICA_URLS: standby.url,
    REPLICA_LAG: String(REPLICA_LAG_SECONDS),
  })
  const standbyDatabase = await openDatabase({ url: standby.url, poolSize: 2 })
  t.teardown(() => standbyDatabase.close())
  const runPhase = (name: string, work: () => Promise<unknown>) =>
    runWithReplica(name, report, standbyDatabase, work)
  await runPhase('warm-up', () => wait(WARM_UP_MS))
  await runPhase('with the standby', () => wait(phaseMs))
  await runPhase('the standby is killed', async () => {
    await wait(phaseMs / 4)
    await standby.kill()
    await wait((phaseMs * 3) / 4)
  })
  await runPhase('the standby is restarted', async () => {
    await standby.start()
    await wait(phaseMs)
  })
  await runPhase('replay is paused', async () => {
    await standbyDatabase.run('select pg_wal_replay_pause()')
    await wait(phaseMs)
    await standbyDatabase.run('select pg_wal_replay_resume()')
  })
  await runPhase('replay is resumed', () => wait(phaseMs))
  return report
}
