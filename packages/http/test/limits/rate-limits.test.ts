/** Rate limits within one process: what counts in which window, which headers report it, and when a window ends. */
import t, { type Test } from 'tap'
import {
  ADMIN_KEY,
  type Client,
  createClient,
  recordMessages,
  testApp,
  UNKNOWN_ID,
} from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import {
  createClientFrom,
  formatWindow,
  readWindow,
  sendInSequence,
} from '../../../testing/helpers/replies.ts'
import { createClock } from '../../../testing/helpers/time.ts'
import { createMemoryStore } from '../../src/rate-limit/windows.ts'

const database = await createSharedDatabase(t)
const time = createClock()
const parts = { database, now: time.now }
/** Few requests of a user and of an address. Tests use addresses and users of their own. */
const few = await testApp(
  t,
  {
    ...{ RATE_LIMIT: '4', RATE_LIMIT_WINDOW: '50', RATE_LIMIT_ANONYMOUS: '3', RATE_LIMIT_AUTH_FAILURES: '4' },
    ...{ ALLOW_SIGNUP: 'true', TRUST_PROXY: '127.0.0.1' },
  },
  parts,
)
const many = await testApp(t, { RATE_LIMIT: '50', RATE_LIMIT_ANONYMOUS: '1' }, parts)
const burst = await testApp(t, { RATE_LIMIT: '10', RATE_LIMIT_BURST: '3' }, parts)

const TEXT = { headers: { 'content-type': 'text/plain' }, body: 'x' }
const BROKEN = { headers: { 'content-type': 'application/json' }, body: '{' }
let last = 0
const from = (headers: Record<string, string> = {}) =>
  createClientFrom(few.base, `203.0.113.${++last}`, headers)

/** Sends requests in order, and checks status, limit and remaining requests of each. */
async function checkWindows(
  t: Test,
  cases: readonly (readonly [client: Client, request: string, window: string, options?: object])[],
) {
  for (const [client, request, window, options] of cases) {
    const [method = '', path = ''] = request.split(' ')
    t.equal(formatWindow(await client.call(method, path, options)), window, request.slice(0, 80))
  }
}

t.test('all credentials of a user share one window, in both versions', async (t) => {
  const ada = await few.person('member')
  const replies = [
    await ada.client.get('/v1/products'),
    await ada.bearer.get('/v1/products'),
    await ada.client.get('/v2/products'),
    await ada.bearer.get('/users/me'),
  ]
  t.same(replies.map(formatWindow), ['200 4 3', '200 4 2', '200 4 1', '200 4 0'])
  t.same([...new Set(replies.map((reply) => readWindow(reply).reset))], [time.seconds() + 50])

  time.pass(18_500)
  for (const version of ['1', '2']) {
    const refused = await ada.bearer.get(`/v${version}/products`)
    t.equal(formatWindow(refused), '429 4 0')
    t.match(refused.body.error, { code: 'RATE_LIMIT_EXCEEDED', message: 'Too many requests' })
    t.equal(refused.body.error.request_id, refused.headers.get('x-request-id'))
    t.equal(refused.headers.get('api-version'), version)
    t.equal(refused.headers.get('cache-control'), 'no-store')
    // Rounded up.
    t.match(readWindow(refused), { reset: time.seconds() + 31.5, retryAfter: 32 })
  }
  t.equal((await (await few.person('member')).client.get('/products')).status, 200, 'others have their own')

  time.pass(31_499)
  const end = await ada.client.get('/products')
  t.equal(formatWindow(end), '429 4 0')
  t.equal(readWindow(end).retryAfter, 1, 'never 0')
  time.pass(1)
  const next = await ada.client.get('/products')
  t.equal(formatWindow(next), '200 4 3', 'what was refused did not count')
  t.equal(readWindow(next).reset, time.seconds() + 50, 'a new window')

  const { admin, app, adminId, base } = few
  const grant = await app.sessions.create({ id: adminId, role: 'admin' }, { ip: '127.0.0.1', userAgent: 't' })
  const bearer = createClient(base, { authorization: `Bearer ${app.accessTokens.issue(grant).text}` })
  await checkWindows(t, [
    [admin, 'GET /products', '200 4 3'],
    [bearer, 'GET /products', '200 4 2'],
    [admin, 'GET /products', '200 4 1'],
  ])
})

t.test('requests refused by the burst window do not count in the sustained window', async (t) => {
  const seen = recordMessages(t, 'resource-api:limits:refused')
  const { client } = await burst.person('member')
  const send = (count: number) => sendInSequence(count, () => client.get('/products'))
  t.same((await send(3)).map(formatWindow), ['200 10 9', '200 10 8', '200 10 7'])
  const refused = await send(20)
  const [first] = refused.map(readWindow)
  t.same([...new Set(refused.map(formatWindow))], ['429 3 0'], 'with the headers of the exceeded window')
  t.same([first?.retryAfter, first?.reset], [1, time.seconds() + 1])
  time.pass(1_000)
  t.same((await send(3)).map(formatWindow), ['200 10 6', '200 10 5', '200 10 4'])
  await sendInSequence(2, () => many.anybody.get('/products'))
  t.same(
    seen,
    [...Array(20).fill({ window: 'burst' }), { window: 'anonymous' }],
    'a refusal names its window',
  )
})

