/** Reads go to replicas where that is safe, writers see their own writes, and no replica fault reaches a client. */
import t from 'tap'
import { v7 as uuid } from 'uuid'
import { getKeyPrefix, hashKey, makeKey } from '../../accounts/src/auth/key-format.ts'
import { type Client, createClient, testApp } from '../../testing/helpers/app.ts'
import {
  createFakeStandby,
  type Owner,
  openDatabase,
  skipStandby as skip,
  testDatabaseUrl,
} from '../../testing/helpers/database.ts'
import { parseExposition, sumSamples } from '../../testing/helpers/exposition.ts'
import { createNotesTable, resourcesWithNotes } from '../../testing/helpers/notes.ts'
import { startProxy } from '../../testing/helpers/proxy.ts'
import { replaceResource, withChanges } from '../../testing/helpers/serve.ts'
import { getRunningTime, stopClock, waitUntil } from '../../testing/helpers/time.ts'
import { createRecentWriters } from '../src/client/replicas/recent-writers.ts'
import { createWalHistory } from '../src/client/replicas/replica.ts'
import { sessions } from '../src/credential-tables.ts'

const REDIS = process.env.REDIS_URL || undefined
/** Milliseconds of the shifted clock. No test takes as long in real time. */
const LAG = 10_000
/** Milliseconds. No statement that runs looks as if it had no answer. */
const STEP = 400
const { now } = performance
let shift = 0
t.intercept(performance, 'now', { value: () => now.call(performance) + shift })

const TOKEN = 'metrics-token-metrics-token'

/** The same product in both databases, with different names that show which one was read. */
const INSERT = `insert into products (id, sku, name, price_amount, status, search) values ($1, $2, $3, 1, $4, $3)`
const INSERT_USER = `insert into users (id, name, email, search) values ($1::uuid, 'x', $1::uuid::text || '@example.com', 'x')
  on conflict do nothing`

/** Users include their sessions, which are read from the primary. */
const resources = replaceResource(resourcesWithNotes, 'users', (users) =>
  withChanges(users, {
    relations: { sessions: { to: sessions, local: 'id', foreign: 'user_id', many: true } },
  }),
)

