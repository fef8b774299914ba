/** Concurrent requests with the same Idempotency-Key have one effect, in one process and in several. */
import t, { type Test } from 'tap'
import { v7 as uuid } from 'uuid'
import type { AppOverrides } from '../../../../src/app.ts'
import type { PasswordHasher } from '../../../accounts/src/auth/passwords.ts'
import { createDatabase } from '../../../database/src/client/database.ts'
import { type Database, SqlError } from '../../../database/src/client/index.ts'
import {
  type Client,
  quickHasher,
  type Reply,
  recordMessages,
  testApp,
} from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { createOwnedRows } from '../../../testing/helpers/example-rows.ts'
import { createNotesTable, resourcesWithNotes } from '../../../testing/helpers/notes.ts'
import { createKeyHeader, isReplayed, pickReplayedParts } from '../../../testing/helpers/replies.ts'
import { intercept } from '../../../testing/helpers/statements.ts'
import { createDeferred } from '../../../testing/helpers/time.ts'

const database = await createSharedDatabase(t)
const { admin, adminId, person } = await testApp(t, {}, { resources: resourcesWithNotes, database })
await createNotesTable(database)
/** Starts another process on a database. */
const start = (t: Test, overrides: AppOverrides) =>
  testApp(t, {}, { resources: resourcesWithNotes, ...overrides })
const other = await start(t, { database })
const { make } = createOwnedRows(database)
const isServer = database.kind === 'server'

const PASSWORD = 'long enough for it'
const all = (n: number, work: (i: number) => Promise<Reply>) =>
  Promise.all(Array.from({ length: n }, (_, i) => work(i)))

/** Asserts that one of concurrent identical writes was executed, and every other one replayed or rejected with 409. */
function once(t: Test, replies: readonly Reply[]) {
  const done = replies.filter((reply) => reply.status < 300 && !isReplayed(reply))
  t.equal(done.length, 1, 'one was done')
  for (const reply of replies) {
    if (reply.status === 409) {
      t.equal(reply.headers.get('retry-after'), '1')
      t.equal(reply.body.error.code, 'RESOURCE_CONFLICT')
    } else if (done[0]) t.same(pickReplayedParts(reply), pickReplayedParts(done[0]))
  }
}

t.test('of 20 concurrent requests with one key, in one process or two, one is executed', async (t) => {
  for (const clients of [[admin], [admin, other.admin]]) {
    const each = (i: number) => clients[i % clients.length] ?? admin
    for (let round = 0; round < 3; round++) {
      const product_id = await make('products', adminId, { stock: 1000 })
      const getStock = async () => (await admin.get(`/products/${product_id}`)).body.data.stock
      const body = { items: [{ product_id, quantity: 1 }] }
      const header = createKeyHeader()
      const replies = await all(20, (i) => each(i).post('/orders', body, header))
      once(t, replies)
      t.equal(await getStock(), 999)
      const path = `/orders/${replies.find(({ status }) => status === 201)?.body.data.id}`
      once(t, await all(20, (i) => each(i).patch(path, { status: 'cancelled' }, header)))
      t.equal(await getStock(), 1000)
    }
  }
})

/** A database whose transactions stop before a statement like `pattern`, until they are released. */
function holding(pattern: RegExp, to: Database = database) {
  const { promise: released, resolve: release } = createDeferred()
  const { promise: reached, resolve: reach } = createDeferred()
  const held = intercept(to, (text) => {
    if (!pattern.test(text)) return undefined
    reach()
    return released
  })
  return { held, reached, release }
}

/** One that thinks it has every lock that it asks for. */
const blind = ({ $client }: Database) =>
  createDatabase({
    ...$client,
    transaction: (work, limits) =>
      $client.transaction((tx) => {
        const lock = 'select true as is_locked'
        return work({
          ...tx,
          run: (text, params) => (/pg_try_advisory/.test(text) ? tx.run(lock) : tx.run(text, params)),
        })
      }, limits),
  })

const KEEPING = /insert into "idempotency_keys"/
const LOCKING = / for (?:no key )?update$/
const note = { title: 'a', body: 'b' }
const NOTES = '/users/me/notes'

const server = { skip: !isServer && 'PGlite has one connection' }

