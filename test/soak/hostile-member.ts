/** Sends the most expensive requests that one member may send within the default limits, and measures other users' delays. */
import { readFileSync } from 'node:fs'
import { v7 as uuid } from 'uuid'
import { startFlags } from '../../bench/start-flags.ts'
import { openPostgres } from '../../drizzle/client/server/server.ts'
import type { Database } from '../../drizzle/client/types.ts'
import { createClient } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { startServer } from '../helpers/process.ts'
import { runLoad } from './cpu-affinity.ts'
import { failIf, formatCells } from './report.ts'
import { createAdmin, createDatabaseSettings, createMember, SETTINGS } from './server.ts'

/** Of each attack and of the quiet phase. */
const SECONDS = 60
/** The factor by which the p99 of other users may grow. */
const MAX_SLOWDOWN = 3
const PRODUCT_COUNT = 200_000
const OTHER_USER_COUNT = 10
/** Requests per second of all other users together, and of the attacker. */
const OTHERS_RATE = 40
const ATTACK_RATE = 50
const POST_COUNT = 100
const POST_LENGTH = 100_000
const PASSWORD = 'twelve brass cogs, turning'

interface Member {
  id: string
  email: string
  credential: string
}

const formatRequest = (method: string, path: string, headers: string, body = '') =>
  `${method} /api/v1${path} HTTP/1.1\r\nHost: localhost\r\n${headers}` +
  `${body && `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`}\r\n${body}`

const createRandomText = (length: number) =>
  Array.from({ length }, () => String.fromCharCode(97 + Math.floor(Math.random() * 26))).join('')

async function addMember(database: Database): Promise<Member> {
  const { id, email, key } = await createMember(database)
  return { id, email, credential: `X-API-Key: ${key}\r\n` }
}

async function addPosts(database: Database, { id }: Member, count: number): Promise<string> {
  const body = createRandomText(POST_LENGTH)
  await database.run(
    `insert into posts (id, user_id, title, body, search)
     select gen_random_uuid(), $1, 'Post ' || n, $2, $2 from generate_series(1, ${count}) n`,
    [id, body],
  )
  const [post] = await database.run('select id from posts where user_id = $1 limit 1', [id])
  return String(post?.id)
}

/** Returns the peak resident memory of a process in MiB. */
function readPeakMemory(pid: number | undefined): number {
  const [, kibibytes] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kibibytes) / 1024
}

/** Creates the requests of ordinary users: reads of single resources and first pages, and a few small changes. */
async function createOrdinaryRequests(database: Database, members: readonly Member[]): Promise<string[]> {
  const products = await database.run(`select id from products where status = 'active' limit 10`)
  return members.flatMap(({ credential }) =>
    products.flatMap(({ id }) => {
      const change = JSON.stringify({ name: `Name ${createRandomText(8)}` })
      const paths = [`/products/${id}`, '/products', '/users/me', '/orders?include=user']
      return [
        ...paths.map((path) => formatRequest('GET', path, credential)),
        formatRequest('PATCH', '/users/me', credential, change),
      ]
    }),
  )
}

type CreateAttack = (database: Database, member: Member, base: string) => Promise<string[]>

const attacks: Readonly<Record<string, CreateAttack>> = {
  'search with a total, 200,000 products': async (_database, { credential }) => [
    formatRequest('GET', '/products?search=%E2%98%83&page=1', credential),
  ],
  'title of a post of 100,000 characters': async (database, member) => {
    const id = await addPosts(database, member, 1)
    return Array.from({ length: 200 }, (_, i) => {
      const body = JSON.stringify({ title: `Title ${i}` })
      return formatRequest('PATCH', `/users/me/posts/${id}`, member.credential, body)
    })
  },
  'PATCH {} with a new Idempotency-Key each': async (database, member) => {
    const id = await addPosts(database, member, 1)
    return Array.from({ length: 2_000 }, () => {
      const headers = `${member.credential}Idempotency-Key: ${uuid()}\r\n`
      return formatRequest('PATCH', `/users/me/posts/${id}`, headers, '{}')
    })
  },
  'pages of 100 posts of 100,000 characters': async (database, member) => {
    await addPosts(database, member, POST_COUNT)
    return [formatRequest('GET', '/users/me/posts?limit=100', member.credential)]
  },
  'repeated change of the own password': async (_database, member, base) => {
    await createAdmin(base).patch(`/users/${member.id}`, { password: PASSWORD })
    const grant = { grant_type: 'password', email: member.email, password: PASSWORD }
    const { body, status } = await createClient(base, {}).post('/tokens', grant)
    if (status !== 201) throw new Error(`POST /tokens returned ${status}`)
    const change = JSON.stringify({ password: PASSWORD, current_password: PASSWORD })
    return [
      formatRequest('PATCH', '/users/me', `Authorization: Bearer ${body.data.access_token}\r\n`, change),
    ]
  },
}

/** Runs each attack with a new member, concurrently with ten ordinary users. */
export async function attackAsMember(t: Owner): Promise<void> {
  console.log('one member within the default limits and ten other users, a minute per attack; ms')
  const settings = await createDatabaseSettings(t)
  const { PORT, APP_SECRET, ADMIN_API_KEY } = SETTINGS
  const server = await startServer(
    t,
    { ...settings, PORT, APP_SECRET, ADMIN_API_KEY, LOG_LEVEL: 'warn' },
    'server.js',
    startFlags,
  )
  const database = await openPostgres({ url: settings.DATABASE_URL ?? '', poolSize: 2, statementTimeout: 0 })
  t.teardown(() => database.close())
  await database.run(
    `insert into products (id, sku, name, price_amount, status, search)
     select gen_random_uuid(), 'S-' || n, 'Product ' || n, n % 1000, 'active', 's-' || n || E'\\nproduct ' || n
     from generate_series(1, ${PRODUCT_COUNT}) n`,
  )
  await database.run('vacuum analyze')
  const members = await Promise.all(Array.from({ length: OTHER_USER_COUNT }, () => addMember(database)))
  const ordinary = await createOrdinaryRequests(database, members)
  const port = Number(new URL(server.url).port)
  const load = (requests: readonly string[], rate: number, seconds = SECONDS) =>
    runLoad({ port, requests, rate, seconds, connections: 20 }, false)

  // Warm-up: code that is not yet compiled is slow.
  await load(ordinary, OTHERS_RATE, SECONDS / 2)
  const quiet = (await load(ordinary, OTHERS_RATE)).served
  console.log('  | Other users | responses | p50 | p99 | max | refused | attacker received | peak memory |')
  console.log('  |---|---|---|---|---|---|---|---|')
  console.log(`  | quiet | ${formatCells(quiet)} |  |  |  |`)
  for (const [name, create] of Object.entries(attacks)) {
    const requests = await create(database, await addMember(database), server.url)
    const [others, attacker] = await Promise.all([load(ordinary, OTHERS_RATE), load(requests, ATTACK_RATE)])
    // With 503, 429 or without a response.
    const refused = others.sent - others.served.count
    const statuses = Object.entries(attacker.outcomes).map(
      ([status, { count }]) => `${count} times ${status}`,
    )
    const cells = [refused, statuses.join(', '), `${readPeakMemory(server.child.pid).toFixed(0)} MiB`]
    console.log(`  | ${name} | ${formatCells(others.served)} | ${cells.join(' | ')} |`)
    failIf(others.served.p99 > MAX_SLOWDOWN * quiet.p99 || refused > 0)
  }
}
