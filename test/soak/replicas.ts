/**
 * Two servers behind haproxy, with a Redis, a PostgreSQL and a streaming standby that is always half a second behind,
 * killed and paused amid the load: whether anything fails, whether anybody misses what they wrote, what each part costs.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { v7 as uuid } from 'uuid'
import { type Database, openDatabase } from '../../drizzle/client/index.ts'
import { getKeyPrefix, hashKey, makeKey } from '../../plugins/auth/key-format.ts'
import { type Client, createClient, type Reply } from '../helpers/app.ts'
import { type Owner, testFolder } from '../helpers/database.ts'
import { parseExposition, sumSamples } from '../helpers/exposition.ts'
import { findFreePort } from '../helpers/listen.ts'
import { type RunningProcess, startModule, startServer } from '../helpers/process.ts'
import { WITHOUT_LIMITS } from '../helpers/without-limits.ts'
import { processorTime } from './pinned.ts'
import { type PrivateServer, privateServer } from './postgres.ts'

export interface ReplicasOptions {
  file: string
  /** So many who write now and then, and as many who only read. */
  writers: number
  /** Seconds of each phase. */
  phase: number
  onPhase: (phase: Phase) => void
}

type Part = 'haproxy' | 'servers' | 'primary' | 'standby' | 'Redis'

/** What was seen while one thing was so. */
export interface Phase {
  name: string
  requests: number
  writes: number
  /** Processor time per request, in microseconds. */
  costs: Record<Part, number>
  /** Requests that read, by where from. */
  reads: { replica: number; afterWrite: number; noReplica: number }
  fallbacks: number
  /** Milliseconds. */
  p50: number
  p99: number
  max: number
}

export interface ReplicasReport {
  version: string
  failed: string[]
  /** Requests refused because a busy machine stopped a server for longer than its loop may be late: no fault of a part. */
  overloaded: number
  /** Reads of a writer that lacked what they had written. */
  stale: string[]
  /** How many of the same reads the standby itself would have answered so. */
  naive: { asked: number; stale: number }
}

/** Seconds; milliseconds. */
const LAG = 2
const BEHIND = 500
const TOKEN = 'soak-metrics-token-soak-metrics'
const SETTINGS = {
  ...WITHOUT_LIMITS,
  PORT: '0',
  LOG_LEVEL: 'warn',
  APP_SECRET: 'soak-secret-soak-secret-soak-secret-soak',
  ADMIN_API_KEY: 'soak-admin-key-soak-admin-key-soak-admin-key',
  METRICS_TOKEN: TOKEN,
}

/** What of the machine is missing; undefined where nothing is. */
export function missing(): string | undefined {
  return ['haproxy', 'redis-server'].find((name) => {
    try {
      execFileSync(name, ['--version'], { stdio: 'ignore' })
      return false
    } catch (error) {
      return error instanceof Error && 'code' in error && error.code === 'ENOENT'
    }
  })
}

function start(t: Owner, command: string, args: string[]): ChildProcess {
  const child = spawn(command, args, { stdio: 'ignore' })
  const ended = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return child
}

async function startBalancer(t: Owner, servers: readonly string[]) {
  const port = await findFreePort()
  const file = join(testFolder(t), 'haproxy.cfg')
  const lines = servers.map((url, i) => `  server s${i} ${new URL(url).host} check inter 500ms`)
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
${lines.join('\n')}
`,
  )
  const { pid } = start(t, 'haproxy', ['-db', '-f', file])
  return { url: `http://127.0.0.1:${port}`, pid }
}

interface Person {
  id: string
  client: Client
}

async function makePerson(database: Database, base: string): Promise<Person> {
  const id = uuid()
  const key = makeKey()
  await database.run(`insert into users (id, name, email, search) values ($1, '0', $2, '0')`, [
    id,
    `${id}@example.com`,
  ])
  await database.run(
    `insert into api_keys (id, user_id, name, prefix, key_hash, scopes, expires_at)
     values ($1, $2, 'soak', $3, $4, '["*"]', now() + interval '1 day')`,
    [uuid(), id, getKeyPrefix(key), hashKey(key)],
  )
  return { id, client: createClient(base, { 'x-api-key': key }) }
}

interface Load {
  report: ReplicasReport
  times: number[]
  writes: number
  isOver: boolean
  standby: Database | undefined
  products: readonly string[]
}