/** An app with one replica, behind a proxy, that holds the same product under another name. */
async function replicated(t: Owner) {
  const { url = '' } = await testDatabaseUrl(t)
  const standby = await createFakeStandby(t, url)
  const proxy = await startProxy(t, standby.url)
  const open = () => openDatabase({ url, poolSize: 4, replicaUrls: [proxy.url], replicaLag: LAG })
  const database = await open()
  const lines: string[] = []
  const logs = { write: (line: string) => void lines.push(line) }
  for (const each of [database, standby.database]) await createNotesTable(each)
  const app = await testApp(t, { LOG_LEVEL: 'info', METRICS_TOKEN: TOKEN }, { database, logs, resources })
  /** Inserts a product with these names into the primary and the replica. */
  const insertProduct = async (names: [primary: string, replica: string], replicaStatus = 'active') => {
    const id = uuid()
    await database.run(INSERT, [id, id, names[0], 'active'])
    await standby.database.run(INSERT, [id, id, names[1], replicaStatus])
    return id
  }
  const id = await insertProduct(['primary', 'replica'])
  const where = async (client: Client): Promise<string> => {
    const { status, body } = await client.get(`/products/${id}?fields=name`)
    if (status !== 200) throw new Error(`GET is ${status}`)
    return body.data.name
  }
  const getLogEntries = () =>
    lines.filter((line) => /replica (not )?in use/.test(line)).map((line) => JSON.parse(line))
  const reader = await app.person('member')
  const waitFor = (place: string, client = reader.client) =>
    waitUntil(async () => (await where(client)) === place)
  /** Lets as much time pass, in which reads go on. */
  const pass = async (time: number) => {
    for (const end = shift + time; shift < end; await where(reader.client)) shift += STEP
  }
  /** Ends the connections to the replica that have read products. */
  const cut = () =>
    database.run(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and query like '%products%'`,
      [new URL(standby.url).pathname.slice(1)],
    )
  await pass(LAG)
  await waitFor('replica')
  return { ...app, open, standby, proxy, id, insertProduct, where, waitFor, pass, cut, getLogEntries, reader }
}

t.test('reads', { skip }, async (t) => {
  const all = await replicated(t)
  const { admin, database, standby, where, id, insertProduct, reader } = all
  const { client, bearer } = reader

  t.test('rows and lists are read from the replica, in both versions', async (t) => {
    for (const [path, expected] of [
      ['/products', { data: [{ name: 'replica' }] }],
      ['/products?search=replica', { data: [{ name: 'replica' }] }],
      ['/products?page=1&search=replica', { pagination: { total: 1 } }],
      [`/api/v2/products/${id}`, { data: { attributes: { name: 'replica' } } }],
    ] as const)
      t.match((await client.get(path)).body, expected, path)
    t.same((await client.get('/products?search=primary')).body.data, [])
    const head = await client.call('HEAD', `/products/${id}`)
    t.equal(head.headers.get('etag'), (await client.get(`/products/${id}`)).headers.get('etag'))
  })

  t.test(
    'aggregates are read from the replica, and after a write of the caller from the primary',
    async (t) => {
      const path = '/products/aggregates?measures=count&search='
      const writer = await all.person('member')
      t.same((await writer.client.get(`${path}replica`)).body.data, [{ group: {}, count: 1 }])
      t.same((await writer.client.get(`${path}primary`)).body.data, [{ group: {}, count: 0 }])
      t.equal((await writer.client.post('/user-profiles', { bio: 'Mine' })).status, 201)
      t.same((await writer.client.get(`${path}primary`)).body.data, [{ group: {}, count: 1 }])
      t.same(
        (await client.get(`${path}replica`)).body.data,
        [{ group: {}, count: 1 }],
        'other users are not affected',
      )
    },
  )

  t.test('included rows are read where their parents were read', async (t) => {
    const order = uuid()
    const item = { product_id: id, quantity: 1, sku: 'WHERE', name: 'then', unit_amount: 1, total_amount: 1 }
    for (const each of [database, standby.database]) {
      await each.run(INSERT_USER, [reader.id])
      await each.run(
        `insert into orders (id, number, user_id, items, currency, total_amount, search)
         values ($1, 'ORD-1', $2, $3, 'USD', 1, '')`,
        [order, reader.id, JSON.stringify([item])],
      )
      await each.run('insert into order_products (order_id, product_id) values ($1, $2)', [order, id])
    }
    const one = await client.get(`/orders/${order}?include=products`)
    t.match(one.body, { data: { products: [{ name: 'replica' }] } })
    t.match((await client.get('/orders?include=products')).body, {
      data: [{ products: [{ name: 'replica' }] }],
    })
  })

  t.test('credentials are read from the primary', async (t) => {
    const key = makeKey()
    await standby.database.run(INSERT_USER, [all.adminId])
    await standby.database.run(
      `insert into api_keys (id, user_id, name, prefix, key_hash, scopes, expires_at)
       values ($1, $2, 'of the replica alone', $3, $4, '["*"]', now() + interval '1 day')`,
      [uuid(), all.adminId, getKeyPrefix(key), hashKey(key)],
    )
    t.equal((await createClient(all.base, { 'x-api-key': key }).get('/products')).status, 401)
    t.notMatch((await admin.get('/api-keys')).text, /of the replica alone/)
    t.match((await bearer.get('/sessions')).body.data, [{ id: reader.sessionId }])
    const including = await bearer.get('/users/me?include=sessions')
    t.match(including.body.data.sessions, [{ id: reader.sessionId }])
    t.equal(await where(client), 'replica')
  })

  t.test('a row that the replica lacks or rejects is read from the primary', async (t) => {
    const fresh = uuid()
    await database.run(INSERT, [fresh, 'FRESH', 'just made', 'active'])
    t.equal((await client.get(`/products/${fresh}`)).body.data.name, 'just made')
    const drafted = await insertProduct(['no draft any more', 'a draft'], 'draft')
    t.equal((await client.get(`/products/${drafted}`)).body.data.name, 'no draft any more')
    t.equal((await client.get(`/products/${uuid()}`)).status, 404)
    const writer = await all.person('member')
    t.same((await client.get(`/users/${writer.id}/notes`)).body.data, [], 'a parent too')
    t.equal((await client.get(`/users/${uuid()}/notes`)).status, 404)
  })

  t.test('a read with If-Match or If-Unmodified-Since goes to the primary', async (t) => {
    const changed = await insertProduct(['primary', 'replica'])
    const path = `/products/${changed}`
    const update = 'update products set revision = $2, updated_at = $3 where id = $1'
    await database.run(update, [changed, 7, '2024-01-02'])
    await standby.database.run(update, [changed, 6, '2024-01-01'])
    const outdated = await client.get(path)
    t.equal(outdated.body.data.name, 'replica')
    const tag = outdated.headers.get('etag') ?? ''
    const read = await client.get(path, { 'if-match': tag.replace(/^"6-/, '"7-') })
    t.match(read, { status: 200, body: { data: { name: 'primary' } } })
    const since = 'Mon, 01 Jan 2024 12:00:00 GMT'
    for (const headers of [{ 'if-match': tag }, { 'if-unmodified-since': since }])
      t.equal((await client.get(path, headers)).status, 412)
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

t.test('a writer reads the own writes', { skip }, async (t) => {
  const all = await replicated(t)
  const { where, reader, id, waitFor, pass } = all

  for (const [name, write] of [
    ['POST', ({ client }) => client.post('/user-profiles', { bio: 'Mine' })],
    ['PATCH', ({ client, id }) => client.patch(`/users/${id}`, { name: 'Ada' })],
    ['PUT', ({ client, id }) => client.put(`/users/${id}`, { name: 'Ada', email: `${id}@example.com` })],
    ['POST with a key', ({ client }) => client.post('/user-profiles', {}, { 'idempotency-key': 'once' })],
    ['DELETE', ({ client }) => client.delete(`/user-profiles/${uuid()}`)],
    ['a write that is refused', ({ client }) => client.post('/orders', {})],
  ] satisfies [string, (who: Awaited<ReturnType<typeof all.person>>) => ReturnType<Client['get']>][]) {
    t.test(name, async (t) => {
      const writer = await all.person('member')
      t.equal(await where(writer.client), 'replica')
      const { status } = await write(writer)
      t.equal(await where(writer.client), 'primary', `${status}`)
      t.equal(await where(writer.bearer), 'primary', 'with every credential')
      t.equal(await where(reader.client), 'replica', 'other users are not affected')
      await pass(LAG / 2)
      await waitFor('replica')
      t.equal(await where(writer.client), 'primary', 'for as long as a replica may lag')
      await pass(LAG)
      await waitFor('replica', writer.client)
    })
  }

  t.test('a write that the role never has does not count', async (t) => {
    const { client } = await all.person('member')
    t.equal((await client.patch(`/products/${id}`, { stock: 1 })).status, 403)
    t.equal(await where(client), 'replica')
  })

  t.test('a new process reads from the primary, because it does not know recent writers', async (t) => {
    const other = await testApp(t, {}, { database: await all.open() })
    const there = createClient(other.base, { 'x-api-key': reader.key })
    t.equal(await where(there), 'primary')
    await pass(LAG)
    await waitFor('replica', there)
  })

  const withoutRedis = REDIS ? false : 'set REDIS_URL'
  t.test('with Redis a writer reads the own writes from every process', { skip: withoutRedis }, async (t) => {
    const redis = await startProxy(t, REDIS ?? '')
    const start = async (url: string) => {
      const { base } = await testApp(t, { REDIS_URL: url }, { database: await all.open() })
      return (key: string) => createClient(base, { 'x-api-key': key })
    }
    const [one, other] = [await start(redis.url), await start(REDIS ?? '')]
    await pass(LAG)
    for (const at of [one, other]) await waitFor('replica', at(reader.key))
    const writer = await all.person('member')
    t.equal(await where(other(writer.key)), 'replica')
    t.equal((await one(writer.key).post('/user-profiles', { bio: 'A' })).status, 201)
    t.equal(await where(other(writer.key)), 'primary')
    t.equal(await where(other(reader.key)), 'replica')
    await pass(LAG)
    await waitFor('replica', other(writer.key))

    await redis.set('refuse')
    await waitFor('primary', one(reader.key))
    t.equal(
      await where(other(reader.key)),
      'replica',
      'only the process without Redis reads from the primary',
    )
    await redis.set('pass')
    await pass(LAG / 2)
    t.equal(await where(one(reader.key)), 'primary')
    await pass(2 * LAG)
    await waitFor('replica', one(reader.key))
  })
})

t.test('a replica fault does not reach clients', { skip }, async (t) => {
  const all = await replicated(t)
  const { where, waitFor, pass, proxy, standby, reader, admin, getLogEntries, cut } = all
  const readers = await Promise.all(Array.from({ length: 8 }, () => all.person('member')))
  const readAll = () => Promise.all(readers.map(({ client }) => where(client)))

  /** All readers read without a pause until `work` ends. Returns the longest time and the last place. */
  async function readDuring(work: () => Promise<void>) {
    let [last, longest, count, isOver] = ['', 0, 0, false]
    const loads = readers.map(async ({ client }) => {
      while (!isOver) {
        const began = getRunningTime()
        last = await where(client)
        longest = Math.max(longest, getRunningTime() - began)
        count += 1
      }
    })
    await waitUntil(() => count > readers.length)
    await work()
    isOver = true
    await Promise.all(loads)
    return { longest, last }
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
      const { longest, last } = await readDuring(async () => {
        await proxy.set(mode)
        await waitUntil(() => getLogEntries().length > before)
        t.equal((await all.anybody.get('/readyz')).status, 200, 'readyz is the primary’s')
        t.equal((await admin.post('/products', { sku: mode, name: 'x', price_amount: 1 })).status, 201)
      })
      t.equal(last, 'primary')
      t.ok(longest < within, `the slowest took ${longest.toFixed()} ms`)
      await proxy.set('pass')
      await waitFor('replica')
      const replica = /^127\.0\.0\.1:\d+\/test_/
      t.match(getLogEntries().slice(before), [
        { level: 'warn', standing: 'away', replica },
        { level: 'info', replica },
      ])
      t.equal(getLogEntries().length, before + 2, 'one line when it goes, one when it is back')
    })
  }

  /** Replaces the products of the replica by a view that calls a function with this body, for the time of a test. */
  async function replaceProducts(t: Owner, body: string) {
    const { database } = standby
    const change = (text: string) =>
      database.run(
        `create or replace function check_row() returns bool language plpgsql as 'begin ${text.replaceAll("'", "''")} end'`,
      )
    await change(body)
    await database.run('alter table products rename to kept')
    await database.run('create view products as select * from kept where check_row()')
    t.teardown(async () => {
      await database.run('drop view products')
      await database.run('alter table kept rename to products')
      await waitFor('replica')
    })
    return change
  }

  t.test('a statement canceled by a recovery conflict', async (t) => {
    const change = await replaceProducts(t, 'return true;')
    for (const code of ['40001', '57P01', '42501']) {
      await change(`raise exception 'canceled' using errcode = '${code}';`)
      const began = getRunningTime()
      t.equal(await where(reader.client), 'primary', code)
      t.equal((await reader.client.get('/products')).body.data[0].name, 'primary', `${code}, in a list`)
      const aggregates = await reader.client.get('/products/aggregates?measures=count&search=replica')
      t.same(aggregates.body.data, [{ group: {}, count: 0 }], `${code}, in aggregates`)
      t.ok(getRunningTime() - began < 500, 'without a retry on the replica')
    }
  })

  t.test('a slow replica', async (t) => {
    await replaceProducts(t, 'perform pg_sleep(20); return true;')
    const [began, beganRunning] = [performance.now(), getRunningTime()]
    t.same(new Set(await readAll()), new Set(['primary']))
    t.ok(performance.now() - began > 3_900, 'the replica has its time')
    t.ok(getRunningTime() - beganRunning < 19_000, 'and the request does not wait for its answer')
  })

  t.test('a replica that lags too far', async (t) => {
    const before = getLogEntries().length
    await standby.freeze()
    await all.database.run('select pg_logical_emit_message(false, $1, $2)', ['test', 'x'])
    t.equal(await where(reader.client), 'replica')
    await pass(LAG)
    await waitUntil(() => getLogEntries().length > before)
    t.equal(await where(reader.client), 'primary')
    await standby.thaw()
    await waitFor('replica')
    t.match(getLogEntries().slice(before), [{ level: 'warn', standing: 'behind' }, { level: 'info' }])
  })

  t.test('a server that is not a standby, or of another database', async (t) => {
    const [row] = await all.database.run('select current_database() as name')
    for (const change of ['standby = false', `identity = 'another'`]) {
      const before = getLogEntries().length
      await standby.set(change)
      await waitFor('primary')
      await waitUntil(() => getLogEntries().length > before)
      t.match(getLogEntries().slice(before), [{ level: 'warn', standing: 'foreign' }], change)
      await standby.set(`standby = true, identity = '${row?.name}'`)
      await waitFor('replica')
    }
  })

  t.test('a restarted replica must have replayed as much as before', async (t) => {
    for (let i = 0; i < 5; i++) {
      t.equal(await where(reader.client), 'replica')
      await standby.set(`replayed = '0/1'`)
      await cut()
      t.same(new Set(await readAll()), new Set(['primary']))
      await standby.thaw()
      await waitFor('replica')
    }
  })

  t.test('metrics show the state of the replica and where reads went', async (t) => {
    const read = async () =>
      parseExposition((await all.anybody.get('/metrics', { authorization: `Bearer ${TOKEN}` })).text)
    const before = await read()
    await where(reader.client)
    const after = await read()
    const from = { from: 'replica' }
    const name = 'database_reads_total'
    t.equal(sumSamples(after, name, from) - sumSamples(before, name, from), 1)
    t.equal(sumSamples(after, 'database_replica_up', { replica: '1' }), 1)
    t.ok(sumSamples(after, 'database_replica_lag_seconds', { replica: '1' }) < LAG / 1000)
    t.ok(sumSamples(after, 'database_replica_fallbacks_total', {}) > 0)
    t.ok(sumSamples(after, name, { from: 'primary_no_replica' }) > 0)
  })
})

