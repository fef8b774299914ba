/** The path and the Accept header choose the version and the media type; links repeat the form of the path. */
import t from 'tap'
import { ADMIN_KEY, type Reply, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { sendRaw } from '../../../testing/helpers/network.ts'
import { createNotesTable, resourcesWithNotes } from '../../../testing/helpers/notes.ts'
import { getLinks } from '../../../testing/helpers/replies.ts'
import { versions } from '../../../testing/helpers/shop.ts'
import { createAddressing } from '../../src/versioning/addresses.ts'
import type { Version } from '../../src/versioning/index.ts'
import { v1 } from '../../src/versioning/representation/v1.ts'
import { v2 } from '../../src/versioning/representation/v2.ts'
import { checkStatuses } from './statuses.ts'

const database = await createSharedDatabase(t)
await createNotesTable(database)
const served = { database, resources: resourcesWithNotes }
const { admin, adminId, anybody, app, port } = await testApp(t, {}, served)
/** Links are absolute, requests without a version are served by version 2, and X-Forwarded headers are read. */
const ORIGIN = 'https://api.example.com'
const settings = { PUBLIC_URL: ORIGIN, DEFAULT_API_VERSION: '2', TRUST_PROXY: 'true' }
const published = (await testApp(t, settings, served)).admin

const VENDOR = 'application/vnd.api+json'
const JSON_TYPE = 'application/json; charset=utf-8'
const VARY = 'Accept, Authorization, X-API-Key'
const vendor = (version: number) => `${VENDOR};version=${version}`

const product = (sku: string) => ({ sku, name: sku, price_amount: 1 })
const { id } = (await admin.post('/products', product('A'))).body.data
await admin.post('/products', product('B'))

const forms = ['/api/v1', '/v1', '/api/v2', '/v2', '/api', '']
const getVersion = (form: string) => form.match(/\d/)?.[0] ?? '1'

for (const form of forms) {
  t.test(`${form || 'no prefix'}: every route answers, and links repeat the form of the path`, async (t) => {
    const version = getVersion(form)
    const page = await admin.get(`${form}/products?limit=1&sort=name`)
    t.same([page.status, page.headers.get('api-version')], [200, version])
    t.equal('attributes' in page.body.data[0], version === '2')
    const { next = '', first } = getLinks(page)
    t.equal(first, `${form}/products?limit=1&sort=name`)
    t.ok(next.startsWith(`${form}/products?`))
    t.equal((await admin.get(next)).headers.get('api-version'), version)
    const pages = getLinks(await admin.get(`${form}/products?page=1&limit=1`))
    for (const rel of ['next', 'first', 'last']) t.ok(pages[rel]?.startsWith(`${form}/products?`), rel)

    const name = form.replaceAll('/', '-')
    for (const [client, origin, path, location, body] of [
      [admin, '', 'products', 'products', product(`L${name}`)],
      [admin, '', 'users/me/notes', `users/${adminId}/notes`, { title: 'A', body: 'B' }],
      [published, ORIGIN, 'products', 'products', product(`P${name}`)],
    ] as const) {
      const made = await client.post(`${form}/${path}`, body)
      const url = made.headers.get('location') ?? ''
      t.equal(url, `${origin}${form}/${location}/${made.body.data.id}`)
      t.equal((await client.get(url.replace(origin, ''))).body.data.id, made.body.data.id)
    }
    const absolute = getLinks(await published.get(`${form}/products?limit=1`))
    t.equal(absolute.first, `${ORIGIN}${form}/products?limit=1`)
    t.ok(absolute.next?.startsWith(`${ORIGIN}${form}/products?`))

    const slashed = getLinks(await admin.get(`${form}/products/?limit=1`))
    t.equal(slashed.first, `${form}/products?limit=1`, 'one trailing slash is ignored')
    await checkStatuses(
      t,
      admin,
      `200 ${form}/products/ ${form}/products/${id}/ ${form}/users/${adminId}/notes
      404 ${form}/products// ${form}/Products ${form}/PRODUCTS/${id} ${form === '' ? '/API/products' : form.toUpperCase()}/products`,
    )
    const unknown = await admin.get(`${form}/nothing`)
    t.equal(unknown.status, 404)
    t.same(
      ['api-version', 'vary'].map((name) => unknown.headers.get(name)),
      [version, VARY],
    )
  })
}

t.test('an unknown version or prefix is a 404, and a percent-encoded letter is decoded', async (t) => {
  const names = `v0 v01 v1x v1.0 v-1 v1e0 v vabc V1 v%31x v3 v${'1'.repeat(400)}`.split(' ')
  for (const name of names)
    await checkStatuses(t, admin, `404 /api/${name}/products /${name}/products /api/${name} /${name}/`)
  await checkStatuses(
    t,
    admin,
    `404 /api /api/ /api/v1 /v2/ /api/api/products /v1/api/products /api/v1/v1/products /API/v1/products
    404 /api/v1/products%3F /api%2Fv1/products
    200 /%61pi/v1/products /api/%76%31/products /api/v1/%70roducts /%70roducts`,
  )
})

t.test('routes without a version answer without the API-Version header', async (t) => {
  for (const path of ['/livez', '/readyz', '/openapi/v1.json', '/openapi/v2.json']) {
    const { status, headers } = await admin.get(path)
    t.same([status, headers.get('api-version')], [200, null], path)
    await checkStatuses(t, admin, `404 /api${path} /api/v1${path}`)
  }
  t.equal((await admin.get('/livez', { accept: 'text/html' })).status, 200)
})

t.test('a request target in absolute form is reduced to its path', async (t) => {
  const ask = (target: string) =>
    sendRaw(port, `GET ${target} HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\nConnection: close\r\n\r\n`)
  for (const form of forms) {
    const { replies } = await ask(`http://proxied.example:8080${form}/products?limit=1`)
    t.equal(replies[0]?.status, 200)
    t.match(replies[0]?.headers.link, `<${form}/products?`, 'and no host of the client comes back')
  }
  t.equal((await ask('HTTPS://proxied.example/livez')).replies[0]?.status, 200)
  t.match((await ask('http://proxied.example')).replies[0]?.text, '"name":"resource-api"')
  t.equal((await ask('ftp://proxied.example/products')).replies[0]?.status, 404)
})

t.test('X-Forwarded headers do not change links', async (t) => {
  const proxied = (await testApp(t, { TRUST_PROXY: 'true' }, served)).admin
  const forwarded = { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https' }
  const page = await proxied.get('/products?limit=1', { ...forwarded, 'x-forwarded-prefix': '/evil' })
  t.equal(getLinks(page).first, '/products?limit=1')
})

t.test('DEFAULT_API_VERSION serves requests that name no version', async (t) => {
  const reply = await published.get(`/products/${id}`)
  t.same([reply.headers.get('api-version'), reply.body.data.type], ['2', 'products'])
  t.equal((await published.get(`/v1/products/${id}`)).headers.get('api-version'), '1')
  const { error } = (await published.get('/api/v3/products?x=1')).body
  t.same(Object.keys(error), ['code', 'message', 'request_id'])
  t.throws(() => createAddressing([{ representation: v1 }], 3), /default version 3 does not exist/)
})

/** Returns the version and the media type of a response, or the status of its refusal. */
const describe = ({ status, headers }: Reply) =>
  status === 200 ? `v${headers.get('api-version')} ${headers.get('content-type')}` : `${status}`
const v1Json = `v1 ${JSON_TYPE}`
const v1Vendor = `v1 ${vendor(1)}`
const v2Vendor = `v2 ${vendor(2)}`

const MALFORMED_WEIGHTS = ['1.5', 'abc', '', '-1', '1.0001', '2', '.', '00.5', '0,5', '1e0', '1 0']
/** What Java's HttpURLConnection sends by default. */
const JAVA = 'text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2'

t.test('without a version in the path, Accept chooses version and media type', async (t) => {
  const values: Record<string, string[]> = {
    [v1Json]: [
      ...['', '*/*', 'application/*', 'application/json', 'application/json;charset=utf-8'],
      // `*` is any type, like `*/*`.
      ...['application/json;charset=utf8', JAVA, '*', `${vendor(2)};q=.1, * ; q=.2`],
      `application/json;q=0.9, ${vendor(2)};q=0.8`,
      'text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8',
      ...'1 1. 1.0 1.0000 0.1 0.12 0.123 0.001 .5 0.30000000000000004 "0.5"'
        .split(' ')
        .map((q) => `application/json;q=${q}`),
      // A range whose weight is malformed is ignored, and not taken for the best one.
      ...MALFORMED_WEIGHTS.flatMap((q) => [
        `${vendor(2)};q=${q}, application/json;q=0.001`,
        `application/json;q=0.001, ${VENDOR};version=2;q=${q}`,
      ]),
    ],
    [v1Vendor]: [VENDOR, vendor(1), 'application/json;q=0, */*'],
    [v2Vendor]: [
      ...[vendor(2), 'application/vnd.api+json ; version="2"', 'Application/Vnd.Api+Json;Version=2'],
      // The highest q,
      ...[`*;q=0, ${vendor(2)}`, `${vendor(2)};q=.3, * ; q=.2`, `${vendor(1)};q=0.5, ${vendor(2)}`],
      `application/json;q=0.8, ${vendor(2)};q=0.9`,
      // then the most specific, then the first.
      ...[`*/*, ${vendor(2)}`, `${VENDOR}, ${vendor(2)}`, `${vendor(2)}, ${vendor(1)}`],
      // What has q=0 is refused, whatever else is said.
      ...[`${vendor(1)};q=0, ${VENDOR}`, `*/*;q=0, ${vendor(2)}`, `${vendor(3)}, ${vendor(2)};q=0.1`],
      `text/html;x=",";q=1.5, ${vendor(2)};q=0.5`,
      ...MALFORMED_WEIGHTS.map((q) => `application/json;Q = ${q}, ${vendor(2)};q=0.1`),
    ],
    406: [
      ...[vendor(3), `${VENDOR};version=0`, `${VENDOR};version=abc`, `${VENDOR};version="*"`],
      ...['*;q=2', 'text/html', 'application/merge-patch+json', 'application/json;charset=iso-8859-1'],
      ...['application/json;version=2', 'garbage', ';;;', `text/html;x="a, ${vendor(2)}"`],
      ...'0 0. 0.0 .0 0.000 0.0000'.split(' ').map((q) => `application/json;q=${q}`),
      ...MALFORMED_WEIGHTS.flatMap((q) => [`application/json;q=${q}`, `*/*;q=${q}`]),
    ],
  }
  for (const [expected, accepts] of Object.entries(values)) {
    for (const accept of accepts) {
      // Twice: the second time from what is kept.
      for (const path of [`/products/${id}`, `/products/${id}`, '/api/products'])
        t.equal(describe(await admin.get(path, { accept })), expected, accept || 'empty')
    }
  }
})

t.test('with a version in the path, Accept chooses the media type only', async (t) => {
  const cases: [accept: string, version1: string, version2: string][] = [
    ['*/*', v1Json, `v2 ${JSON_TYPE}`],
    ['application/json', v1Json, `v2 ${JSON_TYPE}`],
    [VENDOR, v1Vendor, v2Vendor],
    [vendor(1), v1Vendor, '406'],
    [vendor(2), '406', v2Vendor],
    [`${vendor(1)}, ${vendor(2)}`, v1Vendor, v2Vendor],
    [`${vendor(1)}, application/json;q=0.1`, v1Vendor, `v2 ${JSON_TYPE}`],
    [`${vendor(2)}, */*;q=0.1`, v1Json, v2Vendor],
    [vendor(9), '406', '406'],
    ['text/html', '406', '406'],
  ]
  for (const [accept, ...expected] of cases) {
    for (const [i, n] of [1, 2].entries()) {
      for (const path of [`/api/v${n}/products/${id}`, `/v${n}/products`])
        t.equal(describe(await admin.get(path, { accept })), expected[i], `${path}, ${accept}`)
    }
  }
})

t.test('an error has the version and the media type that the client prefers', async (t) => {
  const missing = await app.inject({ url: '/products', headers: { 'x-api-key': 'none' } })
  t.same([missing.statusCode, missing.headers['content-type']], [401, JSON_TYPE], 'no Accept at all')
  const wrong = { sku: '', name: 5 }
  for (const [reply, status, type, version] of [
    [await admin.get('/products', { accept: 'text/html' }), 406, JSON_TYPE, '1'],
    [await admin.get('/api/v1/products', { accept: 'text/html' }), 406, JSON_TYPE, '1'],
    [await admin.get('/api/v2/products', { accept: 'text/html' }), 406, JSON_TYPE, '2'],
    [await admin.post('/products', wrong, { accept: vendor(1) }), 422, vendor(1), '1'],
    [await admin.post('/products', wrong, { accept: vendor(2) }), 422, vendor(2), '2'],
    [await admin.get('/products/nothing', { accept: vendor(2) }), 404, vendor(2), '2'],
    [await admin.get('/nothing', { accept: vendor(2) }), 404, vendor(2), '2'],
    [await admin.get('/api/v2/nothing', { accept: vendor(2) }), 404, vendor(2), '2'],
    [await admin.get('/products?limit=0', { accept: vendor(2) }), 400, vendor(2), '2'],
    [await anybody.get('/products', { accept: vendor(2) }), 401, vendor(2), '2'],
  ] as const) {
    const found = [reply.status, reply.headers.get('content-type'), reply.headers.get('api-version')]
    t.same(found, [status, type, version])
    t.same('details' in reply.body.error, version === '1' && status === 422)
    t.same('errors' in reply.body.error, version === '2' && (status === 422 || status === 400))
  }
})

t.test('HEAD has the status and the headers of GET, and no body', async (t) => {
  const pages = ['/api/v2/products?limit=1', '/products?page=2', '/products?fields=id&limit=3']
  for (const path of [`/products/${id}`, ...pages, '/products/nothing', '/products?limit=0', '/livez']) {
    for (const accept of ['*/*', vendor(2)]) {
      const get = await admin.get(path, { accept })
      const head = await admin.call('HEAD', path, { headers: { accept } })
      t.same([head.status, head.text], [get.status, ''], path)
      for (const [name, value] of get.headers) {
        if (/^(date|connection|keep-alive|x-request-id|x-ratelimit.*)$/.test(name)) continue
        t.equal(head.headers.get(name), value, `${name} of ${path}`)
      }
    }
  }
})

const since = new Date('2026-01-01T00:00:00Z')
const deprecated = (sunset: Date): readonly Version[] => [
  { representation: v1, deprecated: { since, sunset, successor: 2 } },
  { representation: v2 },
]

t.test(
  'each reply of a deprecated version has Deprecation, Sunset and a link to its successor',
  async (t) => {
    for (const { deprecated } of versions) t.equal(deprecated, undefined, 'none is deprecated at present')
    const sunset = new Date(Math.floor(Date.now() / 1000) * 1000 + 86_400_000)
    const { admin, anybody, app } = await testApp(t, {}, { database, versions: deprecated(sunset) })
    const check = (reply: Reply, successor: string, more: string) => {
      const found = ['deprecation', 'sunset', 'link'].map((name) => reply.headers.get(name))
      const link = `<${successor}>; rel="successor-version"${more && `, ${more}`}`
      t.same(found, ['@1767225600', sunset.toUTCString(), link], successor)
    }
    for (const [path, successor] of [
      [`/api/v1/products/${id}`, `/api/v2/products/${id}`],
      [`/v1/products/${id}`, `/v2/products/${id}`],
      [`/api/products/${id}`, `/api/v2/products/${id}`],
      [`/products/${id}`, `/api/v2/products/${id}`],
      ['/v1/products/nothing', '/v2/products/nothing'],
      ['/v1/products/a%3Eb', '/v2/products/a%3Eb'],
    ] as const) {
      const isFound = successor.endsWith(id)
      check(await admin.get(path), successor, isFound ? '' : '</docs/#RESOURCE_NOT_FOUND>; rel="help"')
      if (isFound) t.equal((await admin.get(successor)).status, 200)
    }
    for (const [reply, more] of [
      [await anybody.get('/v1/products'), '</docs/#UNAUTHORIZED>; rel="help"'],
      [await admin.post('/v1/products', {}), '</docs/#VALIDATION_ERROR>; rel="help"'],
      [await admin.get('/v1/products?limit=100'), '</v1/products?limit=100>; rel="first"'],
    ] as const)
      check(reply, '/v2/products', more)
    const injected = await app.inject({ url: '/v1/products/x>; rel="evil", <y' })
    t.equal(String(injected.headers.link).match(/rel="/g)?.length, 2, 'no text is injected')
    const { headers } = await admin.get(`/api/v2/products/${id}`)
    for (const name of ['deprecation', 'sunset', 'link']) t.equal(headers.get(name), null, name)
    t.equal((await admin.get('/livez')).headers.get('deprecation'), null)
  },
)

t.test('a retired version is a 410 VERSION_RETIRED in its own envelope, with its successor', async (t) => {
  const options = { database, versions: deprecated(new Date(Date.now() - 1)) }
  const { admin, anybody } = await testApp(t, { PUBLIC_URL: ORIGIN }, options)
  for (const path of ['/api/v1/products', '/v1/products', '/products', '/v1/users/me']) {
    const { status, body, headers } = await admin.get(path)
    t.same([status, body.error.code, headers.get('api-version')], [410, 'VERSION_RETIRED', '1'], path)
    const prefix = path.startsWith('/v1') ? '/v2' : '/api/v2'
    const successor = `${ORIGIN}${prefix}${path.replace(/^(\/api)?\/v1/, '')}`
    const help = `<${ORIGIN}/docs/#VERSION_RETIRED>; rel="help"`
    t.equal(headers.get('link'), `<${successor}>; rel="successor-version", ${help}`)
    t.ok(headers.get('sunset'))
  }
  t.equal((await admin.post('/v1/products', '{"broken')).status, 410)
  await checkStatuses(t, anybody, '410 /v1/products')
  await checkStatuses(t, admin, '200 /v2/products')
  await checkStatuses(t, admin, '200 /products', { accept: vendor(2) })
})