t.test("the rate limit of a key applies in addition to its owner's limit", async (t) => {
  const ada = await many.person('member')
  /** A key with a cap of its own. */
  const createKey = async (rate_limit: number) => {
    const { body } = await ada.bearer.post('/api-keys', { name: 'k', scopes: ['*'], rate_limit })
    const client = createClient(many.base, { 'x-api-key': body.data.key })
    return { client, path: `/api-keys/${body.data.id}` }
  }
  const [capped, free] = [await createKey(2), await createKey(1_000)]
  const get = 'GET /products'
  await checkWindows(t, [
    // Of the two, the one with less left.
    [capped.client, get, '200 2 1'],
    [capped.client, get, '200 2 0'],
    [capped.client, get, '429 2 0'],
    [capped.client, get, '429 2 0'],
    // Its requests count for its owner.
    [free.client, get, '200 50 45'],
    [ada.client, get, '200 50 44'],
  ])
  await ada.bearer.patch(capped.path, { rate_limit: 30 })
  t.equal(formatWindow(await capped.client.get('/products')), '200 30 27', 'it applies immediately')
  const left = readWindow(await ada.client.get('/products')).remaining ?? 0
  await Promise.all(Array.from({ length: left }, () => ada.client.get('/products')))
  t.equal(formatWindow(await capped.client.get('/products')), '429 50 0', "the owner's, whatever the key's")
})

t.test('requests without credentials count for their address, and a sign-up is one of them', async (t) => {
  const client = from()
  const member = (await few.person('member')).client
  const body = { name: 'Ada', email: `ada${Math.random()}@example.com` }
  const signUp = { headers: { 'content-type': 'application/json' }, body }
  await checkWindows(t, [
    [client, 'GET /products', '401 3 2'],
    [client, 'HEAD /v2/orders', '401 3 1'],
    [client, 'POST /users', '201 3 0', signUp],
    [client, 'POST /users', '429 3 0', signUp],
    [member, 'GET /products', '200 4 3'],
  ])
  const refused = await client.get('/products')
  t.equal(formatWindow(refused), '429 3 0')
  t.equal(readWindow(refused).retryAfter, 60, 'a minute, whatever RATE_LIMIT_WINDOW')
  t.equal(refused.headers.get('www-authenticate'), null)
  time.pass(60_000)
  t.equal(formatWindow(await client.get('/products')), '401 3 2')
})

t.test('requests answered before authentication do not count', async (t) => {
  const client = from()
  const member = (await few.person('member')).client
  const both = { headers: { 'x-api-key': ADMIN_KEY, authorization: 'Bearer x' } }
  await checkWindows(t, [
    [client, 'GET /products', '401 3 2'],
    [client, 'GET /nothing', '404 3 2'],
    [client, 'GET /api/v2/nothing', '404 3 2'],
    [client, 'DELETE /products', '405 3 2'],
    [client, 'GET /products', '406 3 2', { headers: { accept: 'text/html' } }],
    [client, 'GET /products', '400 3 2', both],
    [client, `GET /products?search=${'x'.repeat(9_000)}`, '414 3 2'],
    [client, 'GET /products', '431 3 2', { headers: { 'x-long': 'x'.repeat(17_000) } }],
    [member, 'GET /products', '200 4 3'],
    [member, 'DELETE /products', '405 3 3'],
  ])
})

t.test('every reply of a resource has rate-limit headers, and no other reply', async (t) => {
  const { anybody, person, base } = many
  const { client } = await person('admin')
  const made = await client.post('/products', { sku: `T-${Date.now()}`, name: 'Tea', price_amount: 1 })
  const path = `/v2/products/${made.body.data.id}`
  const etag = made.headers.get('etag') ?? ''
  t.equal(formatWindow(made), '201 50 49')
  await checkWindows(t, [
    [client, `HEAD ${path}`, '200 50 48'],
    [client, 'GET /products?limit=0', '400 50 47'],
    [client, 'POST /products', '422 50 46', { body: {} }],
    [client, 'POST /products', '400 50 45', BROKEN],
    [client, 'POST /products', '415 50 44', TEXT],
    [
      client,
      `PATCH ${path}`,
      '412 50 43',
      { body: { name: 'T' }, headers: { 'if-match': '"99-abcdefghijkl"' } },
    ],
    [client, `GET /products/${UNKNOWN_ID}`, '404 50 42'],
    [client, `GET /v1/products/${made.body.data.id}`, '304 50 41', { headers: { 'if-none-match': etag } }],
    [client, `DELETE ${path}`, '204 50 40'],
  ])
  const documents = ['/', '/docs', '/openapi/v1.json', '/.well-known/jwks.json']
  time.pass(60_000)
  for (const path of [...documents, '/livez', '/readyz', '/api/v3/users'])
    t.equal(readWindow(await anybody.get(path)).limit, null, path)
  const options = await createClient(base, {}).call('OPTIONS', '/products')
  t.same([options.status, readWindow(options).limit], [204, null])
  t.equal(formatWindow(await anybody.get('/products')), '401 1 0', 'none of them counted')
})

