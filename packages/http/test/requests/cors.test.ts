/** CORS lets pages of the configured origins call the API and read its replies, and no others. */
import t, { type Test } from 'tap'
import { type Reply, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase, type Owner } from '../../../testing/helpers/database.ts'
import { sendRaw } from '../../../testing/helpers/network.ts'
import { resourcesWithNotes } from '../../../testing/helpers/notes.ts'

const database = await createSharedDatabase(t)
const PAGE = 'https://app.example.com'
const OTHER = 'https://admin.example.com:8443'
const VARY = 'Accept, Authorization, X-API-Key'

const start = (owner: Owner, CORS_ORIGINS: string) =>
  testApp(owner, { CORS_ORIGINS }, { database, resources: resourcesWithNotes })
const listed = await start(t, `${PAGE}, ${OTHER}`)

/** The headers of a reply that concern pages of other origins. */
const corsOf = ({ headers }: Reply) =>
  [...headers.keys()].filter((name) => name.startsWith('access-control-')).sort()

/** Sends the request that a browser sends before a write. */
const preflight = (path: string, origin = PAGE, method = 'PATCH', { anybody } = listed) => {
  const request = { 'access-control-request-method': method, 'access-control-request-headers': 'if-match' }
  return anybody.call('OPTIONS', path, { headers: { origin, ...request } })
}

const EXPOSED =
  `ETag Location Link X-RateLimit-Limit X-RateLimit-Remaining X-RateLimit-Reset Retry-After X-Request-Id
  API-Version Deprecation Sunset Idempotency-Replayed Preference-Applied WWW-Authenticate Allow Accept Accept-Patch`.split(
    /\s+/,
  )

function isReadable(t: Test, reply: Reply, sentence: string) {
  const { headers } = reply
  t.equal(headers.get('access-control-allow-origin'), PAGE, sentence)
  t.equal(headers.get('access-control-allow-credentials'), null)
  t.equal(headers.get('vary'), headers.has('api-version') ? `${VARY}, Origin` : 'Origin', sentence)
  const exposed = headers.get('access-control-expose-headers')?.split(', ') ?? []
  t.same(
    EXPOSED.filter((name) => !exposed.includes(name)),
    [],
    sentence,
  )
}

t.test('a page of a configured origin may read each reply, errors included', async (t) => {
  const { admin, anybody } = listed
  const page = { origin: PAGE }
  const big = JSON.stringify({ name: 'a'.repeat(1_100_000) })
  for (const [status, reply] of [
    [200, await admin.get('/products', page)],
    [400, await admin.get('/products?limit=0', page)],
    [401, await anybody.get('/products', page)],
    [404, await admin.get('/nothing', page)],
    [405, await admin.delete('/products', page)],
    [406, await admin.get('/products', { ...page, accept: 'text/html' })],
    [413, await admin.post('/products', big, page)],
    [414, await admin.get(`/products?search=${'a'.repeat(9_000)}`, page)],
    [415, await admin.post('/products', 'x', { ...page, 'content-type': 'text/plain' })],
    [422, await admin.post('/products', {}, page)],
    [431, await admin.get('/products', { ...page, 'x-long': 'a'.repeat(17_000) })],
    [400, await admin.get('/products/%zz', page)],
    [400, await admin.get('/%zz', page)],
    // The preflight of an unknown path succeeds for it.
    [404, await admin.patch('/api/v1/nothing', {}, page)],
  ] as const) {
    t.equal(reply.status, status)
    isReadable(t, reply, String(status))
  }
  const other = await admin.get('/products', { origin: OTHER })
  t.equal(other.headers.get('access-control-allow-origin'), OTHER)
})

