/** The Redis store shares rate limits between replicas in one round trip; no failure of Redis fails a request. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t from 'tap'
import { createClient, type Reply, recordMessages, testApp } from '../../../testing/helpers/app.ts'
import type { Owner } from '../../../testing/helpers/database.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import {
  createClientFrom,
  formatWindow,
  readWindow,
  sendInSequence,
} from '../../../testing/helpers/replies.ts'
import { getRunningTime, waitUntil } from '../../../testing/helpers/time.ts'
import { connectRedis, createRedisStore } from '../../src/rate-limit/redis.ts'
import { createMemoryStore } from '../../src/rate-limit/windows.ts'
import { startFakeRedis } from './fake-redis.ts'

const REDIS = process.env.REDIS_URL || undefined
const skip = REDIS ? false : 'needs a Redis: set REDIS_URL'
const url = REDIS ?? ''
const PREFIX = 'resource-api:limits:'
const database = await createSharedDatabase(t)
const random = () => randomBytes(4).toString('hex')
/** Of no other test's. */
const anAddress = () => `2001:db8:${random().slice(4)}:${random().slice(4)}::1`
const settings = { TRUST_PROXY: '127.0.0.1' }

const getStatuses = (replies: readonly Reply[]) => replies.map(({ status }) => status)

async function openStore(url: string) {
  const redis = await connectRedis(url)
  return { redis, store: createRedisStore(redis, createMemoryStore(Date.now)) }
}

function client(t: Owner) {
  const redis = new Redis(url)
  t.teardown(() => redis.disconnect())
  return redis
}

/** The lines of MONITOR from now on, by a plain socket: ioredis may take one that comes early for a fault. */
async function monitor(t: Owner): Promise<string[]> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port) || 6379, hostname)
  t.teardown(() => socket.destroy())
  socket.write('MONITOR\r\n')
  const input = createInterface({ input: socket })
  const lines: string[] = []
  input.on('line', (line) => lines.push(line))
  await once(input, 'line')
  return lines
}

/** What is said of the store, in log lines and on its channel. */
function listener(t: Owner) {
  const lines: string[] = []
  const states = recordMessages(t, 'resource-api:limits:store')
  const own = () => lines.filter((line) => line.includes('the store of the rate limits'))
  return { logs: { write: (line: string) => void lines.push(line) }, lines: own, states, all: lines }
}

type Fake = Awaited<ReturnType<typeof startFakeRedis>>
const set = (state: Fake['state'], change: Partial<Fake['state']>) => Object.assign(state, change)

