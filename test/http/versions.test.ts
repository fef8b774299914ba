/** The path and the Accept header choose the version and the media type of a reply. */
import t from 'tap'
import { type Reply, testApp } from '../helpers/app.ts'

const { admin, anybody, adminId, app } = await testApp(t)
const VENDOR = 'application/vnd.api+json'
const JSON_TYPE = 'application/json; charset=utf-8'
const vendor = (version: number) => `${VENDOR};version=${version}`

const { id } = (await admin.post('/products', { sku: 'A', name: 'A', price_amount: 1 })).body.data

/** What a reply is: its version and type, or the status of its refusal. */
const describe = ({ status, headers }: Reply) =>
  status === 200 ? `v${headers.get('api-version')} ${headers.get('content-type')}` : `${status}`
const v1Json = `v1 ${JSON_TYPE}`
const v1Vendor = `v1 ${vendor(1)}`
const v2Vendor = `v2 ${vendor(2)}`

const MALFORMED_WEIGHTS = ['1.5', 'abc', '', '-1', '1.0001', '2', '.', '00.5', '0,5', '1e0', '1 0']
/** What Java's HttpURLConnection sends by default. */
const JAVA = 'text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2'

t.test('without a version in the path, Accept chooses version and media type', async (t) => {
  const cases: [accept: string, expected: string][] = [
    ['', v1Json],
    ['*/*', v1Json],
    ['application/*', v1Json],
    ['application/json', v1Json],
    ['application/json;charset=utf-8', v1Json],
    [VENDOR, v1Vendor],
    [vendor(1), v1Vendor],
    [vendor(2), v2Vendor],
    ['application/vnd.api+json ; version="2"', v2Vendor],
    ['Application/Vnd.Api+Json;Version=2', v2Vendor],
    ['application/json;charset=utf8', v1Json],
    // `*` is any type, like `*/*`.
    [JAVA, v1Json],
    ['*', v1Json],
    [`*;q=0, ${vendor(2)}`, v2Vendor],
    [`${vendor(2)};q=.1, * ; q=.2`, v1Json],
    [`${vendor(2)};q=.3, * ; q=.2`, v2Vendor],
    ['*;q=2', '406'],
    // The highest q,
    [`${vendor(1)};q=0.5, ${vendor(2)}`, v2Vendor],
    [`application/json;q=0.9, ${vendor(2)};q=0.8`, v1Json],
    [`application/json;q=0.8, ${vendor(2)};q=0.9`, v2Vendor],
    ['text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8', v1Json],
    // then the most specific,
    [`*/*, ${vendor(2)}`, v2Vendor],
    [`${VENDOR}, ${vendor(2)}`, v2Vendor],
    // then the first.
    [`${vendor(2)}, ${vendor(1)}`, v2Vendor],
    // What has q=0 is refused, whatever else is said.
    [`${vendor(1)};q=0, ${VENDOR}`, v2Vendor],
    ['application/json;q=0, */*', v1Vendor],
    ['application/json;q=0', '406'],
    [`*/*;q=0, ${vendor(2)}`, v2Vendor],
    // Unknown and malformed versions,
    [vendor(3), '406'],
    [`${VENDOR};version=0`, '406'],
    [`${VENDOR};version=abc`, '406'],
    [`${VENDOR};version="*"`, '406'],
    [`${vendor(3)}, ${vendor(2)};q=0.1`, v2Vendor],
    // and types.
    ['text/html', '406'],
    ['application/merge-patch+json', '406'],
    ['application/json;charset=iso-8859-1', '406'],
    ['application/json;version=2', '406'],
    ['garbage', '406'],
    [';;;', '406'],
    // Malformed weights: the range is ignored, and not taken for the best one.
    ...MALFORMED_WEIGHTS.flatMap((q): [string, string][] => [
      [`application/json;q=${q}`, '406'],
      [`*/*;q=${q}`, '406'],
      [`${vendor(2)};q=${q}, application/json;q=0.001`, v1Json],
      [`application/json;q=0.001, ${VENDOR};version=2;q=${q}`, v1Json],
      [`application/json;Q = ${q}, ${vendor(2)};q=0.1`, v2Vendor],
    ]),
    ...'0 0. 0.0 .0 0.000 0.0000'.split(' ').map((q): [string, string] => [`application/json;q=${q}`, '406']),
    ...'1 1. 1.0 1.0000 0.1 0.12 0.123 0.001 .5 0.30000000000000004 "0.5"'
      .split(' ')
      .map((q): [string, string] => [`application/json;q=${q}`, v1Json]),
    [`text/html;x=",";q=1.5, ${vendor(2)};q=0.5`, v2Vendor],
    [`text/html;x="a, ${vendor(2)}"`, '406'],
  ]
  for (const [accept, expected] of cases) {
    // Twice: the second time from what is kept.
    for (const _ of [1, 2]) {
      t.equal(describe(await admin.get(`/products/${id}`, { accept })), expected, accept || 'empty')
    }
    t.equal(describe(await admin.get('/api/products', { accept })), expected)
  }
})

