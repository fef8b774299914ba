/**
 * `npm run bench:relations`: compares the CPU of lists and reads by a rule over two relations with that by an own column, on
 * a million rows of 10,000 organizations. Each rule has a server of its own, in turns. Needs DATABASE_URL of a PostgreSQL on
 * this machine, whose processes it finds by that of a connection.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { CALLER } from '../packages/api/src/rules/rules.ts'
import { type Database, openDatabase } from '../packages/database/src/client/index.ts'
import { readConfig } from '../packages/http/src/config/read-config.ts'
import { APP_SECRET, insertUser } from '../packages/testing/helpers/app.ts'
import { createOrganizations, organizationResources } from '../packages/testing/helpers/organizations.ts'
import { WITHOUT_LIMITS } from '../packages/testing/helpers/process.ts'
import { fillProjects } from '../packages/testing/helpers/project-rows.ts'
import { withChanges } from '../packages/testing/helpers/serve.ts'
import { buildApp } from '../src/app.ts'
import { resources } from '../src/resources.ts'
import { readProcessCpu, readProcessTreeCpu } from './cpu.ts'
import { type Figure, printFigures } from './goals.ts'
import { computeSpread } from './statistics.ts'

const ROWS = 1_000_000
const ORGANIZATIONS = 10_000
const ROUNDS = 8
const REQUESTS = 1_000
const CONCURRENCY = 4
const kinds = ['relation', 'column'] as const
type Kind = (typeof kinds)[number]

/** Serves projects by the rule of a kind, until the parent ends. */
async function serve(kind: string): Promise<void> {
  const ofLead = [{ lead_id: CALLER }] as const
  const ofColumn = { list: { member: ofLead }, read: { member: ofLead } }
  const definitions = organizationResources.map((each) =>
    kind === 'column' && each.collection.name === 'projects'
      ? withChanges(each, { access: { ...each.collection.access, ...ofColumn } })
      : each,
  )
  const config = readConfig()
  const database = await openDatabase({ url: config.DATABASE_URL ?? '', schema: config.DATABASE_SCHEMA })
  const app = await buildApp(config, { database, resources: [...resources, ...definitions] })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  process.send?.(url)
}

/** Fills the tables: the caller leads the projects that are seen by a membership, and no others. @returns their key */
async function fill(database: Database): Promise<string> {
  const { id, key } = await insertUser(database, 'member', ['*'])
  await fillProjects(database, { rows: ROWS, organizations: ORGANIZATIONS, userId: id })
  await database.run(
    `update path_projects set lead_id = $1 where organization_id in
       (select organization_id from path_memberships where user_id = $1)`,
    [id],
  )
  await database.run('analyze path_projects')
  return key
}

async function start(kind: Kind, env: NodeJS.ProcessEnv) {
  const flags = ['--max-semi-space-size=32', '--no-allocation-site-pretenuring']
  const execArgv = [...process.execArgv, ...flags]
  const child = fork(fileURLToPath(import.meta.url), [kind], { env, execArgv })
  const [url] = await once(child, 'message')
  return { child, url: String(url), pid: Number(child.pid) }
}

const agent = new Agent({ keepAlive: true, maxSockets: CONCURRENCY })

async function get(url: string, key: string): Promise<{ data: { id: string }[] }> {
  const sent = request(url, { agent, headers: { 'x-api-key': key } })
  sent.end()
  const [response] = await once(sent, 'response')
  const text = String(await buffer(response))
  if (response.statusCode !== 200) throw new Error(`${url}: ${text}`)
  return JSON.parse(text)
}

/** Calls `work` REQUESTS times, CONCURRENCY at the same time. */
async function repeat(work: (n: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const workers = Array.from({ length: CONCURRENCY }, async () => {
    while (next < REQUESTS) await work(next++)
  })
  await Promise.all(workers)
}

/** Returns the process of PostgreSQL whose children are the connections. */
async function findPostmaster(database: Database): Promise<number> {
  const [row] = await database.run('select pg_backend_pid() as pid')
  return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${row?.pid}/status`, 'utf8'))?.[1])
}

async function measure(): Promise<void> {
  const teardowns: (() => unknown)[] = []
  const { database } = await createOrganizations({ teardown: (work) => void teardowns.unshift(work) })
  const children: { kill(): boolean }[] = []
  try {
    const key = await fill(database)
    const postmaster = await findPostmaster(database)
    const [row] = await database.run('select current_database() as name')
    const url = new URL(process.env.DATABASE_URL ?? '')
    url.pathname = `/${row?.name}`
    const settings = {
      ...WITHOUT_LIMITS,
      APP_SECRET,
      NODE_ENV: 'test',
      LOG_LEVEL: 'silent',
      MIGRATE: 'false',
    }
    const env = { ...process.env, ...settings, DATABASE_URL: url.href }
    const servers = { relation: await start('relation', env), column: await start('column', env) }
    children.push(servers.relation.child, servers.column.child)
    const { data } = await get(`${servers.relation.url}/projects`, key)
    const kindsOfRequests = [
      { name: 'List of 20', goal: 1.5, getPath: () => '/projects' },
      { name: 'By id', goal: 1.3, getPath: (n: number) => `/projects/${data[n % data.length]?.id}` },
    ]
    const figures: Figure[] = []
    for (const { name, goal, getPath } of kindsOfRequests) {
      const run = async (kind: Kind) => {
        const before = readProcessCpu(servers[kind].pid) + readProcessTreeCpu(postmaster)
        await repeat((n) => get(`${servers[kind].url}${getPath(n)}`, key))
        const after = readProcessCpu(servers[kind].pid) + readProcessTreeCpu(postmaster)
        return (after - before) / REQUESTS
      }
      for (const kind of kinds) await run(kind)
      const rounds: (Record<Kind, number> & { ratio: number })[] = []
      for (let i = 0; i < ROUNDS; i += 1) {
        const [relation, column] = [await run('relation'), await run('column')]
        rounds.push({ relation, column, ratio: relation / column })
      }
      const { median, min, max } = computeSpread(rounds.map(({ ratio }) => ratio))
      const format = (kind: Kind) => `${computeSpread(rounds.map((each) => each[kind])).median.toFixed()} µs`
      figures.push({
        name,
        value: `${format('relation')} by relations, ${format('column')} by a column, ${median.toFixed(2)} (${min.toFixed(2)} to ${max.toFixed(2)})`,
        goal: [`at most ${goal}`, median <= goal],
      })
    }
    if (!printFigures('CPU of server and PostgreSQL per request', figures)) process.exitCode = 1
  } finally {
    for (const child of children) child.kill()
    agent.destroy()
    for (const work of teardowns) await work()
  }
}

const [, , served] = process.argv
await (served === undefined ? measure() : serve(served))
