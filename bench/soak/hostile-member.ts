/** Sends the most expensive requests that one member may send within the default limits, and measures other users' delays. */
import { readFileSync } from 'node:fs'
import { v7 as uuid } from 'uuid'
import { openPostgres } from '../../packages/database/src/client/server/server.ts'
import type { Database } from '../../packages/database/src/client/types.ts'
import { ADMIN_KEY, type Client, createClient } from '../../packages/testing/helpers/app.ts'
import type { Owner } from '../../packages/testing/helpers/database.ts'
import { startServer } from '../../packages/testing/helpers/process.ts'
import { startFlags } from '../start-flags.ts'
import { type Attack, importAttacks } from './import-attacks.ts'
import { createRequest, type LoadRequest, runLoad } from './load.ts'
import { lockAttacks } from './lock-attacks.ts'
import { formatCells, printViolations } from './report.ts'
import { createDatabaseSettings, createMember, SETTINGS, signIn } from './server.ts'

/** Of each attack and of the quiet phase: about as long as the attacker is within the rate limit. */
const SECONDS = 10
/** Milliseconds of the p99 of other users. */
const MAX_DELAY_MS = 2_000
const PRODUCT_COUNT = 200_000
const OTHER_USER_COUNT = 10
/** Requests per second of all other users together, and of the attacker. */
const OTHERS_RATE = 40
const ATTACK_RATE = 50
const POST_COUNT = 100
const POST_LENGTH = 100_000

type Member = Awaited<ReturnType<typeof createMember>>

const createRandomText = (length: number) =>
  Array.from({ length }, () => String.fromCharCode(97 + Math.floor(Math.random() * 26))).join('')

async function addPosts(database: Database, { id }: Member, count: number): Promise<string> {
  const [post] = await database.run(
    `insert into posts (id, user_id, title, body, search)
     select gen_random_uuid(), $1, 'Post ' || n, $2, $2 from generate_series(1, ${count}) n returning id`,
    [id, createRandomText(POST_LENGTH)],
  )
  return String(post?.id)
}

/** Returns the peak resident memory of a process in MiB. */
function readPeakMemory(pid: number | undefined): string {
  const [, kibibytes] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return `${(Number(kibibytes) / 1024).toFixed(0)} MiB`
}

/** Creates the requests of ordinary users: reads of single resources and first pages, and a few small changes. */
async function createOrdinaryRequests(database: Database): Promise<LoadRequest[]> {
  const members = await Promise.all(Array.from({ length: OTHER_USER_COUNT }, () => createMember(database)))
  const products = await database.run(`select id from products where status = 'active' limit 10`)
  return members.flatMap(({ headers }) =>
    products.flatMap(({ id }) => [
      ...[`/products/${id}`, '/products', '/users/me', '/orders?include=user'].map((path) =>
        createRequest('GET', path, { headers }),
      ),
      createRequest('PATCH', '/users/me', { headers, body: { name: `Name ${createRandomText(8)}` } }),
    ]),
  )
}

type Server = { url: string; admin: Client }
/** Creates requests, one of which is sent at a time, or a function that sends others. */
type CreateAttack = (database: Database, member: Member, server: Server) => Promise<LoadRequest[] | Attack>

/** In addition to the time of an attack, in which a lock is held. */
const EXTRA_SECONDS = 5

