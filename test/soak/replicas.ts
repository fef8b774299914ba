/**
 * Runs two servers behind haproxy with Redis, a PostgreSQL and a delayed streaming standby, which is killed and paused
 * under load. Reports failures, stale reads and the CPU time of each component.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { type Database, openDatabase } from '../../drizzle/client/index.ts'
import { createClient } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { parseExposition, sumSamples } from '../helpers/exposition.ts'
import type { RunningProcess } from '../helpers/process.ts'
import { readCpuSeconds } from './cpu-affinity.ts'
import { type Backends, startBackends, startHaproxy } from './replica-backends.ts'
import { type LoadFindings, type ReplicaLoad, runReader, runReplicaWriter } from './replica-load.ts'
import { formatTimes, printViolations, summarize } from './report.ts'
import { createMember, startSoakServer } from './server.ts'

/** The number of users that write; as many users only read. */
const WRITERS = 8
const PHASE_MS = 8_000
const REPLICA_LAG_SECONDS = 2
const WARM_UP_MS = 3_000
const METRICS_TOKEN = 'soak-metrics-token-soak-metrics'

/** Sums the metrics and the CPU time of the servers. @throws Error if a server has exited */
async function readServerCounters(servers: readonly (RunningProcess & { url: string })[]) {
  const exited = servers.find(({ child }) => child.exitCode !== null || child.signalCode !== null)
  if (exited) throw new Error(`A server has exited: ${exited.output.err}${exited.output.out.slice(-2_000)}`)
  const expositions = await Promise.all(
    servers.map(async ({ url }) => {
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
    // The number of reads by database and reason.
    ...{ replica: sumReads('replica'), afterWrite: sumReads('primary_after_write') },
    noReplica: sumReads('primary_no_replica'),
    // Statements that failed on the standby and were repeated on the primary.
    fallbacks: sum('database_replica_fallbacks_total'),
    servers: servers.reduce((total, { child }) => total + readCpuSeconds(child.pid), 0),
  }
}

const COMPONENTS = ['haproxy', 'servers', 'primary', 'standby', 'Redis'] as const

type Counters = Awaited<ReturnType<typeof readServerCounters>> & Record<(typeof COMPONENTS)[number], number>

/** Prints the measurements of a phase from the counters before and after it. */
function printPhase(name: string, { times, writes }: ReplicaLoad, before: Counters, after: Counters): void {
  const getIncrease = (counter: keyof Counters) => after[counter] - before[counter]
  const costs = COMPONENTS.map((part) => {
    // The counter of a component that was restarted during the phase began at 0.
    const seconds = after[part] < before[part] ? after[part] : getIncrease(part)
    return `${part} ${((seconds * 1e6) / times.length).toFixed(0)}`
  })
  console.log(
    `  ${name}: ${times.length} requests, ${writes} of them writes; ms: ${formatTimes(summarize(times))}`,
  )
  console.log(`    us of CPU time per request: ${costs.join(', ')}`)
  console.log(
    `    reads from the standby ${getIncrease('replica')}, from the primary ${getIncrease('afterWrite')} after a write,` +
      ` ${getIncrease('noReplica')} without an available standby; ${getIncrease('fallbacks')} statements fell back`,
  )
}

/** Starts two servers behind haproxy. Returns a function that runs the load during one phase. */
async function startServers(t: Owner, backends: Backends, own: NodeJS.ProcessEnv) {
  const { primary, standby, redis } = backends
  const databases = { DATABASE_URL: primary.url, REDIS_URL: redis.url }
  const settings = { LOG_LEVEL: 'warn', METRICS_TOKEN, ...databases, ...own }
  const servers = [await startSoakServer(t, settings), await startSoakServer(t, settings)]
  const haproxy = await startHaproxy(
    t,
    servers.map(({ url }) => url),
  )
  const database = await openDatabase({ url: primary.url, poolSize: 2 })
  t.teardown(() => database.close())
  const users = await Promise.all(
    Array.from({ length: 2 * WRITERS }, async () => {
      const { id, key } = await createMember(database)
      return { id, client: createClient(haproxy.url, { 'x-api-key': key }) }
    }),
  )
  await database.run('analyze')
  while ((await fetch(`${haproxy.url}/readyz`).catch(() => undefined))?.status !== 200) await wait(50)
  const products = await database.run(`select id from products where status = 'active' limit 500`)

  const readCounters = async (): Promise<Counters> => ({
    ...(await readServerCounters(servers)),
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
      ...{ findings, times: [], writes: 0, isOver: false, standby: standbyDatabase },
      ...{ productIds: products.map(({ id }) => String(id)), replicaLag: REPLICA_LAG_SECONDS },
    }
    const before = await readCounters()
    const running = users.map((user, i) =>
      i % 2 === 0 ? runReplicaWriter(load, user) : runReader(load, user),
    )
    await work()
    load.isOver = true
    await Promise.all(running)
    printPhase(name, load, before, await readCounters())
  }
}

export async function soakReplicas(t: Owner): Promise<void> {
  console.log('two servers behind haproxy, with Redis, PostgreSQL and a standby that is killed and paused')
  const backends = await startBackends(t)
  const { standby } = backends
  const findings: LoadFindings = {
    ...{ failed: [], overloaded: 0, stale: [], standbyReads: { total: 0, stale: 0 } },
  }

  const runWithoutReplicas = await startServers(t, backends, {})
  await runWithoutReplicas('warm-up', findings, undefined, () => wait(WARM_UP_MS))
  await runWithoutReplicas('without replicas', findings, undefined, () => wait(PHASE_MS))

  const runWithReplica = await startServers(t, backends, {
    DATABASE_REPLICA_URLS: standby.url,
    REPLICA_LAG: String(REPLICA_LAG_SECONDS),
  })
  const standbyDatabase = await openDatabase({ url: standby.url, poolSize: 2 })
  t.teardown(() => standbyDatabase.close())
  const runPhase = (name: string, work: () => Promise<unknown>) =>
    runWithReplica(name, findings, standbyDatabase, work)
  await runPhase('warm-up', () => wait(WARM_UP_MS))
  await runPhase('with the standby', () => wait(PHASE_MS))
  await runPhase('the standby is killed', async () => {
    await wait(PHASE_MS / 4)
    await standby.kill()
    await wait((PHASE_MS * 3) / 4)
  })
  await runPhase('the standby is restarted', async () => {
    await standby.start()
    await wait(PHASE_MS)
  })
  await runPhase('replay is paused', async () => {
    await standbyDatabase.run('select pg_wal_replay_pause()')
    await wait(PHASE_MS)
    await standbyDatabase.run('select pg_wal_replay_resume()')
  })
  await runPhase('replay is resumed', () => wait(PHASE_MS))

  const { failed, overloaded, stale, standbyReads } = findings
  console.log(
    `  ${failed.length} failed, ${overloaded} refused because of overload; ${stale.length} reads lacked an own write` +
      ` (on the standby itself, right after a write: ${standbyReads.stale} of ${standbyReads.total})`,
  )
  printViolations([...failed, ...stale])
}
