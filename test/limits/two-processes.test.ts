/** Two processes on one Redis together let the configured number of requests through; without it, each does. */
import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { ADMIN_KEY, createClient, type Reply, testApp } from '../helpers/app.ts'
import { createSharedDatabase, SERVER } from '../helpers/database.ts'
import { createServerSettings, startServer } from '../helpers/process.ts'
import { createClientFrom, readWindow, sendInSequence } from '../helpers/replies.ts'
import { createClock } from '../helpers/time.ts'

const url = process.env.REDIS_URL
const skip = url ? false : 'needs a Redis: set REDIS_URL'

const AT_ONCE = 50

/** Sends 1,000 requests with limited concurrency. */
async function thousand(ask: (i: number) => Promise<Reply>): Promise<Reply[]> {
  const replies: Reply[] = []
  let next = 0
  const client = async () => {
    while (next < 1_000) replies.push(await ask(next++))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, client))
  return replies
}

const common = {
  TRUST_PROXY: '127.0.0.1',
  ADMIN_API_KEY: ADMIN_KEY,
  LOG_LEVEL: 'warn',
  REDIS_URL: url,
  RATE_LIMIT: '100',
  RATE_LIMIT_ANONYMOUS: '100',
  RATE_LIMIT_WINDOW: '600',
}

/** Two new servers on one Redis, and what they reply to a thousand requests of one address and of one user. */
async function tryTwoServers(t: Test) {
  // An embedded database has one process: there each has its own, and they share the Redis alone.
  const first = await createServerSettings(t)
  const second = SERVER ? first : await createServerSettings(t)
  const servers = await Promise.all([first, second].map((own) => startServer(t, { ...own, ...common })))
  const base = (i: number) => servers[i % 2]?.url ?? ''
  // Of no other test's.
  const address = `2001:db8:${randomBytes(2).toString('hex')}:${randomBytes(2).toString('hex')}::1`
  const anonymous = await thousand((i) => createClientFrom(base(i), address).get('/products'))
  const ofUser = SERVER
    ? await thousand((i) => createClient(base(i), { 'x-api-key': ADMIN_KEY }).get('/products?limit=1'))
    : []
  // A machine that is busy enough has requests refused as overload, or Redis left because it is slow.
  const isDisturbed =
    [...anonymous, ...ofUser].some(({ status }) => status === 503) ||
    servers.some(({ output }) => output.out.includes('the store of the rate limits is unavailable'))
  return { anonymous, ofUser, isDisturbed }
}

t.test('two processes on one Redis together admit exactly the limit', { skip }, async (t) => {
  let tried = await tryTwoServers(t)
  for (let again = 0; tried.isDisturbed && again < 5; again += 1) tried = await tryTwoServers(t)
  const passed = tried.anonymous.filter(({ status }) => status === 401)
  t.equal(passed.length, 100)
  t.equal(tried.anonymous.filter(({ status }) => status === 429).length, 900)
  t.equal(new Set(passed.map((reply) => readWindow(reply).remaining)).size, 100)
  if (!SERVER) return
  t.equal(tried.ofUser.filter(({ status }) => status === 200).length, 100, 'of one user too')
})

t.test('without Redis each process admits the limit, so that two admit twice as much', async (t) => {
  const database = await createSharedDatabase(t)
  const { now } = createClock()
  const settings = {
    TRUST_PROXY: '127.0.0.1',
    RATE_LIMIT: '3',
    RATE_LIMIT_ANONYMOUS: '2',
    LOGIN_FAILURES: '2',
  }
  const apps = [await testApp(t, settings, { database, now }), await testApp(t, settings, { database, now })]
  const ada = await apps[0]?.person('member')
  const base = (i: number) => apps[i % 2]?.base ?? ''
  const countStatuses = async (count: number, send: (i: number) => Promise<Reply>) => {
    const replies = await sendInSequence(count, send)
    return [0, 1].map((app) => replies.filter((_, i) => i % 2 === app).map(({ status }) => status))
  }
  t.same(
    await countStatuses(8, (i) => createClient(base(i), { 'x-api-key': ada?.key ?? '' }).get('/products')),
    Array(2).fill([200, 200, 200, 429]),
    'of one user',
  )
  t.same(
    await countStatuses(6, (i) => createClientFrom(base(i), '203.0.113.1').get('/products')),
    Array(2).fill([401, 401, 429]),
    'of one address',
  )
  const grant = { grant_type: 'password', email: 'unknown@example.com', password: 'wrong horse battery' }
  t.same(
    await countStatuses(6, (i) => createClientFrom(base(i), `203.0.113.${2 + i}`).post('/tokens', grant)),
    Array(2).fill([401, 401, 401]),
    'failures of one account at different addresses have windows of their own',
  )
  t.same(
    await countStatuses(6, (i) => createClientFrom(base(i), '203.0.113.9').post('/tokens', grant)),
    Array(2).fill([401, 401, 429]),
    'failures of one account at one address',
  )
})
