/** Each version has one envelope for resources, lists and errors. */
import t from 'tap'
import { testApp } from '../../testing/helpers/app.ts'
import { getViolations } from '../../testing/helpers/replies.ts'

const { admin, adminId, anybody } = await testApp(t)
const UUID = /^[\da-f]{8}-[\da-f]{4}-[47][\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

const input = (sku: string) => ({ sku, name: 'Tea', price_amount: 1999, status: 'active' })
const tea = (await admin.post('/v1/products', input('TEA'))).body.data
const { id: _, created_at, updated_at } = tea
const attributes = { ...input('TEA'), description: null, currency: 'USD', stock: 0, created_at, updated_at }
const members = { id: tea.id, ...attributes }
const typed = { id: tea.id, type: 'products', attributes }
const both = [
  [1, members],
  [2, typed],
] as const
const path = (version: number, id: string = tea.id) => `/api/v${version}/products/${id}`

t.test('the envelope of a single resource', async (t) => {
  for (const [version, data] of both) {
    const before = Date.now()
    const { body } = await admin.get(path(version))
    const { timestamp } = body.meta
    t.same(body, { data, meta: { timestamp } })
    t.match(timestamp, MOMENT)
    t.ok(Date.parse(timestamp) >= before && Date.parse(timestamp) <= Date.now(), 'the time of the reply')
  }
  t.match(tea.id, UUID)
  t.match(tea.created_at, MOMENT)
})

t.test('the envelope of a list, by cursor and by page', async (t) => {
  for (const [version, resource] of both) {
    const cursor = (await admin.get(`/api/v${version}/products`)).body
    t.same(Object.keys(cursor), ['data', 'pagination', 'meta'])
    t.same(cursor.data, [resource])
    t.same(cursor.pagination, { cursor: null, has_more: false })
    t.same(Object.keys(cursor.meta), ['timestamp'])
    const offset = (await admin.get(`/api/v${version}/products?page=1`)).body
    t.same(offset.data, [resource])
    t.same(offset.pagination, { page: 1, limit: 20, total: 1, total_pages: 1 })
    const none = (await admin.get(`/api/v${version}/products?status=archived&page=1`)).body
    t.same(none.data, [])
    t.same(none.pagination, { page: 1, limit: 20, total: 0, total_pages: 0 })
  }
})

t.test('writes return the same resource as reads, and every reply its version', async (t) => {
  for (const version of [1, 2]) {
    const made = await admin.post(`/api/v${version}/products`, input(`W-${version}`))
    const where = path(version, made.body.data.id)
    t.same(made.body.data, (await admin.get(where)).body.data)
    const put = await admin.put(where, { ...input(`W-${version}`), stock: 1 })
    t.same(put.body.data, (await admin.get(where)).body.data)
    const patched = await admin.patch(where, { stock: 2 })
    const read = await admin.get(where)
    t.same(patched.body.data, read.body.data)
    for (const { body } of [made, put, patched]) t.same(Object.keys(body), ['data', 'meta'])
    const kept = await admin.get(where, { 'if-none-match': read.headers.get('etag') ?? '' })
    const head = await admin.call('HEAD', where)
    const options = await admin.call('OPTIONS', where)
    const deleted = await admin.delete(where)
    const replies = [made, put, patched, read, head, kept, options, deleted]
    t.same(
      replies.map(({ status }) => status),
      [201, 200, 200, 200, 200, 304, 204, 204],
    )
    for (const { status, headers, text } of replies) {
      const found = ['api-version', 'vary'].map((name) => headers.get(name))
      t.same(found, [String(version), 'Accept, Authorization, X-API-Key'], String(status))
      t.match(headers.get('x-request-id'), /^[\w.-]{8,128}$/)
      if (status === 204) t.same([headers.get('content-type'), text], [null, ''])
    }
  }
})

t.test('violations are in details in v1 and in errors in v2', async (t) => {
  for (const [version, list] of [
    [1, 'details'],
    [2, 'errors'],
  ] as const) {
    const wrong = { sku: 'X', price_amount: -1, x: 1 }
    const reply = await admin.post(`/api/v${version}/products`, wrong)
    const { status, body } = reply
    t.same([status, Object.keys(body), body.error.code], [422, ['error'], 'VALIDATION_ERROR'])
    t.same(Object.keys(body.error), ['code', 'message', 'request_id', list])
    for (const each of body.error[list]) t.same(Object.keys(each), ['field', 'message', 'code'])
    t.same(getViolations(reply), ['name REQUIRED', 'price_amount OUT_OF_RANGE', 'x UNKNOWN_FIELD'])
  }
})

t.test('request_id equals X-Request-Id, whether the client sent one or not', async (t) => {
  for (const own of ['abcdefgh', 'A1_.-'.repeat(5), 'x'.repeat(128)]) {
    const ok = await admin.get(path(1), { 'x-request-id': own })
    t.equal(ok.headers.get('x-request-id'), own)
    const failed = await admin.get('/nothing', { 'x-request-id': own })
    t.equal(failed.headers.get('x-request-id'), own)
    t.equal(failed.body.error.request_id, own)
    t.equal((await anybody.get('/v2/products/%zz', { 'x-request-id': own })).body.error.request_id, own)
  }
  for (const bad of ['short', 'x'.repeat(129), 'with space', 'semi;colon', 'slash/slash']) {
    const { body, headers } = await admin.get('/nothing', { 'x-request-id': bad })
    t.not(headers.get('x-request-id'), bad)
    t.match(headers.get('x-request-id'), UUID)
    t.equal(body.error.request_id, headers.get('x-request-id'))
  }
  const [a, b] = [await admin.get('/nothing'), await admin.get('/nothing')]
  t.not(a.body.error.request_id, b.body.error.request_id)
})

const document = (data: object) => ({ data: { type: 'products', attributes: input('V2'), ...data } })

t.test('v2 accepts a flat body or a typed body', async (t) => {
  const flat = await admin.post('/v2/products', input('FLAT'))
  t.equal(flat.status, 201)
  const made = await admin.post('/v2/products', document({ attributes: input('TYPED') }))
  t.equal(made.status, 201)
  t.equal(made.body.data.attributes.sku, 'TYPED')
  const { id } = made.body.data
  const where = path(2, id)
  const put = document({ id, attributes: { ...input('TYPED'), stock: 3 } })
  t.equal((await admin.put(where, put)).body.data.attributes.stock, 3)
  const patches: [body: object, stock: number][] = [
    [document({ id, attributes: { stock: 4 } }), 4],
    [document({ attributes: { stock: 5 } }), 5],
    [document({ id: id.toUpperCase(), attributes: {} }), 5],
    [{ stock: 6 }, 6],
  ]
  for (const [body, stock] of patches) {
    t.equal((await admin.patch(where, body)).body.data.attributes.stock, stock)
  }
  const whole = (await admin.get(where)).body
  t.equal((await admin.put(where, { data: whole.data })).status, 200, 'what was read can be put back')
})

type Refusal = [request: string, status: number, body: unknown, ...violations: string[]]

t.test('v2: what is wrong with the envelope and with the attributes is reported together', async (t) => {
  const withId = { id: tea.id, ...input('V2') }
  const several = { sku: '', name: 'N', price_amount: 1.5, x: 1 }
  const flat = ['data UNKNOWN_FIELD', 'name REQUIRED', 'price_amount REQUIRED', 'sku REQUIRED']
  const post = (body: unknown, ...violations: string[]): Refusal => [
    'POST /v2/products',
    422,
    body,
    ...violations,
  ]
  for (const [request, status, body, ...violations] of [
    ...['users', 'product', 'Products', '', 5, null].map(
      (type): Refusal => ['POST /v2/products', 409, document({ type }), 'data.type INVALID_VALUE'],
    ),
    ...[adminId, 'x', 5, null].flatMap((id) =>
      ['PUT', 'PATCH'].map((method): Refusal => {
        const sent = document({ id, attributes: input('TEA') })
        return [`${method} ${path(2)}`, 409, sent, 'data.id INVALID_VALUE']
      }),
    ),
    post(document({ id: tea.id }), 'data.id READ_ONLY'),
    post(document({ attributes: withId }), 'data.attributes.id READ_ONLY'),
    post(withId, 'id READ_ONLY'),
    ['POST /v1/products', 422, withId, 'id READ_ONLY'] satisfies Refusal,
    post(
      { data: { id: tea.id, links: {}, attributes: several } },
      ...['data.attributes.price_amount INVALID_TYPE', 'data.attributes.sku TOO_SHORT'],
      ...['data.attributes.x UNKNOWN_FIELD', 'data.id READ_ONLY', 'data.links UNKNOWN_FIELD'],
      'data.type REQUIRED',
    ),
    post(document({ x: 1 }), 'data.x UNKNOWN_FIELD'),
    post({ data: { type: 'products' } }, 'data.attributes REQUIRED'),
    post(document({ attributes: [] }), 'data.attributes INVALID_TYPE'),
    post({ data: {} }, 'data.attributes REQUIRED', 'data.type REQUIRED'),
    // A body that is not an envelope is flat.
    post({ ...document({}), meta: {} }, 'data UNKNOWN_FIELD', 'meta UNKNOWN_FIELD', ...flat.slice(1)),
    ...[null, [], 'x', 5].map((data) => post({ data }, ...flat)),
  ]) {
    const [method = '', url = ''] = request.split(' ')
    const reply = await admin.call(method, url, { body })
    const code = status === 409 ? 'RESOURCE_CONFLICT' : 'VALIDATION_ERROR'
    const found = [reply.status, reply.body.error.code, getViolations(reply)]
    t.same(found, [status, code, violations], `${request} ${JSON.stringify(body)}`)
  }
})