const attacks: Readonly<Record<string, CreateAttack>> = {
  'search with a total, 200,000 products': async (_database, { headers }) => [
    createRequest('GET', '/products?search=%E2%98%83&page=1', { headers }),
  ],
  'title of a post of 100,000 characters': async (database, member) => {
    const path = `/users/me/posts/${await addPosts(database, member, 1)}`
    return Array.from({ length: 200 }, (_, i) =>
      createRequest('PATCH', path, { headers: member.headers, body: { title: `Title ${i}` } }),
    )
  },
  'PATCH {} with a new Idempotency-Key each': async (database, member) => {
    const path = `/users/me/posts/${await addPosts(database, member, 1)}`
    return Array.from({ length: 2_000 }, () =>
      createRequest('PATCH', path, { headers: { ...member.headers, 'idempotency-key': uuid() }, body: {} }),
    )
  },
  'pages of 100 posts of 100,000 characters': async (database, member) => {
    await addPosts(database, member, POST_COUNT)
    return [createRequest('GET', '/users/me/posts?limit=100', { headers: member.headers })]
  },
  'repeated change of the own password': async (_database, { id }, server) => {
    const { password, headers } = await signIn(server.url, server.admin, id)
    const body = { password, current_password: password }
    return [createRequest('PATCH', '/users/me', { headers, body })]
  },
  ...Object.fromEntries(
    Object.entries(lockAttacks).map(([name, create]): [string, CreateAttack] => [
      name,
      (database, member) => create(database, member, SECONDS + EXTRA_SECONDS),
    ]),
  ),
  ...importAttacks,
}

/** Runs each attack with a new member, concurrently with ten ordinary users. */
export async function attackAsMember(t: Owner): Promise<void> {
  console.log(`one member within the default limits and ten other users, ${SECONDS} s per attack; ms`)
  const settings = await createDatabaseSettings(t)
  const limited = { ...SETTINGS, ...settings, LOG_LEVEL: 'warn' }
  const server = await startServer(t, limited, 'server.ts', startFlags)
  const admin = createClient(server.url, { 'x-api-key': ADMIN_KEY })
  const database = await openPostgres({ url: settings.DATABASE_URL ?? '', poolSize: 2, statementTimeout: 0 })
  t.teardown(() => database.close())
  await database.run(
    `insert into products (id, sku, name, price_amount, status, search)
     select gen_random_uuid(), 'S-' || n, 'Product ' || n, n % 1000, 'active', 's-' || n || E'\\nproduct ' || n
     from generate_series(1, ${PRODUCT_COUNT}) n`,
  )
  await database.run('vacuum analyze')
  const ordinary = await createOrdinaryRequests(database)
  const port = Number(new URL(server.url).port)
  const load = (requests: readonly LoadRequest[], rate: number, seconds = SECONDS) =>
    runLoad({ port, requests, rate, seconds })
  const sendRequests = async (requests: readonly LoadRequest[]) => {
    const { outcomes } = await load(requests, ATTACK_RATE)
    return Object.fromEntries(Object.entries(outcomes).map(([status, { count }]) => [status, count]))
  }

  // Warm-up: code that is not yet compiled is slow.
  await load(ordinary, OTHERS_RATE)
  const quiet = (await load(ordinary, OTHERS_RATE)).served
  console.log('  | Other users | responses | p50 | p99 | max | refused | attacker received | peak memory |')
  console.log('  |---|---|---|---|---|---|---|---|')
  console.log(`  | quiet | ${formatCells(quiet)} |  |  |  |`)
  const violations: string[] = []
  for (const [name, create] of Object.entries(attacks)) {
    const attack = await create(database, await createMember(database), { url: server.url, admin })
    const [others, outcomes] = await Promise.all([
      load(ordinary, OTHERS_RATE),
      Array.isArray(attack) ? sendRequests(attack) : attack(server.url, SECONDS),
    ])
    // With 503, 429 or without a response.
    const refused = others.sent - others.served.count
    const statuses = Object.entries(outcomes).map(([status, count]) => `${count} times ${status}`)
    const cells = [refused, statuses.join(', '), readPeakMemory(server.child.pid)]
    console.log(`  | ${name} | ${formatCells(others.served)} | ${cells.join(' | ')} |`)
    if (others.served.p99 > MAX_DELAY_MS) violations.push(`${name}: a p99 of more than ${MAX_DELAY_MS} ms`)
    if (refused > 0) violations.push(`${name}: ${refused} requests of others were not served`)
  }
  printViolations(violations)
}
