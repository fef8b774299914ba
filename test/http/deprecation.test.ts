/** A deprecated version announces its end in every reply, and a retired one answers 410. */
import t from 'tap'
import { type Version, versions } from '../../plugins/versioning/index.ts'
import { v1 } from '../../plugins/versioning/representation/v1.ts'
import { v2 } from '../../plugins/versioning/representation/v2.ts'
import { testApp } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'

const database = await createSharedDatabase(t)
const DAY = 86_400_000
const since = new Date('2026-01-01T00:00:00Z')
const deprecated = (sunset: Date): readonly Version[] => [
  { representation: v1, deprecated: { since, sunset, successor: 2 } },
  { representation: v2 },
]

t.test('no version is deprecated at present', async (t) => {
  for (const { deprecated } of versions) t.equal(deprecated, undefined)
})

t.test('a deprecated version', async (t) => {
  const sunset = new Date(Math.floor(Date.now() / 1000) * 1000 + DAY)
  const { admin, anybody, app } = await testApp(t, {}, { database, versions: deprecated(sunset) })
  const { id } = (await admin.post('/api/v1/products', { sku: 'A', name: 'A', price_amount: 1 })).body.data

  t.test('every reply has Deprecation, Sunset and a link to the successor, errors included', async (t) => {
    const cases: [path: string, successor: string][] = [
      [`/api/v1/products/${id}`, `/api/v2/products/${id}`],
      [`/v1/products/${id}`, `/v2/products/${id}`],
      [`/api/products/${id}`, `/api/v2/products/${id}`],
      [`/products/${id}`, `/api/v2/products/${id}`],
      ['/v1/products/nothing', '/v2/products/nothing'],
      ['/v1/products/a%3Eb', '/v2/products/a%3Eb'],
    ]
    for (const [path, successor] of cases) {
      const { headers } = await admin.get(path)
      t.equal(headers.get('deprecation'), `@${since.getTime() / 1000}`, path)
      t.equal(headers.get('sunset'), sunset.toUTCString())
      t.equal(headers.get('link'), `<${successor}>; rel="successor-version"`)
      if (successor.endsWith(id)) t.equal((await admin.get(successor)).status, 200)
    }
    t.equal((await anybody.get('/v1/products')).headers.get('deprecation'), '@1767225600', '401')
    t.equal((await admin.post('/v1/products', {})).headers.get('deprecation'), '@1767225600', '422')
  })

  t.test('a list keeps its own links next to the successor link', async (t) => {
    const { headers } = await admin.get('/v1/products?limit=1')
    const successor = '</v2/products>; rel="successor-version"'
    t.equal(headers.get('link'), `${successor}, </v1/products?limit=1>; rel="first"`)
  })

  t.test('a request path cannot inject text into the Link header', async (t) => {
    const reply = await app.inject({ url: '/v1/products/x>; rel="evil", <y' })
    t.equal(String(reply.headers.link).match(/rel="/g)?.length, 1)
  })

  t.test('replies of the successor have no such headers', async (t) => {
    const { headers } = await admin.get(`/api/v2/products/${id}`)
    for (const name of ['deprecation', 'sunset', 'link']) t.equal(headers.get(name), null, name)
    t.equal((await admin.get('/livez')).headers.get('deprecation'), null)
  })
})

t.test('the link to the successor is absolute with PUBLIC_URL', async (t) => {
  const settings = { PUBLIC_URL: 'https://api.example.com' }
  const soon = new Date(Date.now() + DAY)
  const { admin } = await testApp(t, settings, { database, versions: deprecated(soon) })
  const { headers } = await admin.get('/v1/users/me')
  t.equal(headers.get('link'), '<https://api.example.com/v2/users/me>; rel="successor-version"')
})

t.test('a retired version', async (t) => {
  const retired = deprecated(new Date(Date.now() - 1))
  const { admin, anybody } = await testApp(t, {}, { database, versions: retired })

  t.test('every request is a 410 VERSION_RETIRED in its own envelope, with its successor', async (t) => {
    for (const path of ['/api/v1/products', '/v1/products', '/products', '/v1/users/me']) {
      const { status, body, headers } = await admin.get(path)
      t.equal(status, 410, path)
      t.equal(body.error.code, 'VERSION_RETIRED')
      t.equal(headers.get('api-version'), '1')
      t.match(headers.get('link'), /v2.*rel="successor-version"/)
      t.ok(headers.get('sunset'))
    }
    t.equal((await admin.post('/v1/products', '{"broken')).status, 410)
    t.equal((await anybody.get('/v1/products')).status, 410, 'without credentials too')
  })

  t.test('other versions are still served', async (t) => {
    t.equal((await admin.get('/v2/products')).status, 200)
    const { status } = await admin.get('/products', { accept: 'application/vnd.api+json;version=2' })
    t.equal(status, 200)
  })
})
