/** Rate limits within one process: what counts in which window, which headers report it, and when a window ends. */
import t from 'tap'
import { createMemoryStore } from '../../plugins/rate-limit/windows.ts'
import {
  ADMIN_KEY,
  createClient,
  type Person,
  type Reply,
  recordMessages,
  type TestApp,
  testApp,
  UNKNOWN_ID,
} from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { createClientFrom, formatWindow, readWindow, sendInSequence } from '../helpers/replies.ts'
import { createClock } from '../helpers/time.ts'

const database = await createSharedDatabase(t)
const ok = (n: number, limit: number) => Array.from({ length: n }, (_, i) => `200 ${limit} ${limit - 1 - i}`)

/** A key of that person's with a cap of its own. */
async function keyOf({ base }: TestApp, { bearer }: Person, rate_limit: number | null) {
  const { body } = await bearer.post('/api-keys', { name: 'k', scopes: ['*'], rate_limit })
  return { id: String(body.data.id), client: createClient(base, { 'x-api-key': body.data.key }) }
}

t.test('all credentials of a user share one window, in both versions', async (t) => {
  const time = createClock()
  const settings = { RATE_LIMIT: '4', RATE_LIMIT_WINDOW: '50' }
  const app = await testApp(t, settings, { database, now: time.now })
  const ada = await app.person('member')
  const replies = [
    await ada.client.get('/v1/products'),
    await ada.bearer.get('/v1/products'),
    await ada.client.get('/v2/products'),
    await ada.bearer.get('/users/me'),
  ]
  t.same(replies.map(formatWindow), ok(4, 4))
  t.same([...new Set(replies.map((reply) => readWindow(reply).reset))], [time.seconds() + 50])

  time.pass(18_500)
  for (const version of ['1', '2']) {
    const refused = await ada.bearer.get(`/v${version}/products`)
    t.equal(formatWindow(refused), '429 4 0')
    t.match(refused.body.error, { code: 'RATE_LIMIT_EXCEEDED', message: 'Too many requests' })
    t.equal(refused.body.error.request_id, refused.headers.get('x-request-id'))
    t.equal(refused.headers.get('api-version'), version)
    t.equal(refused.headers.get('cache-control'), 'no-store')
    const { reset, retryAfter } = readWindow(refused)
    t.equal(retryAfter, 32, 'rounded up')
    t.equal(reset, time.seconds() + 31.5)
  }
  t.equal((await (await app.person('member')).client.get('/products')).status, 200, 'others have their own')

  time.pass(31_499)
  const last = await ada.client.get('/products')
  t.equal(formatWindow(last), '429 4 0')
  t.equal(readWindow(last).retryAfter, 1, 'never 0')
  time.pass(1)
  const next = await ada.client.get('/products')
  t.equal(formatWindow(next), '200 4 3', 'what was refused did not count')
  t.equal(readWindow(next).reset, time.seconds() + 50, 'a new window')
})

t.test('requests refused by the burst window do not count in the sustained window', async (t) => {
  const time = createClock()
  const app = await testApp(t, { RATE_LIMIT: '10', RATE_LIMIT_BURST: '3' }, { database, now: time.now })
  const { client } = await app.person('member')
  t.same((await sendInSequence(3, () => client.get('/products'))).map(formatWindow), ok(3, 10))
  const refused = await sendInSequence(20, () => client.get('/products'))
  const [first] = refused.map(readWindow)
  t.same([...new Set(refused.map(formatWindow))], ['429 3 0'], 'with the headers of the exceeded window')
  t.same([first?.retryAfter, first?.reset], [1, time.seconds() + 1])
  time.pass(1_000)
  t.same((await sendInSequence(3, () => client.get('/products'))).map(formatWindow), ok(6, 10).slice(3))
})