/** Counts the request; whatever is not as it should be is a failure. */
async function ask(load: Load, what: string, expected: number, send: () => Promise<Reply>) {
  const began = performance.now()
  try {
    const reply = await send()
    load.times.push(performance.now() - began)
    if (reply.status === expected) return reply
    if (reply.body?.error?.message === 'The service is overloaded') {
      load.report.overloaded += 1
      return undefined
    }
    load.report.failed.push(`${what} is ${reply.status}: ${reply.text.slice(0, 200)}`)
  } catch (error) {
    load.report.failed.push(`${what}: ${error}`)
  }
  return undefined
}

async function readSomething(load: Load, client: Client) {
  const id = load.products[Math.floor(Math.random() * load.products.length)]
  const paths = [`/products/${id}`, `/products/${id}`, '/products', '/products?search=steel&limit=5']
  const path = paths[Math.floor(Math.random() * paths.length)] ?? ''
  await ask(load, path, 200, () => client.get(path))
}

async function only(load: Load, { client }: Person) {
  while (!load.isOver) await readSomething(load, client)
}

/** Whether the standby itself lacks the name: how often a read sent there blindly would have been stale. */
async function askStandby({ report, standby }: Load, { id }: Person, name: string) {
  try {
    const rows = await standby?.run('select name from users where id = $1', [id])
    if (!rows) return
    report.naive.asked += 1
    if (rows[0]?.name !== name) report.naive.stale += 1
  } catch {
    // It is away.
  }
}

/** Writes, then reads what was written again and again, for longer than reads follow a write. */
async function writing(load: Load, person: Person) {
  const { id, client } = person
  const { report } = load
  for (let i = 1; !load.isOver; i++) {
    const name = String(i)
    const patched = await ask(load, 'PATCH', 200, () => client.patch(`/users/${id}`, { name }))
    const posted = await ask(load, 'POST', 201, () =>
      client.post('/users/me/posts', { title: name, body: 'soaked' }),
    )
    load.writes += 2
    if (!patched || !posted) continue
    void askStandby(load, person, name)
    const written = performance.now()
    const until = written + (0.2 + Math.random() * 1.6) * LAG * 1000
    while (!load.isOver && performance.now() < until) {
      const after = () => `${(performance.now() - written).toFixed()} ms after the write`
      const own = await ask(load, 'GET own', 200, () => client.get(`/users/${id}?fields=name`))
      if (own && own.body.data.name !== name) report.stale.push(`name ${own.body.data.name}, ${after()}`)
      const list = await ask(load, 'GET posts', 200, () => client.get('/users/me/posts?limit=1'))
      if (list && list.body.data[0]?.title !== name) report.stale.push(`posts, ${after()}`)
      await readSomething(load, client)
    }
  }
}

async function countsOf(servers: readonly RunningProcess[], urls: readonly string[]) {
  const dead = servers.find(({ child }) => child.exitCode !== null || child.signalCode !== null)
  if (dead) throw new Error(`a server has ended: ${dead.output.err}${dead.output.out.slice(-2_000)}`)
  const all = await Promise.all(
    urls.map(async (url) => {
      const client = createClient(url, { authorization: `Bearer ${TOKEN}` })
      return parseExposition((await client.get('/metrics')).text)
    }),
  )
  const sum = (name: string, labels = {}) =>
    all.reduce((total, families) => total + (families.has(name) ? sumSamples(families, name, labels) : 0), 0)
  const from = (from: string) => sum('database_reads_total', { from })
  return {
    reads: {
      replica: from('replica'),
      afterWrite: from('primary_after_write'),
      noReplica: from('primary_no_replica'),
    },
    fallbacks: sum('database_replica_fallbacks_total'),
    servers: servers.reduce((total, { child }) => total + processorTime(child.pid), 0),
  }
}

interface Backends {
  primary: PrivateServer
  standby: PrivateServer
  redis: { url: string; pid: number | undefined }
}

