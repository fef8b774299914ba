/** Every form of a path reaches the same route, and links repeat the form that the client used. */
import t from 'tap'
import { createAddressing } from '../../plugins/versioning/addresses.ts'
import { v1 } from '../../plugins/versioning/representation/v1.ts'
import { ADMIN_KEY, testApp } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { sendRaw } from '../helpers/network.ts'
import { createNotesTable, resourcesWithNotes } from '../helpers/notes.ts'
import { getLinks } from '../helpers/replies.ts'

const database = await createSharedDatabase(t)
const { admin, adminId, port } = await testApp(t, {}, { database, resources: resourcesWithNotes })
await createNotesTable(database)
const published = await testApp(t, { PUBLIC_URL: 'https://api.example.com' }, { database })

const product = (sku: string) => ({ sku, name: sku, price_amount: 1 })
const { id } = (await admin.post('/products', product('ADDRESS'))).body.data
await admin.post('/products', product('ADDRESS-2'))

const forms = ['/api/v1', '/v1', '/api/v2', '/v2', '/api', '']
const getVersion = (form: string) => form.match(/\d/)?.[0] ?? '1'

for (const form of forms) {
  const version = getVersion(form)
  t.test(`${form || 'no prefix'}: every route answers with the API-Version header`, async (t) => {
    const list = await admin.get(`${form}/products?limit=1`)
    t.equal(list.status, 200)
    t.equal(list.headers.get('api-version'), version)
    t.equal('attributes' in list.body.data[0], version === '2')
    t.equal((await admin.get(`${form}/products/${id}`)).status, 200)
    t.equal((await admin.get(`${form}/users/${adminId}/notes`)).status, 200)
  })

  t.test(`${form || 'no prefix'}: Link and Location repeat the form of the path`, async (t) => {
    const page = await admin.get(`${form}/products?limit=1&sort=name`)
    const { next, first } = getLinks(page)
    t.ok(next?.startsWith(`${form}/products?`))
    t.equal(first, `${form}/products?limit=1&sort=name`)
    const followed = await admin.get(next ?? '')
    t.equal(followed.status, 200)
    t.equal(followed.headers.get('api-version'), version)

    const pages = getLinks(await admin.get(`${form}/products?page=1&limit=1`))
    for (const rel of ['next', 'first', 'last']) t.ok(pages[rel]?.startsWith(`${form}/products?`), rel)

    const made = await admin.post(`${form}/products`, product(`L${form.replaceAll('/', '-')}`))
    t.equal(made.headers.get('location'), `${form}/products/${made.body.data.id}`)
    t.equal((await admin.get(made.headers.get('location') ?? '')).body.data.id, made.body.data.id)

    const note = await admin.post(`${form}/users/me/notes`, { title: 'A', body: 'B' })
    t.equal(note.headers.get('location'), `${form}/users/${adminId}/notes/${note.body.data.id}`)
    t.equal((await admin.get(note.headers.get('location') ?? '')).status, 200)
  })

  t.test(`${form || 'no prefix'}: Link and Location are absolute with PUBLIC_URL`, async (t) => {
    const page = await published.admin.get(`${form}/products?limit=1`)
    t.equal(getLinks(page).first, `https://api.example.com${form}/products?limit=1`)
    t.ok(getLinks(page).next?.startsWith(`https://api.example.com${form}/products?`))
    const made = await published.admin.post(`${form}/products`, product(`P${form.replaceAll('/', '-')}`))
    t.equal(made.headers.get('location'), `https://api.example.com${form}/products/${made.body.data.id}`)
  })

  t.test(`${form || 'no prefix'}: one trailing slash is ignored, two are a 404`, async (t) => {
    t.equal((await admin.get(`${form}/products/`)).status, 200)
    t.equal((await admin.get(`${form}/products/?limit=1`)).status, 200)
    t.equal((await admin.get(`${form}/products/${id}/`)).status, 200)
    t.equal(getLinks(await admin.get(`${form}/products/?limit=1`)).first, `${form}/products?limit=1`)
    t.equal((await admin.get(`${form}/products//`)).status, 404)
  })

  t.test(`${form || 'no prefix'}: paths are case-sensitive`, async (t) => {
    t.equal((await admin.get(`${form}/Products`)).status, 404)
    t.equal((await admin.get(`${form}/PRODUCTS/${id}`)).status, 404)
    if (form !== '') t.equal((await admin.get(`${form.toUpperCase()}/products`)).status, 404)
  })
}