t.test("the rate limit of a key applies in addition to its owner's limit", async (t) => {
  const app = await testApp(t, { RATE_LIMIT: '8' }, { database })
  const ada = await app.person('member')
  const capped = await keyOf(app, ada, 2)
  const free = await keyOf(app, ada, 1_000)
  t.equal(formatWindow(await capped.client.get('/products')), '200 2 1', 'of the two, the one with less left')
  t.equal(formatWindow(await capped.client.get('/products')), '200 2 0')
  const refused = await sendInSequence(3, () => capped.client.get('/products'))
  t.same([...new Set(refused.map(formatWindow))], ['429 2 0'])
  t.equal(formatWindow(await free.client.get('/products')), '200 8 3', 'its requests count for its owner')
  t.equal(formatWindow(await ada.client.get('/products')), '200 8 2')
  await ada.bearer.patch(`/api-keys/${capped.id}`, { rate_limit: 30 })
  t.equal(formatWindow(await capped.client.get('/products')), '200 8 0', 'a raised limit applies immediately')
  t.equal(formatWindow(await capped.client.get('/products')), '429 8 0', "the owner's, whatever the key's")
})

t.test('the bootstrap key counts for its admin', async (t) => {
  const app = await testApp(t, { RATE_LIMIT: '3' }, { database })
  const grant = await app.app.sessions.create(
    { id: app.adminId, role: 'admin' },
    { ip: '127.0.0.1', userAgent: 't' },
  )
  const bearer = createClient(app.base, {
    authorization: `Bearer ${app.app.accessTokens.issue(grant).text}`,
  })
  t.equal(formatWindow(await app.admin.get('/products')), '200 3 2')
  t.equal(formatWindow(await bearer.get('/products')), '200 3 1')
  t.equal(formatWindow(await app.admin.get('/products')), '200 3 0')
  t.equal(formatWindow(await bearer.get('/products')), '429 3 0')
})

t.test(
  'requests without credentials get 401 until the window of the IP address is full, then 429',
  async (t) => {
    const time = createClock()
    const settings = { RATE_LIMIT_ANONYMOUS: '3', RATE_LIMIT_WINDOW: '5', ALLOW_SIGNUP: 'true' }
    const { anybody, admin } = await testApp(t, settings, { database, now: time.now })
    t.equal(formatWindow(await anybody.get('/products')), '401 3 2')
    t.equal(formatWindow(await anybody.call('HEAD', '/v2/orders')), '401 3 1')
    const signUp = { name: 'Ada', email: `ada${Math.random()}@example.com` }
    t.equal(formatWindow(await anybody.post('/users', signUp)), '201 3 0', 'signing up is one of them')
    const refused = await anybody.get('/products')
    t.equal(formatWindow(refused), '429 3 0')
    t.equal(readWindow(refused).retryAfter, 60, 'a minute, whatever RATE_LIMIT_WINDOW')
    t.equal(refused.headers.get('www-authenticate'), null)
    t.equal(formatWindow(await anybody.post('/users', signUp)), '429 3 0')
    t.equal((await admin.get('/products')).status, 200, 'who has one is not concerned')
    time.pass(60_000)
    t.equal(formatWindow(await anybody.get('/products')), '401 3 2')
  },
)

t.test('requests answered before authentication do not count', async (t) => {
  const { anybody, admin } = await testApp(t, { RATE_LIMIT_ANONYMOUS: '3', RATE_LIMIT: '9' }, { database })
  await anybody.get('/products')
  const both = { 'x-api-key': ADMIN_KEY, authorization: 'Bearer x' }
  for (const [status, method, path, headers] of [
    [404, 'GET', '/nothing', {}],
    [404, 'GET', '/api/v2/nothing', {}],
    [405, 'DELETE', '/products', {}],
    [406, 'GET', '/products', { accept: 'text/html' }],
    [400, 'GET', '/products', both],
    [414, 'GET', `/products?search=${'x'.repeat(9_000)}`, {}],
    [431, 'GET', '/products', { 'x-long': 'x'.repeat(17_000) }],
  ] as const) {
    t.equal(formatWindow(await anybody.call(method, path, { headers })), `${status} 3 2`)
  }
  t.equal(formatWindow(await admin.get('/products')), '200 9 8')
  t.equal(formatWindow(await admin.call('DELETE', '/products')), '405 3 2', 'be it by whom')
})