/** Two servers behind a balancer of their own, and a load that begins with the first phase. */
async function openReplicas(
  t: Owner,
  backends: Backends,
  options: ReplicasOptions,
  settings: NodeJS.ProcessEnv,
) {
  const { primary, standby, redis } = backends
  const all = { ...SETTINGS, DATABASE_URL: primary.url, REDIS_URL: redis.url, ...settings }
  const servers = [await startServer(t, all, options.file), await startServer(t, all, options.file)]
  const urls = servers.map(({ url }) => url)
  const balancer = await startBalancer(t, urls)
  const database = await openDatabase({ url: primary.url, poolSize: 2 })
  t.teardown(() => database.close())
  const people = await Promise.all(
    Array.from({ length: 2 * options.writers }, () => makePerson(database, balancer.url)),
  )
  await database.run('analyze')
  while ((await fetch(`${balancer.url}/readyz`).catch(() => undefined))?.status !== 200) await wait(50)
  const products = (await database.run(`select id from products where status = 'active' limit 500`)).map(
    ({ id }) => String(id),
  )

  const look = async () => ({
    ...(await countsOf(servers, urls)),
    haproxy: processorTime(balancer.pid),
    primary: primary.processorTime(),
    standby: standby.processorTime(),
    Redis: processorTime(redis.pid),
  })

  return {
    /** Runs the load while `work` lasts, and returns its report. */
    async phase(
      name: string,
      report: ReplicasReport,
      direct: Database | undefined,
      work: () => Promise<void>,
    ) {
      const load: Load = { report, times: [], writes: 0, isOver: false, standby: direct, products }
      const before = await look()
      const loads = people.map((person, i) => (i % 2 === 0 ? writing(load, person) : only(load, person)))
      await work()
      load.isOver = true
      await Promise.all(loads)
      const after = await look()
      const requests = load.times.length
      const sorted = Float64Array.from(load.times).sort()
      const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN
      // The counters of a restarted process began at 0.
      const cost = (part: Part) =>
        ((after[part] < before[part] ? after[part] : after[part] - before[part]) * 1e6) / requests
      const reads = (from: keyof Phase['reads']) => after.reads[from] - before.reads[from]
      options.onPhase({
        name,
        requests,
        writes: load.writes,
        costs: {
          haproxy: cost('haproxy'),
          servers: cost('servers'),
          primary: cost('primary'),
          standby: cost('standby'),
          Redis: cost('Redis'),
        },
        reads: {
          replica: reads('replica'),
          afterWrite: reads('afterWrite'),
          noReplica: reads('noReplica'),
        },
        fallbacks: after.fallbacks - before.fallbacks,
        ...{ p50: at(0.5), p99: at(0.99), max: at(1) },
      })
    },
  }
}

/** Undefined where no PostgreSQL is installed. */
export async function standbySoak(t: Owner, options: ReplicasOptions): Promise<ReplicasReport | undefined> {
  const primary = await privateServer(t)
  if (!primary) return undefined
  const seeded = startModule(t, 'cli.js', { DATABASE_URL: primary.url }, ['seed', '--users', '1000'])
  const { code } = await seeded.ended
  if (code !== 0) throw new Error(`seed: ${seeded.output.err}`)
  const standby = await privateServer(t, {
    standbyOf: primary.url,
    settings: { recovery_min_apply_delay: `${BEHIND}ms` },
  })
  if (!standby) return undefined
  const port = await findFreePort()
  const { pid } = start(t, 'redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--save', ''])
  const backends = { primary, standby, redis: { url: `redis://127.0.0.1:${port}`, pid } }
  const report: ReplicasReport = {
    version: primary.version,
    failed: [],
    overloaded: 0,
    stale: [],
    naive: { asked: 0, stale: 0 },
  }
  const time = options.phase * 1000

  const alone = await openReplicas(t, backends, options, {})
  await alone.phase('to warm up', report, undefined, () => wait(3_000))
  await alone.phase('without replicas', report, undefined, () => wait(time))

  const both = await openReplicas(t, backends, options, {
    DATABASE_REPLICA_URLS: standby.url,
    REPLICA_LAG: String(LAG),
  })
  const direct = await openDatabase({ url: standby.url, poolSize: 2 })
  t.teardown(() => direct.close())
  const phase = (name: string, work: () => Promise<unknown>) =>
    both.phase(name, report, direct, async () => {
      await work()
    })
  await phase('to warm up', () => wait(LAG * 1_500))
  await phase('with the standby', () => wait(time))
  await phase('the standby is killed', async () => {
    await wait(time / 4)
    await standby.kill()
    await wait((time * 3) / 4)
  })
  await phase('it is started again', async () => {
    await standby.start()
    await wait(time)
  })
  await phase('it replays nothing', async () => {
    await direct.run('select pg_wal_replay_pause()')
    await wait(time)
    await direct.run('select pg_wal_replay_resume()')
  })
  await phase('and goes on', () => wait(time))
  return report
}