t.test('concurrent transactions on PostgreSQL', server, async (t) => {
  t.test('the key is a 409 on every replica while the first request runs, and other keys pass', async (t) => {
    const { held, reached, release } = holding(KEEPING)
    const slow = (await start(t, { database: held })).admin
    const header = createKeyHeader()
    const first = slow.post(NOTES, note, header)
    await reached
    for (const client of [slow, admin]) {
      const second = await client.post(NOTES, note, header)
      t.match(second, { status: 409, body: { error: { code: 'RESOURCE_CONFLICT' } } })
      t.equal(second.headers.get('retry-after'), '1')
      // There is no body yet to compare it with.
      t.equal((await client.post(NOTES, { ...note, title: 'c' }, header)).status, 409)
    }
    t.equal((await admin.post(NOTES, note, createKeyHeader())).status, 201)
    release()
    t.equal((await first).status, 201)
    t.same(pickReplayedParts(await admin.post(NOTES, note, header)), pickReplayedParts(await first))
  })

  t.test('a forbidden row is a 403 and a missing one a 404, also while the first request runs', async (t) => {
    const { held, reached, release } = holding(LOCKING)
    const slow = await start(t, { database: held })
    const member = await person('member')
    const id = await make('orders', member.id)
    const header = { ...createKeyHeader(), 'x-api-key': member.key }
    const send = (client: Client) => client.patch(`/orders/${id}`, { note: 'a' }, header)
    const expect = async (status: number) => {
      for (const client of [slow.anybody, member.client]) t.equal((await send(client)).status, status)
    }
    const first = send(slow.anybody)
    await reached
    await expect(409)
    await database.run('update orders set user_id = $1 where id = $2', [adminId, id])
    await expect(403)
    await database.run('delete from orders where id = $1', [id])
    await expect(404)
    release()
    t.equal((await first).status, 404)
  })

  t.test('a record that another process stored despite the lock rolls the write back', async (t) => {
    const { held, reached, release } = holding(KEEPING, blind(database))
    const [slow, fast] = [await start(t, { database: held }), await start(t, { database: blind(database) })]
    const { id, key } = await person('manager')
    const send = ({ anybody }: typeof slow) => anybody.post(`/users/${id}/notes`, note, header)
    const header = { ...createKeyHeader(), 'x-api-key': key }
    const late = send(slow)
    await reached
    const first = await send(fast)
    t.equal(first.status, 201)
    t.notOk(isReplayed(first))
    release()
    t.equal((await late).status, 409)
    t.same(pickReplayedParts(await send(slow)), pickReplayedParts(first))
    t.equal((await database.run('select 1 from notes where user_id = $1', [id])).length, 1)
  })

  t.test('a write of a user who is deleted concurrently is rolled back', async (t) => {
    const { held, reached, release } = holding(KEEPING)
    const slow = await start(t, { database: held })
    const { id, key } = await person('manager')
    const sku = uuid()
    const header = { ...createKeyHeader(), 'x-api-key': key }
    const late = slow.anybody.post('/products', { sku, name: 'Tea', price_amount: 1 }, header)
    await reached
    t.equal((await admin.delete(`/users/${id}`)).status, 204)
    release()
    t.equal((await late).status, 401)
    t.ok((await late).headers.get('www-authenticate'))
    t.equal((await database.run('select 1 from products where sku = $1', [sku])).length, 0)
  })

  t.test('users who change each other do not deadlock', async (t) => {
    let deadlocks = 0
    const watched = createDatabase({
      ...database.$client,
      transaction: (work, limits) =>
        database.$client.transaction(work, limits).catch((error: unknown) => {
          if (error instanceof SqlError && error.code === '40P01') deadlocks += 1
          throw error
        }),
    })
    const { anybody } = await start(t, { database: watched })
    const [one, two] = [await person('admin'), await person('admin')]
    const replies = await all(80, (i) => {
      const [by, whom] = i % 2 === 0 ? [one, two] : [two, one]
      const header = { ...createKeyHeader(), 'x-api-key': by.key }
      return anybody.patch(`/users/${whom.id}`, { name: `Name ${i}` }, header)
    })
    t.ok(replies.every(({ status }) => status === 200))
    t.equal(deadlocks, 0)
  })
})

t.test('a password is hashed once, not for a concurrent request or a replay', async (t) => {
  let hashed = 0
  const { promise: started, resolve: begin } = createDeferred()
  const { promise: finished, resolve: finish } = createDeferred()
  const passwordHasher: PasswordHasher = {
    ...quickHasher,
    async hash(password) {
      hashed += 1
      begin()
      await finished
      return quickHasher.hash(password)
    },
  }
  const { admin } = await start(t, { database, passwordHasher })
  const body = { name: 'N', email: `${uuid()}@example.com`, password: PASSWORD }
  const header = createKeyHeader()
  const first = admin.post('/users', body, header)
  await started
  const messages = recordMessages(t, 'resource-api:idempotency:in-progress')
  const second = await admin.post('/users', body, header)
  t.same(messages, [{}], 'the refusal is published on a channel')
  t.equal(second.status, 409)
  t.equal(second.headers.get('retry-after'), '1')
  finish()
  t.equal((await first).status, 201)
  t.same(pickReplayedParts(await admin.post('/users', body, header)), pickReplayedParts(await first))
  t.equal(hashed, 1)

  const path = `/users/${(await first).body.data.id}`
  const change = { password: 'another that is long' }
  const changed = await admin.patch(path, change, header)
  t.equal(changed.status, 200)
  t.same(pickReplayedParts(await admin.patch(path, change, header)), pickReplayedParts(changed))
  t.equal(hashed, 2)
})

t.test('a change of the own password is replayed, although current_password is wrong by then', async (t) => {
  const body = { name: 'N', email: `${uuid()}@example.com`, password: PASSWORD }
  const { id } = (await admin.post('/users', body)).body.data
  const grant = { grant_type: 'password', email: body.email, password: PASSWORD }
  const token = (await admin.post('/tokens', grant)).body.data.access_token
  const header = { ...createKeyHeader(), authorization: `Bearer ${token}` }
  const change = { password: 'another that is long', current_password: PASSWORD }
  const bearer = other.anybody
  const first = await bearer.patch(`/users/${id}`, change, header)
  t.equal(first.status, 200, first.text)
  t.same(pickReplayedParts(await bearer.patch(`/users/${id}`, change, header)), pickReplayedParts(first))
  const wrong = { ...change, current_password: 'not the right one' }
  t.equal((await bearer.patch(`/users/${id}`, wrong, header)).body.error.code, 'IDEMPOTENCY_KEY_REUSED')
})