t.test('another origin gets no CORS headers, and is never echoed', async (t) => {
  for (const origin of [
    ...['null', '*', `${PAGE}, ${OTHER}`, `${PAGE} ${OTHER}`, 'https://evil-app.example.com'],
    ...['http://app.example.com', 'https://app.example.com.evil.example', 'https://app.example.com:444'],
    ...['https://APP.example.com', 'https://app.example.com/', 'https://admin.example.com'],
  ]) {
    const reply = await listed.admin.get('/products', { origin })
    t.equal(reply.status, 200, 'the service itself answers: browsers keep it from the page')
    t.same(corsOf(reply), [], origin)
    t.equal(reply.headers.get('vary'), `${VARY}, Origin`, 'caches keep both apart')
    const asked = await preflight('/products', origin)
    t.equal(asked.status, 204)
    t.same(corsOf(asked), [], origin)
    t.equal(asked.headers.get('allow'), 'GET, HEAD, OPTIONS, POST')
  }
})

t.test('a preflight lists the methods of its path and the allowed headers', async (t) => {
  for (const [path, allow] of [
    ['/api/v1/products', 'GET, HEAD, OPTIONS, POST'],
    ['/v2/products/0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f', 'DELETE, GET, HEAD, OPTIONS, PATCH, PUT'],
    ['/users/me/notes', 'GET, HEAD, OPTIONS, POST'],
    ['/tokens', 'OPTIONS, POST'],
  ] as const) {
    const reply = await preflight(path)
    t.equal(reply.status, 204, path)
    t.equal(reply.text, '')
    t.match(Object.fromEntries(reply.headers), {
      allow,
      'access-control-allow-origin': PAGE,
      'access-control-allow-methods': allow,
      'access-control-max-age': '7200',
      'access-control-allow-credentials': undefined,
      'access-control-allow-headers':
        'Accept, Authorization, Content-Type, Idempotency-Key, Prefer, X-API-Key, X-Request-Id, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, Last-Event-ID, Cache-Control',
      vary: /^Accept, Authorization, X-API-Key,.*\bOrigin\b/,
      'x-request-id': /./,
      'x-content-type-options': 'nosniff',
    })
    t.equal(reply.headers.has('accept-patch'), allow.includes('PATCH'))
  }
  const unknown = await preflight('/api/v1/nothing')
  const methods = unknown.headers.get('access-control-allow-methods')
  t.same([unknown.status, methods], [204, 'DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT'])
})

t.test('an OPTIONS request without preflight headers is answered as usual', async (t) => {
  for (const headers of [{}, { origin: PAGE }, { 'access-control-request-method': 'GET' }]) {
    const known = await listed.anybody.call('OPTIONS', '/products', { headers })
    t.equal(known.status, 204)
    t.equal(known.headers.get('allow'), 'GET, HEAD, OPTIONS, POST')
    t.equal(known.headers.get('access-control-allow-methods'), null)
    const unknown = await listed.anybody.call('OPTIONS', '/nothing', { headers })
    t.equal(unknown.status, 404)
    t.equal(unknown.body.error.code, 'RESOURCE_NOT_FOUND')
    const posted = await listed.anybody.call('POST', '/nothing', { headers })
    t.equal(posted.status, 404, 'and no other method has come to be')
  }
})

t.test('replies to parser errors have no CORS headers', async (t) => {
  const broken = `GET / HTTP/1.1\r\nHost: a\r\nOrigin: ${PAGE}\r\nbad header\r\n\r\n`
  const { replies } = await sendRaw(listed.port, broken)
  t.match(replies, [{ status: 400, headers: { 'access-control-allow-origin': undefined } }])
})

t.test('CORS_ORIGINS=* allows every origin, and without a setting there are no CORS headers', async (t) => {
  const origin = 'https://any.example'
  for (const [setting, allowed, unknown] of [
    ['*', '*', 204],
    ['', null, 404],
  ] as const) {
    const app = await start(t, setting)
    const reply = await app.admin.get('/products', { origin })
    const asked = await preflight('/products', origin, 'POST', app)
    t.same([reply.status, asked.status], [200, 204])
    for (const { headers } of [reply, asked]) {
      t.equal(headers.get('access-control-allow-origin'), allowed)
      t.equal(headers.get('access-control-allow-credentials'), null)
    }
    if (setting === '') t.same([reply.headers.get('vary'), ...corsOf(reply), ...corsOf(asked)], [VARY])
    t.equal((await preflight('/nothing', origin, 'POST', app)).status, unknown)
  }
})