t.test('an unknown version in the URL is a 404 in the envelope of the default version', async (t) => {
  const malformed = ['v0', 'v01', 'v1x', 'v1.0', 'v-1', 'v1e0', 'v', 'vabc', 'V1', 'v%31x']
  const names = [...malformed, 'v3', `v${'1'.repeat(400)}`]
  for (const name of names) {
    for (const path of [`/api/${name}/products`, `/${name}/products`, `/api/${name}`, `/${name}/`]) {
      const { status, body, headers } = await admin.get(path)
      t.equal(status, 404, path)
      t.equal(body.error.code, 'RESOURCE_NOT_FOUND')
      t.equal(body.error.request_id, headers.get('x-request-id'))
    }
  }
})

t.test('an unknown path is a 404 in the envelope of the requested version', async (t) => {
  for (const form of forms) {
    const { status, headers } = await admin.get(`${form}/nothing`)
    t.equal(status, 404)
    t.equal(headers.get('api-version'), getVersion(form))
    t.equal(headers.get('vary'), 'Accept, Authorization, X-API-Key')
  }
  const bare = ['/api', '/api/', '/api/v1', '/v2/']
  for (const path of [...bare, '/api/api/products', '/v1/api/products', '/api/v1/v1/products']) {
    t.equal((await admin.get(path)).status, 404, path)
  }
})

t.test('routes without a version answer without the API-Version header', async (t) => {
  for (const path of ['/livez', '/readyz', '/openapi/v1.json', '/openapi/v2.json']) {
    const { status, headers } = await admin.get(path)
    t.equal(status, 200, path)
    t.equal(headers.get('api-version'), null, path)
    t.equal((await admin.get(`/api${path}`)).status, 404, 'and in no other form')
    t.equal((await admin.get(`/api/v1${path}`)).status, 404)
  }
  t.equal((await admin.get('/livez', { accept: 'text/html' })).status, 200)
})

t.test('a percent-encoded unreserved character is decoded', async (t) => {
  for (const path of ['/%61pi/v1/products', '/api/%76%31/products', '/api/v1/%70roducts', '/%70roducts']) {
    t.equal((await admin.get(path)).status, 200, path)
  }
  for (const path of ['/api/v1/products%3F', '/api%2Fv1/products']) {
    t.equal((await admin.get(path)).status, 404, path)
  }
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
  const proxied = await testApp(t, { TRUST_PROXY: 'true' }, { database })
  const forwarded = { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https' }
  const page = await proxied.admin.get('/products?limit=1', { ...forwarded, 'x-forwarded-prefix': '/evil' })
  t.equal(getLinks(page).first, '/products?limit=1')
})

t.test('DEFAULT_API_VERSION serves requests that name no version', async (t) => {
  const second = await testApp(t, { DEFAULT_API_VERSION: '2' }, { database })
  const reply = await second.admin.get(`/products/${id}`)
  t.equal(reply.headers.get('api-version'), '2')
  t.equal(reply.body.data.type, 'products')
  t.equal((await second.admin.get(`/v1/products/${id}`)).headers.get('api-version'), '1')
  const { error } = (await second.admin.get('/api/v3/products?x=1')).body
  t.same(Object.keys(error), ['code', 'message', 'request_id'])
})

t.test('a DEFAULT_API_VERSION that does not exist stops the start', async (t) => {
  t.throws(() => createAddressing([{ representation: v1 }], 3), /default version 3 does not exist/)
})
