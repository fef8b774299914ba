/** Rate limits of two processes, as replicas run: together they let through what one would. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { ADMIN_KEY, createClient, type Reply } from './helpers/app.ts'
import { SERVER } from './helpers/database.ts'
import { from, toldBy } from './helpers/limits.ts'
import { ownSettings, serve } from './helpers/process.ts'

const url = process.env.REDIS_URL
const skip = url ? false : 'needs a Redis: set REDIS_URL'

const AT_ONCE = 50

/** A thousand requests, so many at once. */
async function thousand(ask: (i: number) => Promise<Reply>): Promise<Reply[]> {
  const replies: Reply[] = []
  let next = 0
  const client = async () => {
    while (next < 1_000) replies.push(await ask(next++))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, client))
  return replies
}

t.test('two processes on one Redis let exactly the limit through', { skip }, async (t) => {
  const common = {
    TRUST_PROXY: '127.0.0.1',
    ADMIN_API_KEY: ADMIN_KEY,
    LOG_LEVEL: 'warn',
    REDIS_URL: url,
    RATE_LIMIT: '100',
    RATE_LIMIT_ANONYMOUS: '100',
    RATE_LIMIT_WINDOW: '600',
  }
  // An embedded database has one process: there each has its own, and they share the Redis alone.
  const first = await ownSettings(t)
  const second = SERVER ? first : await ownSettings(t)
  const servers = await Promise.all([first, second].map((own) => serve(t, { ...own, ...common })))
  // Of no other test's.
  const address = `2001:db8:${randomBytes(2).toString('hex')}:${randomBytes(2).toString('hex')}::1`
  const replies = await thousand((i) => from(servers[i % 2]?.url ?? '', address).get('/products'))
  const passed = replies.filter(({ status }) => status === 401)
  t.equal(passed.length, 100)
  // On a machine that is busy enough, some are refused before they are counted.
  const refused = replies.filter(({ status }) => status === 429 || status === 503)
  t.equal(refused.length, 900)
  t.equal(new Set(passed.map((reply) => toldBy(reply).remaining)).size, 100)
  if (!SERVER) return
  const users = await thousand((i) =>
    createClient(servers[i % 2]?.url ?? '', { 'x-api-key': ADMIN_KEY }).get('/products?limit=1'),
  )
  t.equal(users.filter(({ status }) => status === 200).length, 100, 'of one user too')
})
