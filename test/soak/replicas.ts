/**
 * Runs two servers behind haproxy with Redis, a PostgreSQL and a delayed streaming standby, which is killed and paused
 * under load. Reports failures, stale reads and the CPU time of each component.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { readProcessCpu } from '../../bench/cpu.ts'
import { isInstalled } from '../../bench/processes.ts'
import { openDatabase } from '../../drizzle/client/index.ts'
import { createClient } from '../helpers/app.ts'
import { type Owner, testFolder } from '../helpers/database.ts'
import { parseExposition, sumSamples } from '../helpers/exposition.ts'
import { findFreePort } from '../helpers/network.ts'
import { type PrivatePostgres, startPrivatePostgres } from './private-postgres.ts'
import { ReplicaLoad } from './replica-load.ts'
import { formatTimes, printViolations, summarize } from './report.ts'
import { createMember, SkippedError, seedDatabase, startSoakServer } from './server.ts'

/** The number of users that write; as many users only read. */
const WRITERS = 8
const PHASE_MS = 8_000
const REPLICA_LAG_SECONDS = 2
const STANDBY_DELAY_MS = 500
const WARM_UP_MS = 3_000
const METRICS_TOKEN = 'soak-metrics-token-soak-metrics'

function startProgram(t: Owner, command: string, args: string[]): number {
  const child = spawn(command, args, { stdio: 'ignore' })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  return Number(child.pid)
}

/** Starts haproxy, which uses the servers in turn. */
async function startHaproxy(t: Owner, servers: readonly string[]) {
  const port = await findFreePort()
  const file = join(testFolder(t), 'haproxy.cfg')
  const serverLines = servers.map((url, i) => `  server s${i} ${new URL(url).host} check inter 500ms`)
  writeFileSync(
    file,
    `defaults
  mode http
  timeout connect 2s
  timeout client 15s
  timeout server 15s
  timeout http-keep-alive 4s
frontend all
  bind 127.0.0.1:${port}
  default_backend servers
backend servers
  balance roundrobin
  http-reuse safe
  option httpchk GET /readyz
  http-check expect status 200
${serverLines.join('\n')}
`,
  )
  return { url: `http://127.0.0.1:${port}`, pid: startProgram(t, 'haproxy', ['-db', '-f', file]) }
}

interface Backends {
  primary: PrivatePostgres
  standby: PrivatePostgres
  redis: { url: string; pid: number }
}

/** Starts Redis, a seeded primary and its standby. @throws SkippedError if a program is not installed */
async function startBackends(t: Owner): Promise<Backends> {
  for (const name of ['haproxy', 'redis-server']) {
    if (!isInstalled(name)) throw new SkippedError(`${name} is not installed (apt-get install ${name})`)
  }
  const primary = await startPrivatePostgres(t)
  await seedDatabase(t, { DATABASE_URL: primary.url }, 1_000)
  const settings = { recovery_min_apply_delay: `${STANDBY_DELAY_MS}ms` }
  const standby = await startPrivatePostgres(t, { standbyOf: primary.url, settings })
  const port = await findFreePort()
  const pid = startProgram(t, 'redis-server', ['--port', `${port}`, '--bind', '127.0.0.1', '--save', ''])
  return { primary, standby, redis: { url: `redis://127.0.0.1:${port}`, pid } }
}

const COMPONENTS = ['haproxy', 'servers', 'primary', 'standby', 'Redis'] as const