t.test('every reply of a resource has rate-limit headers, and no other reply', async (t) => {
  const { anybody, admin, base } = await testApp(t, { RATE_LIMIT: '100' }, { database })
  const made = await admin.post('/products', { sku: `T-${Date.now()}`, name: 'Tea', price_amount: 1 })
  const path = `/v2/products/${made.body.data.id}`
  const etag = (await admin.get(path)).headers.get('etag') ?? ''
  const json = { 'content-type': 'application/json' }
  const text = { 'content-type': 'text/plain' }
  const replies: [expected: string, reply: Reply][] = [
    ['201 100 99', made],
    ['304 100 97', await admin.get(path, { 'if-none-match': etag })],
    ['200 100 96', await admin.call('HEAD', path)],
    ['400 100 95', await admin.get('/products?limit=0')],
    ['422 100 94', await admin.post('/products', {})],
    ['400 100 93', await admin.call('POST', '/products', { body: '{', headers: json })],
    ['415 100 92', await admin.call('POST', '/products', { body: 'x', headers: text })],
    ['412 100 91', await admin.patch(path, { name: 'Green tea' }, { 'if-match': '"99-abcdefghijkl"' })],
    ['404 100 90', await admin.get(`/products/${UNKNOWN_ID}`)],
    ['204 100 89', await admin.delete(path)],
  ]
  for (const [expected, reply] of replies) t.equal(formatWindow(reply), expected)
  const documents = ['/', '/docs', '/openapi/v1.json', '/.well-known/jwks.json']
  for (const path of [...documents, '/livez', '/readyz', '/api/v3/users'])
    t.equal(readWindow(await anybody.get(path)).limit, null, path)
  const options = await createClient(base, {}).call('OPTIONS', '/products')
  t.equal(options.status, 204)
  t.equal(readWindow(options).limit, null)

  t.equal(formatWindow(await anybody.get('/products')), '401 1000000000 999999999', 'none of them counted')
})

t.test('rate limits are checked after credentials, and before role and scope', async (t) => {
  const app = await testApp(t, { RATE_LIMIT: '1' }, { database })
  const reader = await app.person('member', ['products:read'])
  t.equal((await reader.client.post('/products', {})).status, 403, 'the first is refused for what it is')
  t.equal((await reader.client.post('/products', {})).status, 429)
  t.equal((await reader.client.get('/products', { accept: 'text/html' })).status, 406)
  const text = { 'content-type': 'text/plain' }
  t.equal((await reader.client.call('POST', '/products', { body: 'x', headers: text })).status, 429)
  t.equal((await reader.client.get('/products?bogus=1')).status, 429)
})

t.test(
  'failed authentications get 401 until their window is full, then 429, and valid credentials pass',
  async (t) => {
    const time = createClock()
    const settings = { RATE_LIMIT_AUTH_FAILURES: '4', RATE_LIMIT_ANONYMOUS: '7', RATE_LIMIT: '50' }
    const app = await testApp(t, settings, { database, now: time.now })
    const ada = await app.person('member')
    const badKey = createClient(app.base, { 'x-api-key': 'bad' })
    const badToken = createClient(app.base, { authorization: 'Bearer bad' })
    const replies = await sendInSequence(4, (i) => (i % 2 ? badKey : badToken).get('/products'))
    t.same(
      replies.map(formatWindow),
      Array(4).fill('401 7 7'),
      'with the headers of the anonymous window, in which they do not count',
    )
    for (const client of [badKey, badToken]) {
      const refused = await client.get('/v2/products')
      t.equal(formatWindow(refused), '429 4 0')
      t.equal(readWindow(refused).retryAfter, 60)
      t.equal(refused.headers.get('www-authenticate'), null)
    }
    t.equal(formatWindow(await ada.client.get('/products')), '200 50 49')
    t.equal(formatWindow(await ada.bearer.get('/products')), '200 50 48')
    t.equal(formatWindow(await app.admin.get('/products')), '200 50 49')
    t.equal(formatWindow(await app.anybody.get('/products')), '401 7 6', 'and none at all is no failure')
    time.pass(60_000)
    t.equal((await badKey.get('/products')).status, 401)
  },
)