t.test('a replica that is unreachable at the start serves reads later', { skip }, async (t) => {
  const { url = '' } = await testDatabaseUrl(t)
  const standby = await createFakeStandby(t, url)
  const proxy = await startProxy(t, standby.url)
  await proxy.set('refuse')
  const database = await openDatabase({ url, replicaUrls: [proxy.url], replicaLag: LAG })
  t.teardown(() => database.close())
  shift += LAG
  const { replicas } = database
  const changes: string[] = []
  replicas?.onChange((_label, standing) => changes.push(standing))
  await waitUntil(() => changes.length > 0)
  t.same(changes, ['away'])
  await proxy.set('pass')
  await waitUntil(() => replicas?.getReader(uuid()) !== undefined)
  t.same(changes, ['away', 'up'])
  replicas?.onChange((_label, standing) => changes.push(standing))
  t.same(changes, ['away', 'up', 'up'], 'a later listener is notified as well')
})

t.test('each user reads from the same of several replicas, or from the next one', { skip }, async (t) => {
  const { url = '' } = await testDatabaseUrl(t)
  const standbys = [await createFakeStandby(t, url), await createFakeStandby(t, url)]
  const proxies = await Promise.all(standbys.map((each) => startProxy(t, each.url)))
  const replicaUrls = proxies.map((each) => each.url)
  const database = await openDatabase({ url, replicaUrls, replicaLag: LAG, poolSize: 40 })
  t.teardown(() => database.close())
  const { replicas } = database
  const users = Array.from({ length: 40 }, () => uuid())
  const readNames = () =>
    Promise.all(
      users.map(async (user) => {
        const [row] =
          (await replicas?.getReader(user)?.run('select pg_catalog.current_database() as name')) ?? []
        return `/${row?.name}`
      }),
    )
  const states = () => replicas?.getStates().map(({ standing }) => standing)
  const names = standbys.map((each) => new URL(each.url).pathname)
  shift += LAG
  await waitUntil(() => states()?.join() === 'up,up')
  await waitUntil(() => replicas?.getReader(uuid()) !== undefined)
  // While a busy machine opens forty connections, the primary answers some reads.
  await waitUntil(async () => (await readNames()).every((name) => names.includes(name)))
  const first = await readNames()
  t.same(new Set(first), new Set(names), 'all are in use')
  t.same(await readNames(), first)
  await proxies[0]?.set('refuse')
  await waitUntil(() => states()?.join() === 'away,up')
  t.same(new Set(await readNames()), new Set(names.slice(1)))
})

