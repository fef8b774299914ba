/** Sends the most expensive requests that one member may send within the default limits, and measures other users' delays. */
import { readFileSync } from 'node:fs'
import { v7 as uuid } from 'uuid'
import { startFlags } from '../../bench/start-flags.ts'
import { openPostgres } from '../../drizzle/client/server/server.ts'
import type { Database } from '../../drizzle/client/types.ts'
import { getKeyPrefix, hashKey, makeKey } from '../../plugins/auth/key-format.ts'
import { createClient } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { startServer } from '../helpers/process.ts'
import { runLoad } from './cpu-affinity.ts'
import type { LoadReport, Outcome } from './load-generator.ts'
import type { ServerOptions } from './seeded-server.ts'

export interface HostileMemberOptions extends ServerOptions {
  /** Seconds of each attack and of the quiet phase. */
  seconds: number
}

interface AttackResult {
  name: string
  /** Responses to the other users. */
  others: Outcome
  /** Requests of the other users with 503, 429 or without a response. */
  refused: number
  /** The number of responses to the attacker, by status. */
  attacker: Record<string, number>
  /** The highest resident memory of the server so far, in MiB. */
  peakMemory: number
}

export interface HostileMemberReport {
  quiet: Outcome
  attacks: AttackResult[]
}

const PRODUCT_COUNT = 200_000
const OTHER_USER_COUNT = 10
/** Requests per second of all other users together, and of the attacker. */
const OTHERS_RATE = 40
const ATTACK_RATE = 50
const POST_COUNT = 100
const POST_LENGTH = 100_000
const PASSWORD = 'twelve brass cogs, turning'
const ADMIN_KEY = 'soak-admin-key-soak-admin-key-soak-admin-key'

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

async function addMember(database: Database, name: string): Promise<Member> {
  const [id, key, email] = [uuid(), makeKey(), `${name}@example.com`]
  await database.run('insert into users (id, name, email, search) values ($1, $2, $3, $2)', [id, name, email])
  await database.run(
    `insert into api_keys (id, user_id, name, prefix, key_hash, scopes, expires_at)
     values ($1, $2, 'soak', $3, $4, '["*"]', now() + interval '1 day')`,
    [uuid(), id, getKeyPrefix(key), hashKey(key)],
  )
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
  const products = await database.run(`select id from products where status = 'active' limit 50`)
  return members.flatMap(({ credential }) =>
    products
      .slice(0, 10)
      .flatMap(({ id }) => [
        formatRequest('GET', `/products/${id}`, credential),
        formatRequest('GET', '/products', credential),
        formatRequest('GET', '/users/me', credential),
        formatRequest('GET', '/orders?include=user', credential),
        formatRequest(
          'PATCH',
          '/users/me',
          credential,
          JSON.stringify({ name: `Name ${createRandomText(8)}` }),
        ),
      ]),
  )
}

type CreateAttack = (database: Database, member: Member, base: string) => Promise<string[]>

const attacks: Readonly<Record<string, CreateAttack>> = {
  'search with a total, 200,000 products': async (_database, { credential }) => [
    formatRequest('GET', '/products?search=%E2%98%83&page=1', credential),
  ],
  'title of a post of 100,000 characters': async (database, member) => {
    const id = await addPosts(database, member, 1)
    return Array.from({ length: 200 }, (_, i) =>
      formatRequest(
        'PATCH',
        `/users/me/posts/${id}`,
        member.credential,
        JSON.stringify({ title: `Title ${i}` }),
      ),
    )
  },
  'PATCH {} with a new Idempotency-Key each': async (database, member) => {
    const id = await addPosts(database, member, 1)
    return Array.from({ length: 2_000 }, () =>
      formatRequest(
        'PATCH',
        `/users/me/posts/${id}`,
        `${member.credential}Idempotency-Key: ${uuid()}\r\n`,
        '{}',
      ),
    )
  },
  'pages of 100 posts of 100,000 characters': async (database, member) => {
    await addPosts(database, member, POST_COUNT)
    return [formatRequest('GET', '/users/me/posts?limit=100', member.credential)]
  },
  'repeated change of the own password': async (_database, member, base) => {
    const admin = createClient(base, { 'x-api-key': ADMIN_KEY })
    await admin.patch(`/users/${member.id}`, { password: PASSWORD })
    const grant = { grant_type: 'password', email: member.email, password: PASSWORD }
    const { body, status } = await createClient(base, {}).post('/tokens', grant)
    if (status !== 201) throw new Error(`POST /tokens returned ${status}`)
    const change = JSON.stringify({ password: PASSWORD, current_password: PASSWORD })
    return [
      formatRequest('PATCH', '/users/me', `Authorization: Bearer ${body.data.access_token}\r\n`, change),
    ]
  },
}

const countByStatus = ({ outcomes }: LoadReport) =>
  Object.fromEntries(Object.entries(outcomes).map(([status, { count }]) => [status, count]))

/** Runs each attack with a new member, concurrently with ten ordinary users. */
export async function attackAsMember(t: Owner, options: HostileMemberOptions): Promise<HostileMemberReport> {
  const { settings, file, seconds } = options
  const server = await startServer(
    t,
    { ...settings, PORT: '0', LOG_LEVEL: 'warn', ADMIN_API_KEY: ADMIN_KEY },
    file,
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
  const members = await Promise.all(
    Array.from({ length: OTHER_USER_COUNT }, (_, i) => addMember(database, `other.${i}`)),
  )
  const ordinary = await createOrdinaryRequests(database, members)
  const port = Number(new URL(server.url).port)
  const load = (requests: readonly string[], rate: number, forSeconds: number) =>
    runLoad({ port, requests, rate, seconds: forSeconds, connections: 20 }, false)

  // Warm-up: code that is not yet compiled is slow.
  await load(ordinary, OTHERS_RATE, seconds / 2)
  const quiet = (await load(ordinary, OTHERS_RATE, seconds)).served
  const report: HostileMemberReport = { quiet, attacks: [] }
  for (const [i, [name, create]] of Object.entries(attacks).entries()) {
    const requests = await create(database, await addMember(database, `attacker.${i}`), server.url)
    const [others, attacker] = await Promise.all([
      load(ordinary, OTHERS_RATE, seconds),
      load(requests, ATTACK_RATE, seconds),
    ])
    report.attacks.push({
      name,
      others: others.served,
      refused: others.sent - others.served.count,
      attacker: countByStatus(attacker),
      peakMemory: readPeakMemory(server.child.pid),
    })
  }
  return report
}