t.test('with a version in the path, Accept chooses the media type only', async (t) => {
  const cases: [accept: string, expected: (version: number) => string][] = [
    ['*/*', (n) => `v${n} ${JSON_TYPE}`],
    ['application/json', (n) => `v${n} ${JSON_TYPE}`],
    [VENDOR, (n) => `v${n} ${vendor(n)}`],
    [vendor(1), (n) => (n === 1 ? v1Vendor : '406')],
    [vendor(2), (n) => (n === 2 ? v2Vendor : '406')],
    [`${vendor(1)}, ${vendor(2)}`, (n) => `v${n} ${vendor(n)}`],
    [`${vendor(1)}, application/json;q=0.1`, (n) => (n === 1 ? v1Vendor : `v2 ${JSON_TYPE}`)],
    [`${vendor(2)}, */*;q=0.1`, (n) => (n === 2 ? v2Vendor : v1Json)],
    [vendor(9), () => '406'],
    ['text/html', () => '406'],
  ]
  for (const [accept, expected] of cases) {
    for (const n of [1, 2]) {
      for (const path of [`/api/v${n}/products/${id}`, `/v${n}/products`]) {
        t.equal(describe(await admin.get(path, { accept })), expected(n), `${path}, ${accept}`)
      }
    }
  }
})

t.test('a missing Accept header means any media type', async (t) => {
  const reply = await app.inject({ url: '/products', headers: { 'x-api-key': 'none' } })
  t.equal(reply.statusCode, 401)
  t.equal(reply.headers['content-type'], JSON_TYPE)
})

t.test('a 406 has the envelope of the version in the URL, else of the default version', async (t) => {
  for (const [path, version] of [
    ['/products', '1'],
    ['/api/v1/products', '1'],
    ['/api/v2/products', '2'],
  ] as const) {
    const { status, body, headers } = await admin.get(path, { accept: 'text/html' })
    t.equal(status, 406)
    t.equal(headers.get('content-type'), JSON_TYPE)
    t.equal(headers.get('api-version'), version)
    t.equal(headers.get('cache-control'), 'no-store')
    t.same(Object.keys(body.error), ['code', 'message', 'request_id'])
    t.equal(body.error.code, 'NOT_ACCEPTABLE')
  }
})

t.test('an error has the version and the media type that the client prefers', async (t) => {
  const wrong = { sku: '', name: 5 }
  const one = await admin.post('/products', wrong, { accept: vendor(1) })
  t.equal(one.headers.get('content-type'), vendor(1))
  t.ok(one.body.error.details.length > 1)
  const two = await admin.post('/products', wrong, { accept: vendor(2) })
  t.equal(two.headers.get('content-type'), vendor(2))
  t.ok(two.body.error.errors.length > 1)
  t.equal(two.body.error.details, undefined)
  for (const path of ['/products/nothing', '/nothing', '/api/v2/nothing', '/products?limit=0']) {
    const { headers } = await admin.get(path, { accept: vendor(2) })
    t.equal(headers.get('content-type'), vendor(2), path)
    t.equal(headers.get('api-version'), '2')
  }
  const unauthorized = await anybody.get('/products', { accept: vendor(2) })
  t.equal(unauthorized.headers.get('content-type'), vendor(2), '401')
})

t.test('every reply of a resource has API-Version, Vary and X-Request-Id, errors included', async (t) => {
  for (const n of [1, 2]) {
    const base = `/api/v${n}`
    const made = await admin.post(`${base}/products`, { sku: `N${n}`, name: 'N', price_amount: 1 })
    const path = `${base}/products/${made.body.data.id}`
    const { status, headers } = await admin.get(path)
    t.equal(status, 200)
    const etag = { 'if-none-match': headers.get('etag') ?? '' }
    const replies: [number, Reply][] = [
      [201, made],
      [200, await admin.get(`${base}/products`)],
      [200, await admin.call('HEAD', path)],
      [304, await admin.get(path, etag)],
      [200, await admin.patch(path, { stock: 1 })],
      [412, await admin.patch(path, { stock: 1 }, { 'if-match': '"0-none"' })],
      [204, await admin.call('OPTIONS', path)],
      [204, await admin.delete(path)],
      [404, await admin.get(path)],
      [405, await admin.post(path, {})],
      [406, await admin.get(path, { accept: 'text/html' })],
      [401, await anybody.get(path)],
      [400, await admin.get(`${path}?x=1`)],
      [415, await admin.post(`${base}/products`, 'x', { 'content-type': 'text/plain' })],
      [422, await admin.post(`${base}/products`, {})],
      [404, await admin.get(`${base}/users/${adminId}/nothing`)],
    ]
    for (const [expected, reply] of replies) {
      t.equal(reply.status, expected)
      t.equal(reply.headers.get('api-version'), String(n), `API-Version of ${expected}`)
      t.equal(reply.headers.get('vary'), 'Accept, Authorization, X-API-Key', `Vary of ${expected}`)
      t.match(reply.headers.get('x-request-id'), /^[\w.-]{8,128}$/)
      if (expected === 204) t.equal(reply.headers.get('content-type'), null)
    }
  }
})

t.test('HEAD has the status and the headers of GET, and no body', async (t) => {
  const pages = ['/api/v2/products?limit=1', '/products?page=2', '/products?fields=id&limit=3']
  for (const path of [`/products/${id}`, ...pages, '/products/nothing', '/products?limit=0', '/livez']) {
    for (const accept of ['*/*', vendor(2)]) {
      const get = await admin.get(path, { accept })
      const head = await admin.call('HEAD', path, { headers: { accept } })
      t.equal(head.status, get.status, path)
      t.equal(head.text, '')
      for (const [name, value] of get.headers) {
        if (/^(date|connection|keep-alive|x-request-id|x-ratelimit.*)$/.test(name)) continue
        t.equal(head.headers.get(name), value, `${name} of ${path}`)
      }
    }
  }
})