t.test('the IP address is taken from trusted proxies only', async (t) => {
  const settings = { RATE_LIMIT_ANONYMOUS: '2' }
  const behind = await testApp(t, { ...settings, TRUST_PROXY: '127.0.0.1' }, { database })
  const ask = async (address: string, app = behind) =>
    formatWindow(await createClientFrom(app.base, address).get('/products'))
  for (const [address, expected] of [
    ['203.0.113.1', '401 2 1'],
    ['203.0.113.1', '401 2 0'],
    ['203.0.113.1', '429 2 0'],
    ['203.0.113.2', '401 2 1'],
    // The addresses before that of the proxy are the client's own words.
    ['198.51.100.9, 203.0.113.1', '429 2 0'],
    ['::ffff:203.0.113.1', '429 2 0'],
    ['::ffff:cb00:7101', '429 2 0'],
    ['2001:db8:1:2::1', '401 2 1'],
    ['2001:db8:1:2:ffff:1:2:3', '401 2 0'],
    ['2001:DB8:0001:0002:9::', '429 2 0'],
    ['2001:db8:1:3::1', '401 2 1'],
  ] as const)
    t.equal(await ask(address), expected, address)
  const bare = await testApp(t, settings, { database })
  for (const [i, expected] of ['401 2 1', '401 2 0', '429 2 0'].entries())
    t.equal(await ask(`203.0.113.${i}`, bare), expected)
})

t.test('of 200 concurrent requests with a limit of 50, 50 pass', async (t) => {
  const app = await testApp(t, { RATE_LIMIT: '50' }, { database })
  const { client } = await app.person('member')
  const replies = await Promise.all(Array.from({ length: 200 }, () => client.get('/products?limit=1')))
  const passed = replies.filter(({ status }) => status === 200)
  t.equal(passed.length, 50)
  t.equal(new Set(passed.map((reply) => readWindow(reply).remaining)).size, 50, 'each has a different number')
  t.equal(replies.filter(({ status }) => status === 429).length, 150)
})

t.test('a refusal publishes the name of the exceeded window', async (t) => {
  const app = await testApp(
    t,
    { RATE_LIMIT: '2', RATE_LIMIT_BURST: '1', RATE_LIMIT_ANONYMOUS: '1' },
    { database, now: createClock().now },
  )
  const seen = recordMessages(t, 'resource-api:limits:refused')
  const { client } = await app.person('member')
  await sendInSequence(2, () => client.get('/products'))
  await sendInSequence(2, () => app.anybody.get('/products'))
  t.same(seen, [{ window: 'burst' }, { window: 'anonymous' }])
})

t.test(
  'the memory store has a maximum number of windows of each kind and evicts the least recently used',
  async (t) => {
    const time = createClock()
    const memory = createMemoryStore(time.now, 100)
    const window = (owner: string, name = 'anonymous') => {
      return { name, key: `{${owner}}:${name}`, limit: 1, durationMs: 60_000 }
    }
    const isFull = async (owner: string, name?: string) =>
      (await memory.add(1, [window(owner, name)]))[0]?.isExceeded
    await memory.add(1, [window('a user', 'sustained')])
    for (let i = 0; i < 1_000; i++) await memory.add(1, [window(String(i))])
    t.ok(await isFull('999'))
    t.notOk(await isFull('0'), 'forgotten')
    t.ok(await isFull('a user', 'sustained'), 'a flood of strangers pushes out no user')
  },
)
