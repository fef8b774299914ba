/** What an import takes from others is limited: the only connection of the embedded database, and the time of its user. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import { SERVER, testDatabase } from '../../../testing/helpers/database.ts'
import { NDJSON } from '../../../testing/helpers/imports.ts'
import { intercept } from '../../../testing/helpers/statements.ts'
import { stopClock, waitUntil } from '../../../testing/helpers/time.ts'

/** That of a server. */
const ACQUIRE_TIMEOUT_MS = 2_000
/** After which an import ends: another request may wait for longer. */
const BLOCKING_MS = 1_300

const skip = SERVER ? 'a server has other connections' : false

t.test(
  'an import for which another request waits too long is 413, and writes nothing',
  { skip },
  async (t) => {
    const opened = await testDatabase(t, ACQUIRE_TIMEOUT_MS)
    let isBlocking = true
    const database = intercept(opened, async (text) => {
      if (!isBlocking || !text.includes('insert into "posts"')) return
      await waitUntil(async () => opened.getLoad().waiting > 0)
      await wait(BLOCKING_MS)
    })
    const { person } = await testApp(t, {}, { database })
    const [{ client }, other] = [await person('member'), await person('member')]
    const body = '{"title":"A","body":"B"}\n'
    const send = (query = '') => client.call('POST', `/users/me/posts${query}`, { headers: NDJSON, body })
    for (const query of ['', '?dry_run=true']) {
      const sent = send(query)
      await waitUntil(async () => opened.getLoad().used > 0)
      const read = await other.client.get('/users/me')
      t.equal(read.status, 200, read.text)
      const { status, body: reply } = await sent
      t.match([status, reply.error.code], [413, 'PAYLOAD_TOO_LARGE'])
      t.match(reply.error.message, /Other requests waited too long .* send fewer/)
    }
    t.same(await database.run('select count(*)::int4 as count from posts'), [{ count: 0 }])
    isBlocking = false
    t.equal((await send()).status, 200)
  },
)

t.test('the time for which an import had the connection is not expected of others', { skip }, async (t) => {
  const { run, transaction, estimateWait } = (await testDatabase(t, ACQUIRE_TIMEOUT_MS)).$client
  const clock = stopClock(t)
  const estimates: number[] = []
  const read = async (count: number) => {
    await Promise.all(
      Array.from({ length: count }, () => run('select 1').then(() => estimates.push(estimateWait()))),
    )
  }
  // Fewer are no measure of the pace.
  await read(12)
  let waiting: Promise<void> | undefined
  const held = transaction(
    async (tx) => {
      waiting = read(20)
      clock.pass(BLOCKING_MS)
      await tx.run('select 1')
    },
    { isYielding: true },
  )
  await t.rejects(held, { message: 'A transaction kept another caller waiting for too long' })
  await waiting
  t.strictSame(estimates, Array(32).fill(0))
})

t.test('an import counts in the rate limit with the time that it takes, also without a result', async (t) => {
  let isSlow = false
  const database = intercept(await testDatabase(t), (text) =>
    isSlow && text.includes('insert into "posts"') ? wait(1_000) : undefined,
  )
  const { person } = await testApp(t, { RATE_LIMIT: '600', RATE_LIMIT_BURST: '600' }, { database })
  const { client } = await person('member')
  const send = async (title: string) => {
    const sent = { headers: NDJSON, body: `{"title":"${title}","body":"B"}\n` }
    await client.call('POST', '/users/me/posts?dry_run=true', sent)
    return Number((await client.get('/users/me')).headers.get('x-ratelimit-remaining'))
  }
  const before = await send('A')
  isSlow = true
  const after = await send('A')
  // Ten for the second, and two for the requests.
  t.ok(before - after > 10, `${before}, ${after}`)
})