/** Starts two servers behind haproxy. Returns a function that runs the load during one phase. */
async function startServers(
  t: Owner,
  { primary, standby, redis }: Backends,
  load: ReplicaLoad,
  own: NodeJS.ProcessEnv = {},
) {
  const databases = { DATABASE_URL: primary.url, REDIS_URL: redis.url }
  const settings = { LOG_LEVEL: 'warn', METRICS_TOKEN, ...databases, ...own }
  const servers = [await startSoakServer(t, settings), await startSoakServer(t, settings)]
  const urls = servers.map(({ url }) => url)
  const haproxy = await startHaproxy(t, urls)
  const database = await openDatabase({ url: primary.url, poolSize: 2 })
  t.teardown(() => database.close())
  const users = await Promise.all(
    Array.from({ length: 2 * WRITERS }, async () => {
      const { id, headers } = await createMember(database)
      return { id, client: createClient(haproxy.url, headers) }
    }),
  )
  await database.run('analyze')
  while ((await fetch(`${haproxy.url}/readyz`).catch(() => undefined))?.status !== 200) await wait(50)

  /** Returns the CPU time of each component in microseconds, and the reads by database and reason. */
  const readCounters = async () => {
    const expositions = await Promise.all(
      urls.map(async (url) => {
        const client = createClient(url, { authorization: `Bearer ${METRICS_TOKEN}` })
        return parseExposition((await client.get('/metrics')).text)
      }),
    )
    const sum = (name: string, labels = {}) =>
      expositions.reduce((total, families) => total + sumSamples(families, name, labels), 0)
    const countReads = (from: string) => sum('database_reads_total', { from })
    return {
      haproxy: readProcessCpu(haproxy.pid),
      servers: servers.reduce((total, { child }) => total + readProcessCpu(Number(child.pid)), 0),
      primary: primary.readCpu(),
      standby: standby.readCpu(),
      Redis: readProcessCpu(redis.pid),
      ...{ replica: countReads('replica'), afterWrite: countReads('primary_after_write') },
      noReplica: countReads('primary_no_replica'),
      // Statements that failed on the standby and were repeated on the primary.
      fallbacks: sum('database_replica_fallbacks_total'),
    }
  }

  return async (name: string, work: () => Promise<unknown>) => {
    const before = await readCounters()
    await load.run(users, work)
    const after = await readCounters()
    const { times, writes } = load
    const getIncrease = (counter: keyof typeof after) => after[counter] - before[counter]
    const costs = COMPONENTS.map((part) => {
      // The counter of a component that was restarted during the phase began at 0.
      const microseconds = after[part] < before[part] ? after[part] : getIncrease(part)
      return `${part} ${(microseconds / times.length).toFixed(0)}`
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
}

export async function soakReplicas(t: Owner): Promise<void> {
  console.log('two servers behind haproxy, with Redis, PostgreSQL and a standby that is killed and paused')
  const backends = await startBackends(t)
  const { primary, standby } = backends
  const [primaryDatabase, standbyDatabase] = await Promise.all(
    [primary, standby].map(({ url }) => openDatabase({ url, poolSize: 2 })),
  )
  if (!primaryDatabase || !standbyDatabase) throw new Error('A database is missing')
  t.teardown(() => Promise.all([primaryDatabase.close(), standbyDatabase.close()]))
  const products = await primaryDatabase.run(`select id from products where status = 'active' limit 500`)
  const load = new ReplicaLoad(
    products.map(({ id }) => String(id)),
    REPLICA_LAG_SECONDS,
  )

  const runWithoutReplicas = await startServers(t, backends, load)
  await runWithoutReplicas('warm-up', () => wait(WARM_UP_MS))
  await runWithoutReplicas('without replicas', () => wait(PHASE_MS))

  load.standby = standbyDatabase
  const replica = { DATABASE_REPLICA_URLS: standby.url, REPLICA_LAG: String(REPLICA_LAG_SECONDS) }
  const runPhase = await startServers(t, backends, load, replica)
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

  const { failed, overloaded, stale, standbyReads } = load
  console.log(
    `  ${failed.length} failed, ${overloaded} refused because of overload; ${stale.length} reads lacked an own write` +
      ` (on the standby itself, right after a write: ${standbyReads.stale} of ${standbyReads.total})`,
  )
  printViolations([...failed, ...stale])
}
