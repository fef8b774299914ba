/** Two processes on one Redis together let the configured number of requests through. */
import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { ADMIN_KEY, createClient, type Reply } from '../helpers/app.ts'
import { SERVER } from '../helpers/database.ts'
import { createServerSettings, startServer } from '../helpers/process.ts'
import { createClientFrom, readWindow } from '../helpers/replies.ts'

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