t.test(
  'limits are checked after credentials, before role and scope, and the cost may exceed them',
  async (t) => {
    const reader = (await few.person('member', ['products:read'])).client
    const { client } = await few.person('member')
    const costly = 'GET /orders?include=user,products'
    await checkWindows(t, [
      // The first ones are refused for what they are.
      ...([3, 2, 1, 0] as const).map((n) => [reader, 'POST /products', `403 4 ${n}`, { body: {} }] as const),
      [reader, 'POST /products', '429 4 0', { body: {} }],
      [reader, 'GET /products', '406 3 3', { headers: { accept: 'text/html' } }],
      [reader, 'POST /products', '429 4 0', TEXT],
      [reader, 'GET /products?bogus=1', '429 4 0'],
      // It counts as three.
      [client, costly, '200 4 1'],
      [client, costly, '200 4 0'],
      [client, 'GET /products', '429 4 0'],
    ])
  },
)

t.test('failed authentications have a window of their own, and valid credentials pass', async (t) => {
  const address = { 'x-forwarded-for': '198.51.100.7' }
  const ada = await few.person('member')
  const get = (headers: Record<string, string> = {}, path = '/products') =>
    few.anybody.get(path, { ...address, ...headers })
  const bad = [{ 'x-api-key': 'bad' }, { authorization: 'Bearer bad' }]
  const replies = await sendInSequence(4, (i) => get(bad[i % 2]))
  t.same(replies.map(formatWindow), Array(4).fill('401 3 3'), 'they do not count in the anonymous window')
  for (const headers of bad) {
    const refused = await get(headers, '/v2/products')
    t.equal(formatWindow(refused), '429 4 0')
    t.equal(readWindow(refused).retryAfter, 60)
    t.equal(refused.headers.get('www-authenticate'), null)
  }
  t.equal(formatWindow(await get({ 'x-api-key': ada.key })), '200 4 3')
  t.equal(formatWindow(await get({ authorization: `Bearer ${ada.token}` })), '200 4 2')
  t.equal((await get({ 'x-api-key': ADMIN_KEY })).status, 200)
  t.equal(formatWindow(await get()), '401 3 2', 'and none at all is no failure')
  time.pass(60_000)
  t.equal((await get(bad[0])).status, 401)
})

t.test('the IP address is taken from trusted proxies only', async (t) => {
  const ask = async (base: string, address: string) =>
    formatWindow(await createClientFrom(base, address).get('/products'))
  for (const [address, expected] of [
    ['192.0.2.1', '401 3 2'],
    ['192.0.2.1', '401 3 1'],
    ['192.0.2.1', '401 3 0'],
    ['192.0.2.1', '429 3 0'],
    ['192.0.2.2', '401 3 2'],
    // The addresses before that of the proxy are the client's own words.
    ['198.51.100.9, 192.0.2.1', '429 3 0'],
    ['::ffff:192.0.2.1', '429 3 0'],
    ['::ffff:c000:201', '429 3 0'],
    ['2001:db8:1:2::1', '401 3 2'],
    ['2001:db8:1:2:ffff:1:2:3', '401 3 1'],
    ['2001:DB8:0001:0002:9::', '401 3 0'],
    ['2001:db8:1:3::1', '401 3 2'],
  ] as const)
    t.equal(await ask(few.base, address), expected, address)
  time.pass(60_000)
  for (const [i, expected] of ['401 1 0', '429 1 0'].entries())
    t.equal(await ask(many.base, `203.0.113.${i}`), expected, 'an app that trusts no proxy')
})

t.test('of 200 concurrent requests with a limit of 50, 50 pass', async (t) => {
  const { client } = await many.person('member')
  const replies = await Promise.all(Array.from({ length: 200 }, () => client.get('/products?limit=1')))
  const passed = replies.filter(({ status }) => status === 200)
  t.equal(passed.length, 50)
  t.equal(new Set(passed.map((reply) => readWindow(reply).remaining)).size, 50, 'each has a different number')
  t.equal(replies.filter(({ status }) => status === 429).length, 150)
})

t.test('the memory store has so many windows of each kind, and evicts the least recently used', async (t) => {
  const memory = createMemoryStore(time.now, 100)
  const use = async (owner: string, name = 'anonymous') => {
    const window = { name, key: `{${owner}}:${name}`, limit: 1, durationMs: 60_000 }
    return (await memory.add(1, [window]))[0]?.isExceeded
  }
  await use('a user', 'sustained')
  for (let i = 0; i < 1_000; i++) await use(String(i))
  t.ok(await use('999'))
  t.notOk(await use('0'), 'forgotten')
  t.ok(await use('a user', 'sustained'), 'a flood of strangers pushes out no user')
})