t.test('Redis', { skip }, async (t) => {
  t.test('two apps share windows, all keys expire, and no key contains an email', async (t) => {
    const all = { ...settings, RATE_LIMIT: '5', LOGIN_FAILURES: '2', REDIS_URL: url }
    const [one, other] = [await testApp(t, all, { database }), await testApp(t, all, { database })]
    const ada = await one.person('member')
    const there = createClient(other.base, { 'x-api-key': ada.key })
    t.equal(formatWindow(await ada.client.get('/products')), '200 5 4')
    t.equal(formatWindow(await there.get('/products')), '200 5 3')
    t.equal(formatWindow(await ada.bearer.get('/products')), '200 5 2')
    const [here, same] = [await ada.client.get('/products'), await there.get('/products')].map(readWindow)
    t.ok(Math.abs((here?.reset ?? 0) - (same?.reset ?? 0)) <= 1, 'the same window ends at the same time')
    t.ok(Math.abs((here?.reset ?? 0) - Date.now() / 1000 - 60) < 5)
    const refused = await there.get('/products')
    t.equal(formatWindow(refused), '429 5 0')
    t.equal(formatWindow(await ada.client.get('/products')), '429 5 0')

    const [address, email] = [anAddress(), `ada.${random()}@example.com`]
    const grant = { grant_type: 'password', email, password: 'wrong horse battery' }
    const tries = await sendInSequence(3, (i) =>
      createClientFrom(i % 2 ? one.base : other.base, address).post('/tokens', grant),
    )
    t.same(getStatuses(tries), [401, 401, 429])
    const withBadKey = createClientFrom(other.base, address, { 'x-api-key': 'bad' })
    t.equal((await withBadKey.get('/products')).status, 401)

    const redis = client(t)
    const keys = await redis.keys(`${PREFIX}*`)
    t.ok(keys.some((key) => key.includes(ada.id)))
    t.notOk(keys.some((key) => key.includes('@') || key.includes(email.split('@')[0] ?? '')))
    const ends = await Promise.all(keys.map((key) => redis.pttl(key)))
    t.notOk(ends.includes(-1), 'each key ends by itself')
  })

  t.test('of 1,000 concurrent requests at two apps exactly as many pass as the limit', async (t) => {
    const limits = { ...settings, RATE_LIMIT: '100', RATE_LIMIT_ANONYMOUS: '100', REDIS_URL: url }
    const [one, other] = [await testApp(t, limits, { database }), await testApp(t, limits, { database })]
    const { key } = await one.person('member')
    for (const [headers, passes] of [
      [{ 'x-api-key': key }, 200],
      [{ 'x-forwarded-for': anAddress() }, 401],
    ] as const) {
      const send = (i: number) => (i % 2 ? one : other).anybody.get('/products?limit=1', headers)
      const replies: Reply[] = []
      for (let begun = 0; begun < 1_000; begun += 50)
        replies.push(...(await Promise.all(Array.from({ length: 50 }, (_, i) => send(i)))))
      const passed = replies.filter(({ status }) => status === passes)
      t.equal(passed.length, 100)
      t.equal(new Set(passed.map((reply) => readWindow(reply).remaining)).size, 100)
      t.equal(replies.filter(({ status }) => status === 429).length, 900)
    }
  })

  t.test('a request needs one round trip for any number of windows', async (t) => {
    const app = await testApp(t, { REDIS_URL: url, RATE_LIMIT: '50' }, { database })
    const ada = await app.person('member')
    const made = await ada.bearer.post('/api-keys', { name: 'k', scopes: ['*'], rate_limit: 20 })
    const capped = createClient(app.base, { 'x-api-key': made.body.data.key })
    const lines = await monitor(t)
    const commands = () =>
      lines
        .filter((line) => line.includes(ada.id) && !line.includes(' lua]'))
        .map((line) => line.split('"')[1])
    await sendInSequence(10, () => capped.get('/products'))
    await waitUntil(() => commands().length >= 10)
    t.same(commands(), Array(10).fill('evalsha'))
  })

  t.test('an unexpected value under a key counts as zero', async (t) => {
    const direct = client(t)
    const { redis, store } = await openStore(url)
    t.teardown(() => redis.close())
    for (const spoil of [
      (key: string) => direct.lpush(key, 'a list'),
      (key: string) => direct.set(key, 'no number'),
      (key: string) => direct.set(key, '7'),
    ]) {
      const key = `{test:${random()}}:test`
      await spoil(PREFIX + key)
      const [count] = await store.add(1, [{ name: 'test', key, limit: 3, durationMs: 5_000 }])
      t.equal(count?.remaining, 2)
      const left = await direct.pttl(PREFIX + key)
      t.ok(left > 0 && left <= 5_000)
    }
  })

  t.test('a request counts in all windows or in none, and returned cost is available again', async (t) => {
    const { redis, store } = await openStore(url)
    t.teardown(() => redis.close())
    const owner = `{test:${random()}}`
    const [wide, narrow] = [
      { name: 'wide', key: `${owner}:wide`, limit: 10, durationMs: 5_000 },
      { name: 'narrow', key: `${owner}:narrow`, limit: 1, durationMs: 200 },
    ] as const
    const left = async (amount: -1 | 0 | 1) =>
      (await store.add(amount, [wide, narrow])).map(({ remaining }) => remaining)
    t.same(await left(0), [10, 1])
    for (let i = 0; i < 3; i++) t.same(await left(1), [9, 0])
    t.same(
      (await store.add(1, [wide, narrow])).map(({ isExceeded }) => isExceeded),
      [false, true],
    )
    for (let i = 0; i < 2; i++) t.same(await left(-1), [10, 1])
    await left(1)
    await waitUntil(async () => (await left(0))[1] === 1)
    t.same(await left(0), [9, 1], 'each ends in its own time')
  })
})

const faults: [name: string, spoil: (redis: Fake) => unknown, heal: (redis: Fake) => unknown][] = [
  ['gone', ({ stop }) => stop(), ({ start }) => start()],
  ['a black hole', ({ state }) => set(state, { silent: true }), ({ state }) => set(state, { silent: false })],
  ['slow', ({ state }) => set(state, { delay: 400 }), ({ state }) => set(state, { delay: 0 })],
  [
    'a replica that takes no writes',
    ({ state }) => set(state, { error: "READONLY You can't write against a read only replica." }),
    ({ state }) => set(state, { error: '' }),
  ],
]