t.test('recent writers: when the list is full, all users read from the primary', async (t) => {
  const clock = stopClock(t)
  const writers = createRecentWriters(300, 2)
  const check = (users: string, expected: boolean[]) =>
    t.same([...users].map(writers.mustReadPrimary), expected, users)
  check('a', [true])
  clock.pass(310)
  check('a', [false])
  for (const id of ['a', 'b']) writers.add(id)
  check('ac', [true, false])
  writers.add('c')
  // Evicted writers are unknown.
  check('ad', [true, true])
  clock.pass(310)
  check('a', [false])
  writers.pause(true)
  clock.pass(310)
  check('a', [true])
  writers.pause(false)
  check('a', [true])
  clock.pass(310)
  check('a', [false])
  t.notOk(createRecentWriters(0).mustReadPrimary('a'), 'without a lifetime every read may use a replica')
})

t.test('the age of a WAL position follows from recorded positions', async (t) => {
  const { add, findReached } = createWalHistory(1_000)
  const findTimes = (...replayed: number[]) => replayed.map((position) => findReached(position)?.time)
  t.same(findTimes(1), [undefined])
  for (const time of [100, 200, 300]) add({ time, position: Math.min(time / 10, 20) })
  t.same(findTimes(9, 10, 19, 25), [undefined, 100, 100, 300])
  add({ time: 1_250, position: 30 })
  t.same(findTimes(19, 20), [undefined, 300], 'too old, and not yet')
  add({ time: 1_300, position: 5 })
  t.match(findReached(25), { time: 1_300, position: 5 }, 'a lower position is that of another server')
})
