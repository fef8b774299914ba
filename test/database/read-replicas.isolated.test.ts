/**
 * Reads go to replicas where that is safe, writers see their own writes, and no replica fault reaches a
 * client.
 */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { v7 as uuid } from 'uuid'
import { createRecentWriters } from '../../drizzle/client/replicas/recent-writers.ts'
import { createWalHistory } from '../../drizzle/client/replicas/wal-position.ts'
import { DEFAULT_SCHEMA } from '../../drizzle/client/schema.ts'
import { sessions } from '../../drizzle/credential-tables.ts'
import { getKeyPrefix, hashKey, makeKey } from '../../plugins/auth/key-format.ts'
import { type Client, createClient, testApp } from '../helpers/app.ts'
import {
  createFakeStandby,
  getSchema,
  type Owner,
  openDatabase,
  SERVER,
  testDatabaseUrl,
} from '../helpers/database.ts'
import { parseExposition, sumSamples } from '../helpers/exposition.ts'
import { createNotesTable, resourcesWithNotes } from '../helpers/notes.ts'
import { startProxy } from '../helpers/proxy.ts'
import { waitUntil } from '../helpers/time.ts'

const skip =
  SERVER && getSchema(undefined) === DEFAULT_SCHEMA
    ? false
    : 'needs a PostgreSQL server: set DATABASE_URL; the fake standby has the default schema'
const REDIS = process.env.REDIS_URL || undefined
/** Milliseconds. */
const LAG = 1_500

/** The same product in both databases, with different names that show which one was read. */
const INSERT = `insert into products (id, sku, name, price_amount, status, search) values ($1, $2, $3, 1, $4, $3)`
const TOKEN = 'metrics-token-metrics-token'

/** Users include their sessions, which are read from the primary. */
const resources = resourcesWithNotes.map((definition) =>
  definition.name === 'users'
    ? {
        ...definition,
        relations: { sessions: { to: sessions, local: 'id', foreign: 'user_id', many: true } },
      }
    : definition,
)

/** An app with one replica, by way of a proxy, that holds the same product under another name. */
async function replicated(t: Owner, settings: Record<string, string> = {}) {
  const { url = '' } = await testDatabaseUrl(t)
  const standby = await createFakeStandby(t, url)
  const proxy = await startProxy(t, standby.url)
  const open = () => openDatabase({ url, poolSize: 4, replicaUrls: [proxy.url], replicaLag: LAG })
  const database = await open()
  const lines: string[] = []
  const logs = { write: (line: string) => void lines.push(line) }
  for (const each of [database, standby.database]) await createNotesTable(each)
  const app = await testApp(
    t,
    { LOG_LEVEL: 'info', METRICS_TOKEN: TOKEN, ...settings },
    { database, logs, resources },
  )
  const id = uuid()
  await database.run(INSERT, [id, 'WHERE', 'primary', 'active'])
  await standby.database.run(INSERT, [id, 'WHERE', 'replica', 'active'])
  const where = async (client: Client): Promise<string> => {
    const { status, body } = await client.get(`/products/${id}?fields=name`)
    if (status !== 200) throw new Error(`GET is ${status}`)
    return body.data.name
  }
  const getLogEntries = () =>
    lines.filter((line) => /replica (not )?in use/.test(line)).map((line) => JSON.parse(line))
  const reader = await app.person('member')
  await waitUntil(async () => (await where(reader.client)) === 'replica')
  return { ...app, open, standby, proxy, id, where, getLogEntries, reader }
}

type Replicated = Awaited<ReturnType<typeof replicated>>

/** All that is asked of it is served, until it is asked of the replica again. */
async function returns(t: Test, { where, reader }: Replicated) {
  await waitUntil(async () => (await where(reader.client)) === 'replica')
  t.pass('and is read from again')
}