for (const [name, spoil, heal] of faults) {
  t.test(
    `Redis ${name}: requests pass, each process counts alone, and the connection is restored`,
    async (t) => {
      const redis = await startFakeRedis(t)
      const { logs, lines, states, all } = listener(t)
      const limits = { RATE_LIMIT: '4', LOGIN_FAILURES: '1' }
      const own = { ...settings, ...limits, REDIS_URL: redis.url, LOG_LEVEL: 'info' }
      const app = await testApp(t, own, { database, logs })
      const { client } = await app.person('member')
      t.equal(formatWindow(await client.get('/products')), '200 4 3')
      // One when it began, two for the first use of the key, one for the request.
      t.equal(redis.state.scripts, 4)

      await spoil(redis)
      const began = getRunningTime()
      const first = await client.get('/products')
      const took = getRunningTime() - began
      t.equal(formatWindow(first), '200 4 3', 'the first in this process')
      t.ok(took < 2_000, `${Math.round(took)} ms, of which it waits 200 at most`)
      const again = getRunningTime()
      const rest = await sendInSequence(4, () => client.get('/products'))
      t.same(rest.map(formatWindow), ['200 4 2', '200 4 1', '200 4 0', '429 4 0'])
      // Four that each waited 200 ms would take longer.
      t.ok(getRunningTime() - again < 790, 'the others do not wait at all')
      const grant = { grant_type: 'password', email: 'nobody@example.com', password: 'wrong horse battery' }
      const signIns = await sendInSequence(2, () =>
        createClientFrom(app.base, '203.0.113.1').post('/tokens', grant),
      )
      t.same(getStatuses(signIns), [401, 429], 'sign-ins are still counted')
      t.same(states, [{ state: 'own' }])
      t.equal(lines().length, 1)

      await heal(redis)
      await waitUntil(() => states.length === 2, 15_000)
      t.equal(formatWindow(await client.get('/products')), '200 4 3', 'what Redis says')
      t.same(states, [{ state: 'own' }, { state: 'shared' }])
      t.equal(lines().length, 2)
      t.notOk(all.some((line) => line.includes('pass-word')))
    },
  )
}

t.test('an unexpected reply is logged by its first word only, and counting continues', async (t) => {
  const errors = [
    'OOM command not allowed when used memory > maxmemory',
    'LOADING Redis is loading the dataset in memory',
    'NOAUTH Authentication required.',
    'NOSCRIPT No matching script.',
    'WRONGTYPE Operation against a key holding the wrong kind of value',
    'NOPERM this user has no permissions',
    'ERR unknown command, with args beginning with: pass-word',
  ]
  const window = { name: 'b', key: '{a}:b', limit: 2, durationMs: 60_000 }
  await Promise.all(
    errors.map(async (error) => {
      const redis = await startFakeRedis(t)
      const said: unknown[] = []
      const { redis: connection, store } = await openStore(redis.url)
      connection.onChange((reason) => said.push(reason === undefined ? 'back' : { reason }))
      t.teardown(() => connection.close())
      redis.state.error = error
      const counts = [1, 2, 3].map(() => store.add(1, [window]))
      const remaining = (await Promise.all(counts)).map(([count]) => count?.remaining)
      t.same(remaining, [1, 0, 0], error)
      t.same(said, [{ reason: error.split(' ')[0] }])
      redis.state.error = ''
      await waitUntil(() => said.length === 2)
      t.equal(said[1], 'back')
      t.equal((await store.add(1, [window]))[0]?.remaining, 1, 'what Redis says')
    }),
  )
})

const atStart: [name: string, spoil: (redis: Fake) => unknown][] = [
  ['away', ({ stop }) => stop()],
  ['a black hole', ({ state }) => set(state, { silent: true })],
  ['that knows another password', ({ state }) => set(state, { refusal: 'WRONGPASS invalid pair' })],
]

for (const [name, spoil] of atStart) {
  t.test(`the service starts with Redis ${name}`, async (t) => {
    const redis = await startFakeRedis(t)
    const { logs, lines, states, all } = listener(t)
    spoil(redis)
    const own = { RATE_LIMIT: '2', REDIS_URL: redis.url, LOG_LEVEL: 'info' }
    const app = await testApp(t, own, { database, logs })
    const { client } = await app.person('member')
    t.same((await sendInSequence(3, () => client.get('/products'))).map(formatWindow), [
      '200 2 1',
      '200 2 0',
      '429 2 0',
    ])
    t.same(states, [{ state: 'own' }])
    t.equal(lines().length, 1, 'said once, however often it is tried')
    t.notOk(all.some((line) => line.includes('pass-word')))
  })
}

t.test('a database that Redis does not have is a failure, and not database 0', async (t) => {
  const fake = await startFakeRedis(t)
  for (const [path, failure] of [
    ['', undefined],
    ['/15', undefined],
    ['/99', 'Redis has no database 99'],
  ] as const) {
    const redis = await connectRedis(`${fake.url}${path}`)
    const failures: (string | undefined)[] = []
    redis.onChange((reason) => failures.push(reason))
    redis.close()
    t.same(failures, failure === undefined ? [] : [failure], path)
  }
})

t.test('closing the last app closes the connection', async (t) => {
  const redis = await startFakeRedis(t)
  const app = await testApp(t, { REDIS_URL: redis.url }, { database })
  t.equal((await app.anybody.get('/products')).status, 401)
  const { packets } = redis.state
  await app.app.close()
  await wait(600)
  t.equal(redis.state.packets, packets, 'and none is begun')
})
