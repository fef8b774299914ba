/** A user's writes that wait for locks hold at most half of the connections, and end within the lock timeout. */
import t, { type Test } from 'tap'
import { createLink } from '../../../accounts/src/accounts/links.ts'
import { type Client, type Json, type Reply, recordMessages } from '../../../testing/helpers/app.ts'
import { openDatabase, SERVER, testDatabaseUrl } from '../../../testing/helpers/database.ts'
import { createKeyHeader } from '../../../testing/helpers/replies.ts'
import { insertRows } from '../../../testing/helpers/rows.ts'
import { startShows } from '../../../testing/helpers/shows.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'

const skip = SERVER
  ? false
  : 'PGlite has one connection, and no statement of it waits for another: set DATABASE_URL'
const POOL_SIZE = 4

const lockTicket = 'select 1 from lock_tickets where id = $1 for update'
const lockUser = 'select 1 from users where id = $1 for update'

/** Ways in which a write of a ticket waits. */
const writes: Record<string, (client: Client, id: string, show: string) => Promise<Reply>> = {
  'a change': (client, id) => client.patch(`/tickets/${id}`, { note: 'B' }),
  'a change with an Idempotency-Key': (client, id) =>
    client.patch(`/tickets/${id}`, { note: 'B' }, createKeyHeader()),
  'a replacement': (client, id, show) => client.put(`/tickets/${id}`, { show_id: show, note: 'B' }),
  'a change of a reference': (client, id, show) =>
    client.patch(`/tickets/${id}`, { show_id: show, note: 'B' }),
  'a deletion': (client, id) => client.delete(`/tickets/${id}`),
  'a batch': (client, id) =>
    client.post('/batches', {
      operations: [
        { method: 'PATCH', path: `/tickets/${id}`, body: { note: 'B' } },
        { method: 'PATCH', path: '/users/me', body: { name: 'Ada' } },
      ],
    }),
}

t.test('writes that wait for a locked row leave connections to other users', { skip }, async (t) => {
  const { anybody, database, person, countWaiting, holding } = await startShows(t, { poolSize: POOL_SIZE })
  const [ada, bob] = [await person('member'), await person('member')]
  const [show = ''] = await insertRows(database, 'lock_shows', [
    { code: 'a', title: 'A', status: 'open', seats: 10 },
  ])

  const assertServed = async (send: () => Promise<Reply>, lock: string, id: string, length = 12) => {
    const replies = await holding(lock, [id], async () => {
      const sent = Array.from({ length }, send)
      await waitUntil(async () => (await countWaiting()) === POOL_SIZE / 2)
      // Each takes a connection of its own.
      const others = await Promise.all([
        bob.client.get('/shows'),
        bob.client.patch('/users/me', { name: `Bob ${Math.random()}` }),
        bob.client.post('/tickets', { show_id: show, note: 'bought' }),
      ])
      t.same(
        others.map(({ status }) => status),
        [200, 200, 201],
      )
      t.equal(await countWaiting(), POOL_SIZE / 2)
      return sent
    })
    return (await Promise.all(replies)).map(({ status }) => status)
  }

  for (const [name, write] of Object.entries(writes)) {
    await t.test(name, async (t) => {
      const [id = ''] = await insertRows(database, 'lock_tickets', [{ show_id: show, user_id: ada.id }])
      const statuses = await assertServed(() => write(ada.client, id, show), lockTicket, id)
      const expected = name === 'a deletion' ? [204, ...Array(11).fill(404)] : Array(12).fill(200)
      t.same(statuses.sort(), expected)
    })
  }

  await t.test('a creation that refers to the row', async (t) => {
    const send = () => ada.client.post('/tickets', { show_id: show, note: 'bought' })
    t.same(await assertServed(send, lockUser, ada.id), Array(12).fill(201))
  })

  await t.test('a key, for which the caller is locked', async (t) => {
    const send = () => ada.bearer.post('/api-keys', { name: 'A', scopes: ['*'] })
    t.same(await assertServed(send, lockUser, ada.id), Array(12).fill(201))
  })

  await t.test('a request to verify the address', async (t) => {
    const send = () => ada.bearer.post('/email-verifications', {})
    t.same(await assertServed(send, lockUser, ada.id), Array(12).fill(201))
  })

  /** Uses a link ten times, as many as may wait for hashing: the first one is valid, and voids it for the others. */
  const assertLinkServed = async (t: Test, path: string, kind: 'verify' | 'reset', body: Json = {}) => {
    const { email } = (await ada.client.get('/users/me')).body.data
    const subject = kind === 'verify' ? ada.id : email
    const { id, token } = await createLink(database, { kind, subject, email, lifetimeMs: 60_000 })
    const send = () => anybody.patch(`/${path}/${id}`, { token, ...body })
    t.same((await assertServed(send, lockUser, ada.id, 10)).sort(), [200, ...Array(9).fill(403)])
  }

  await t.test('a completed verification', (t) => assertLinkServed(t, 'email-verifications', 'verify'))

  await t.test('a completed reset', (t) =>
    assertLinkServed(t, 'password-resets', 'reset', { password: 'twelve brass cogs, turning' }),
  )
})

t.test('a write waits for a lock no longer than the lock timeout', { skip }, async (t) => {
  const { admin, database, person, holding } = await startShows(t, { lockTimeout: 100 })
  const ada = await person('member')
  const [show = '', other = ''] = await insertRows(database, 'lock_shows', [
    { code: 'a', title: 'A', status: 'open', seats: 10 },
    { code: 'b', title: 'B', status: 'open', seats: 10 },
  ])
  const [id = ''] = await insertRows(database, 'lock_tickets', [{ show_id: show, user_id: ada.id }])

  for (const [name, write] of Object.entries(writes)) {
    await t.test(`${name} of the caller's own row is 409`, async (t) => {
      const reply = await holding(lockTicket, [id], () => write(ada.client, id, other))
      t.match(reply, { status: 409, body: { error: { code: 'RESOURCE_CONFLICT' } } })
      t.match(reply.body.error.message, 'Another request is changing the resource')
      t.equal(reply.headers.get('retry-after'), '1')
    })
    await t.test(`${name} of another row is 503, which is no error of the service`, async (t) => {
      const refused = recordMessages(t, 'resource-api:contention:refused')
      const reply = await holding(lockTicket, [id], () => write(admin, id, other))
      t.match(reply, { status: 503, body: { error: { code: 'SERVICE_UNAVAILABLE' } } })
      t.match(reply.body.error.message, 'Another request has locked a row')
      t.equal(reply.headers.get('retry-after'), '2')
      t.same(refused, [{ reason: 'lock' }])
    })
  }

  await t.test('a row that an action needs is 503', async (t) => {
    const lock = 'select 1 from lock_shows where id = $1 for update'
    const send = () => ada.client.post('/tickets', { show_id: show, note: 'A' })
    t.equal((await holding(lock, [show], send)).status, 503)
    t.equal((await send()).status, 201)
  })
})

t.test('requests have a lock timeout, and migrations and commands have none', { skip }, async (t) => {
  const { url } = await testDatabaseUrl(t)
  for (const [options, expected] of [
    [{}, '1500ms'],
    [{ statementTimeout: 0 }, '0'],
  ] as const) {
    const database = await openDatabase({ url, ...options })
    t.teardown(() => database.close())
    const read = "select current_setting('lock_timeout') as timeout"
    t.same(await database.run(read), [{ timeout: expected }])
    const unlimited = { statementTimeout: 0 }
    t.same(await database.transaction((tx) => tx.run(read), unlimited), [{ timeout: '0' }])
  }
})