t.test('reads', { skip }, async (t) => {
  const all = await replicated(t)
  const { admin, database, standby, where, id, reader } = all

  t.test('rows and lists are read from the replica, in both versions', async (t) => {
    const name = ({ body }: Awaited<ReturnType<Client['get']>>) => body.data[0].name
    t.equal(name(await reader.client.get('/products')), 'replica')
    t.equal(name(await reader.client.get('/products?search=replica')), 'replica')
    t.equal((await reader.client.get('/products?search=primary')).body.data.length, 0)
    const counted = await reader.client.get('/products?page=1&search=replica')
    t.equal(counted.body.pagination.total, 1, 'totals too')
    const v2 = await reader.client.get(`/api/v2/products/${id}`)
    t.equal(v2.body.data.attributes.name, 'replica')
    const head = await reader.client.call('HEAD', `/products/${id}`)
    t.equal(head.headers.get('etag'), (await reader.client.get(`/products/${id}`)).headers.get('etag'))
  })

  t.test('included rows are read where their parents were read', async (t) => {
    const order = uuid()
    const item = { product_id: id, quantity: 1, sku: 'WHERE', name: 'then', unit_amount: 1, total_amount: 1 }
    for (const each of [database, standby.database]) {
      await each.run(
        `insert into users (id, name, email, search) values ($1, $2, $2 || '@example.com', $2) on conflict do nothing`,
        [reader.id, 'buyer'],
      )
      await each.run(
        `insert into orders (id, number, user_id, items, currency, total_amount, search)
         values ($1, 'ORD-1', $2, $3, 'USD', 1, '')`,
        [order, reader.id, JSON.stringify([item])],
      )
      await each.run('insert into order_products (order_id, product_id) values ($1, $2)', [order, id])
    }
    const one = await reader.client.get(`/orders/${order}?include=products`)
    t.equal(one.status, 200, one.text)
    t.equal(one.body.data.products[0].name, 'replica')
    const many = await reader.client.get('/orders?include=products')
    t.equal(many.body.data[0].products[0].name, 'replica')
  })

  t.test('credentials are read from the primary', async (t) => {
    const key = makeKey()
    await standby.database.run(
      `insert into users (id, name, email, search) values ($1, 'x', 'x@example.com', 'x') on conflict do nothing`,
      [all.adminId],
    )
    await standby.database.run(
      `insert into api_keys (id, user_id, name, prefix, key_hash, scopes, expires_at)
       values ($1, $2, 'of the replica alone', $3, $4, '["*"]', now() + interval '1 day')`,
      [uuid(), all.adminId, getKeyPrefix(key), hashKey(key)],
    )
    t.equal((await createClient(all.base, { 'x-api-key': key }).get('/products')).status, 401)
    const keys = (await admin.get('/api-keys')).body.data.map(({ name }: { name: string }) => name)
    t.notOk(keys.includes('of the replica alone'), 'they are listed as they are')
    const listed = await reader.bearer.get('/sessions')
    t.match(listed.body.data, [{ id: reader.sessionId }])
    const including = await reader.bearer.get('/users/me?include=sessions')
    t.match(including.body.data.sessions, [{ id: reader.sessionId }], 'they are included as they are')
    t.equal(await where(reader.client), 'replica')
  })

  t.test('a row that the replica lacks or rejects is read from the primary', async (t) => {
    const fresh = uuid()
    await database.run(INSERT, [fresh, 'FRESH', 'just made', 'active'])
    t.equal((await reader.client.get(`/products/${fresh}`)).body.data.name, 'just made')
    const drafted = uuid()
    await standby.database.run(INSERT, [drafted, 'DRAFT', 'a draft', 'draft'])
    await database.run(INSERT, [drafted, 'DRAFT', 'no draft any more', 'active'])
    t.equal((await reader.client.get(`/products/${drafted}`)).body.data.name, 'no draft any more')
    t.equal((await reader.client.get(`/products/${uuid()}`)).status, 404)
    const writer = await all.person('member')
    t.same((await reader.client.get(`/users/${writer.id}/notes`)).body.data, [], 'a parent too')
    t.equal((await reader.client.get(`/users/${uuid()}/notes`)).status, 404)
  })

  t.test('a read with If-Match or If-Unmodified-Since goes to the primary', async (t) => {
    const changed = uuid()
    const path = `/products/${changed}`
    await database.run(INSERT, [changed, 'CHANGED', 'primary', 'active'])
    await standby.database.run(INSERT, [changed, 'CHANGED', 'replica', 'active'])
    const update = 'update products set revision = $2, updated_at = $3 where id = $1'
    await database.run(update, [changed, 7, '2024-01-02'])
    await standby.database.run(update, [changed, 6, '2024-01-01'])
    const outdated = await reader.client.get(path)
    t.equal(outdated.body.data.name, 'replica')
    const tag = outdated.headers.get('etag') ?? ''
    const current = tag.replace(/^"\d+-/, '"7-')
    t.not(current, tag)
    const read = await reader.client.get(path, { 'if-match': current })
    t.equal(read.status, 200)
    t.equal(read.body.data.name, 'primary')
    t.equal((await reader.client.get(path, { 'if-match': tag })).status, 412)
    const between = { 'if-unmodified-since': 'Mon, 01 Jan 2024 12:00:00 GMT' }
    t.equal((await reader.client.get(path, between)).status, 412)
    t.equal(await where(reader.client), 'replica', 'and nothing else is')
  })

  t.test('an outdated tag from the replica fails a conditional write', async (t) => {
    await standby.database.run('update products set revision = 9 where id = $1', [id])
    const editor = await all.person('manager')
    const tag = (await editor.client.get(`/products/${id}`)).headers.get('etag') ?? ''
    t.match(tag, /^"9-/)
    const refused = await editor.client.patch(`/products/${id}`, { stock: 5 }, { 'if-match': tag })
    t.equal(refused.status, 412)
    t.match(refused.headers.get('etag'), /^"1-/)
  })
})

t.test('a writer reads the own writes', { skip, jobs: 4 }, async (t) => {
  const all = await replicated(t)
  const { where, reader, id } = all

  for (const [name, write] of [
    ['POST', ({ client }) => client.post('/user-profiles', { bio: 'Mine' })],
    ['PATCH', ({ client, id }) => client.patch(`/users/${id}`, { name: 'Ada' })],
    ['PUT', ({ client, id }) => client.put(`/users/${id}`, { name: 'Ada', email: `${id}@example.com` })],
    [
      'POST with a key',
      ({ client }) => client.post('/user-profiles', { bio: 'Mine' }, { 'idempotency-key': 'once' }),
    ],
    ['DELETE', ({ client }) => client.delete(`/user-profiles/${uuid()}`)],
    ['a write that is refused', ({ client }) => client.post('/orders', {})],
    ['one that the role never has', ({ client }) => client.patch(`/products/${id}`, { stock: 1 })],
  ] satisfies [string, (who: Awaited<ReturnType<Replicated['person']>>) => ReturnType<Client['get']>][]) {
    t.test(name, { buffered: true }, async (t) => {
      const writer = await all.person('member')
      t.equal(await where(writer.client), 'replica')
      const began = performance.now()
      const { status } = await write(writer)
      const isUnknown = name === 'one that the role never has'
      t.equal(await where(writer.client), isUnknown ? 'replica' : 'primary', `${status}`)
      if (isUnknown) return
      t.equal(await where(writer.bearer), 'primary', 'with every credential')
      t.equal(await where(reader.client), 'replica', 'others are not concerned')
      await waitUntil(async () => (await where(writer.client)) === 'replica')
      const took = performance.now() - began
      t.ok(took >= LAG, `after ${took.toFixed()} ms they may read from a replica again`)
    })
  }

  t.test('a new process reads from the primary, because it does not know recent writers', async (t) => {
    const database = await all.open()
    const began = performance.now()
    const other = await testApp(t, {}, { database })
    const there = createClient(other.base, { 'x-api-key': reader.key })
    t.equal(await where(there), 'primary')
    await waitUntil(async () => (await where(there)) === 'replica')
    t.ok(performance.now() - began > LAG * 0.9)
  })

  t.test(
    'with Redis a writer reads the own writes from every process',
    { skip: REDIS ? false : 'set REDIS_URL' },
    async (t) => {
      const redis = await startProxy(t, REDIS ?? '')
      const pair = await Promise.all(
        [redis.url, REDIS ?? ''].map(async (url) => {
          const { base, app } = await testApp(t, { REDIS_URL: url }, { database: await all.open() })
          return { at: (key: string) => createClient(base, { 'x-api-key': key }), app }
        }),
      )
      const [one, other] = pair
      if (!one || !other) throw new Error('there are two')
      for (const { at } of pair) await waitUntil(async () => (await where(at(reader.key))) === 'replica')
      const writer = await all.person('member')
      t.equal(await where(other.at(writer.key)), 'replica')
      const began = performance.now()
      t.equal((await one.at(writer.key).post('/user-profiles', { bio: 'A' })).status, 201)
      t.equal(await where(other.at(writer.key)), 'primary')
      t.equal(await where(other.at(reader.key)), 'replica')
      await waitUntil(async () => (await where(other.at(writer.key))) === 'replica')
      t.ok(performance.now() - began >= LAG * 0.99)

      await redis.set('refuse')
      await waitUntil(async () => (await where(one.at(reader.key))) === 'primary')
      t.equal(await where(other.at(reader.key)), 'replica', 'who has lost it reads from the primary')
      await redis.set('pass')
      const back = performance.now()
      await waitUntil(async () => (await where(one.at(reader.key))) === 'replica')
      t.ok(performance.now() - back > LAG * 0.9, 'and for as long again as a write is followed')
    },
  )
})

t.test('a replica fault does not reach clients', { skip }, async (t) => {
  const all = await replicated(t)
  const { where, proxy, standby, reader, admin, getLogEntries } = all
  const readers = await Promise.all(Array.from({ length: 8 }, () => all.person('member')))

  /** Everybody reads without a pause until `over`. */
  async function reading(over: () => Promise<void>) {
    const seen: string[] = []
    let longest = 0
    let isOver = false
    const loads = readers.map(async ({ client }) => {
      while (!isOver) {
        const began = performance.now()
        seen.push(await where(client))
        longest = Math.max(longest, performance.now() - began)
      }
    })
    await over()
    isOver = true
    await Promise.all(loads)
    return { longest, last: seen.at(-1), count: seen.length }
  }

  for (const [mode, within] of [
    ['refuse', 1_000],
    ['hangUp', 1_000],
    ['reset', 1_000],
    ['silent', 3_000],
    ['mute', 3_000],
    ['deaf', 3_000],
  ] as const) {
    t.test(`unreachable replica: ${mode}`, async (t) => {
      const before = getLogEntries().length
      const { longest, last, count } = await reading(async () => {
        await wait(200)
        await proxy.set(mode)
        await waitUntil(() => getLogEntries().length > before)
        t.equal((await all.anybody.get('/readyz')).status, 200, 'readyz is the primary’s')
        t.equal((await admin.post('/products', { sku: mode, name: 'x', price_amount: 1 })).status, 201)
      })
      t.equal(last, 'primary', `${count} reads`)
      t.ok(longest < within, `the slowest took ${longest.toFixed()} ms`)
      await proxy.set('pass')
      await returns(t, all)
      t.match(getLogEntries().slice(before), [
        { level: 'warn', standing: 'away', replica: /^127\.0\.0\.1:\d+\/test_/ },
        { level: 'info', replica: /^127/ },
      ])
      t.equal(getLogEntries().length, before + 2, 'one line when it goes, one when it is back')
    })
  }

  t.test('terminated connections', async (t) => {
    const name = new URL(standby.url).pathname.slice(1)
    await reading(async () => {
      for (let i = 0; i < 5; i++) {
        await all.database.run(
          `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and query like '%products%'`,
          [name],
        )
        await wait(30)
      }
    })
    await returns(t, all)
  })

  /** Puts a view in the place of the replica's products, for as long as a test lasts. */
  async function veiled(t: Owner, condition: string) {
    const { database } = standby
    await database.run('alter table products rename to kept')
    await database.run(`create view products as select * from kept where ${condition}`)
    t.teardown(async () => {
      await database.run('drop view products')
      await database.run('alter table kept rename to products')
      await waitUntil(async () => (await where(reader.client)) === 'replica')
    })
  }

  t.test('a statement canceled by a recovery conflict', async (t) => {
    const { database } = standby
    await database.run('create function refuse() returns bool return true')
    await veiled(t, 'refuse()')
    for (const [code, message] of [
      ['40001', 'canceling statement due to conflict with recovery'],
      ['57P01', 'terminating connection due to administrator command'],
      ['42501', 'permission denied'],
    ] as const) {
      await database.run(
        `create or replace function refuse() returns bool language plpgsql as
         $$ begin raise exception '${message}' using errcode = '${code}'; end $$`,
      )
      const began = performance.now()
      t.equal(await where(reader.client), 'primary', code)
      const list = await reader.client.get('/products')
      t.equal(list.body.data[0].name, 'primary', `${code}, in a list`)
      t.ok(performance.now() - began < 500, 'and it is not tried again first')
    }
  })

  t.test('a slow replica', async (t) => {
    await standby.database.run(
      `create function stall() returns bool language plpgsql as 'begin perform pg_sleep(20); return true; end'`,
    )
    await veiled(t, 'stall()')
    const began = performance.now()
    const slow = readers.map(({ client }) => where(client))
    t.same(new Set(await Promise.all(slow)), new Set(['primary']))
    const took = performance.now() - began
    t.ok(took > 3_900 && took < 6_000, `${took.toFixed()} ms`)
  })

  t.test('a replica that lags too far', async (t) => {
    const before = getLogEntries().length
    await standby.freeze()
    await all.database.run('select pg_logical_emit_message(false, $1, $2)', ['test', 'x'])
    const began = performance.now()
    await waitUntil(async () => (await where(reader.client)) === 'primary')
    const took = performance.now() - began
    t.ok(took > LAG - 600 && took < LAG + 1_000, `it is left after ${took.toFixed()} ms`)
    await waitUntil(() => getLogEntries().length > before)
    await standby.thaw()
    await returns(t, all)
    t.match(getLogEntries().slice(before), [{ level: 'warn', standing: 'behind' }, { level: 'info' }])
  })

  t.test('a server that is not a standby, or of another database', async (t) => {
    for (const change of ['standby = false', `identity = 'another'`]) {
      const before = getLogEntries().length
      await standby.set(change)
      await waitUntil(async () => (await where(reader.client)) === 'primary')
      await waitUntil(() => getLogEntries().length > before)
      t.match(getLogEntries().slice(before), [{ level: 'warn', standing: 'foreign' }], change)
      await standby.set(
        `standby = true, identity = '${new URL((await openedUrl(all)) ?? '').pathname.slice(1)}'`,
      )
      await returns(t, all)
    }
  })

  t.test('a restarted replica must have replayed as much as before', async (t) => {
    const name = new URL(standby.url).pathname.slice(1)
    for (let i = 0; i < 5; i++) {
      t.equal(await where(reader.client), 'replica')
      await standby.set(`replayed = '0/1'`)
      await all.database.run(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and query like '%products%'`,
        [name],
      )
      t.same(
        await Promise.all(readers.map(({ client }) => where(client))),
        readers.map(() => 'primary'),
      )
      await standby.thaw()
      await returns(t, all)
    }
  })

  t.test('metrics show the state of the replica and where reads went', async (t) => {
    const families = async () =>
      parseExposition((await all.anybody.get('/metrics', { authorization: `Bearer ${TOKEN}` })).text)
    const before = await families()
    await where(reader.client)
    const after = await families()
    const count = (name: string, labels = {}) =>
      sumSamples(after, name, labels) - sumSamples(before, name, labels)
    t.equal(count('database_reads_total', { from: 'replica' }), 1)
    t.equal(sumSamples(after, 'database_replica_up', { replica: '1' }), 1)
    t.ok(sumSamples(after, 'database_replica_lag_seconds', { replica: '1' }) < LAG / 1000)
    t.ok(sumSamples(after, 'database_replica_fallbacks_total', {}) > 0)
    t.ok(sumSamples(after, 'database_reads_total', { from: 'primary_no_replica' }) > 0)
  })
})

/** Returns the address of the primary. */
async function openedUrl({ database }: Replicated) {
  const [row] = await database.run('select current_database() as name')
  return `postgres://localhost/${row?.name}`
}

t.test('a replica that is unreachable at the start serves reads later', { skip }, async (t) => {
  const { url = '' } = await testDatabaseUrl(t)
  const standby = await createFakeStandby(t, url)
  const proxy = await startProxy(t, standby.url)
  await proxy.set('refuse')
  const database = await openDatabase({ url, replicaUrls: [proxy.url], replicaLag: LAG })
  const { replicas } = database
  t.ok(replicas)
  const changes: string[] = []
  replicas?.onChange((_label, standing) => changes.push(standing))
  await waitUntil(() => changes.length > 0)
  t.same(changes, ['away'])
  await proxy.set('pass')
  await waitUntil(() => replicas?.getReader(uuid()) !== undefined)
  t.same(changes, ['away', 'up'])
  const heard: string[] = []
  replicas?.onChange((_label, standing) => heard.push(standing))
  t.same(heard, ['up'], 'a later listener is notified as well')
  await database.close()
})

t.test(
  'each user reads from the same of several replicas, or from the next if it is unavailable',
  { skip },
  async (t) => {
    const { url = '' } = await testDatabaseUrl(t)
    const standbys = [await createFakeStandby(t, url), await createFakeStandby(t, url)]
    const proxies = await Promise.all(standbys.map((each) => startProxy(t, each.url)))
    const replicaUrls = proxies.map((each) => each.url)
    const database = await openDatabase({ url, replicaUrls, replicaLag: LAG, poolSize: 40 })
    t.teardown(() => database.close())
    const { replicas } = database
    const nameOf = async (userId: string) => {
      const [row] =
        (await replicas?.getReader(userId)?.run('select pg_catalog.current_database() as name')) ?? []
      return `/${row?.name}`
    }
    const states = () => replicas?.getStates().map(({ standing }) => standing)
    await waitUntil(() => states()?.join() === 'up,up')
    const users = Array.from({ length: 40 }, () => uuid())
    await waitUntil(async () => (await nameOf(users[0] ?? '')) !== '/undefined')
    const ofEach = () => Promise.all(users.map(nameOf))
    const first = await ofEach()
    t.same(new Set(first), new Set(standbys.map((each) => new URL(each.url).pathname)), 'all are in use')
    t.same(await ofEach(), first)
    await proxies[0]?.set('refuse')
    await waitUntil(() => states()?.join() === 'away,up')
    t.same(new Set(await ofEach()), new Set([new URL(standbys[1]?.url ?? '').pathname]))
  },
)

t.test('recent writers: when the list is full, all users read from the primary', async (t) => {
  const writers = createRecentWriters(300, 2)
  t.ok(writers.mustReadPrimary('a'), 'as in the beginning')
  await wait(310)
  t.notOk(writers.mustReadPrimary('a'))
  for (const id of ['a', 'b']) writers.add(id)
  t.ok(writers.mustReadPrimary('a'))
  t.notOk(writers.mustReadPrimary('c'))
  writers.add('c')
  t.ok(writers.mustReadPrimary('a'))
  t.ok(writers.mustReadPrimary('d'), 'because evicted writers are unknown')
  await wait(310)
  t.notOk(writers.mustReadPrimary('a'))
  writers.pause(true)
  await wait(310)
  t.ok(writers.mustReadPrimary('a'))
  writers.pause(false)
  t.ok(writers.mustReadPrimary('a'))
  await wait(310)
  t.notOk(writers.mustReadPrimary('a'))
  t.notOk(createRecentWriters(0).mustReadPrimary('a'), 'without a time every read may use a replica')
})

t.test('the age of a WAL position follows from recorded positions', async (t) => {
  const history = createWalHistory(1_000)
  t.equal(history.findReached(1), undefined)
  history.add({ time: 100, position: 10 })
  history.add({ time: 200, position: 20 })
  history.add({ time: 300, position: 20 })
  t.equal(history.findReached(9), undefined)
  t.match(history.findReached(10), { time: 100 })
  t.match(history.findReached(19), { time: 100 })
  t.match(history.findReached(25), { time: 300, position: 20 })
  history.add({ time: 1_250, position: 30 })
  t.equal(history.findReached(19), undefined, 'what is too old is forgotten')
  t.match(history.findReached(20), { time: 300 })
  history.add({ time: 1_300, position: 5 })
  t.match(history.findReached(25), { time: 1_300, position: 5 }, 'less than before is another server')
})
