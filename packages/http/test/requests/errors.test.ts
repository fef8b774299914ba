/** Every error status has its documented code, headers and envelope, and reveals nothing of the implementation. */
import t, { type Test } from 'tap'
import { v7 as uuid } from 'uuid'
import { createDatabase } from '../../../database/src/client/database.ts'
import { DatabaseUnavailable } from '../../../database/src/client/errors.ts'
import { type Json, type Reply, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { createNotesTable, resourcesWithNotes } from '../../../testing/helpers/notes.ts'
import { replaceResource, serve } from '../../../testing/helpers/serve.ts'
import { productsResource } from '../../../testing/helpers/shop.ts'
import { v1 } from '../../src/versioning/representation/v1.ts'
import { v2 } from '../../src/versioning/representation/v2.ts'

const database = await createSharedDatabase(t)
await createNotesTable(database)
const SQL = 'select * from users where password_hash = $1'

/** What the creation of a product throws, by its name. */
const thrown = new Map<unknown, unknown>([
  ['error', new Error(`Failed query: ${SQL}`)],
  ['status', Object.assign(new Error(SQL), { statusCode: 418, code: 'FST_ERR_OWN', expose: true })],
  ['string', SQL],
  ['nothing', undefined],
  ['away', new DatabaseUnavailable('The database is unavailable (ECONNREFUSED)', { cause: new Error(SQL) })],
])

let isAway = false
const leaving = <T>(work: () => Promise<T>): Promise<T> =>
  isAway ? Promise.reject(new DatabaseUnavailable('gone', { cause: new Error(SQL) })) : work()
const unreliable = createDatabase({
  ...database.$client,
  run: (text, params) => leaving(() => database.$client.run(text, params)),
  transaction: (work, limits) => leaving(() => database.$client.transaction(work, limits)),
  ping: (timeout) => leaving(() => database.ping(timeout)),
})

const logs: string[] = []
const exploding = serve(productsResource, {
  create: {
    async run({ store, body }) {
      if (thrown.has(body.name)) throw thrown.get(body.name)
      return store.insert(body)
    },
  },
})
const { admin, anybody, person } = await testApp(
  t,
  { LOG_LEVEL: 'error', REQUIRE_IF_MATCH: 'true' },
  {
    database: unreliable,
    resources: replaceResource(resourcesWithNotes, 'products', () => exploding),
    logs: { write: (line) => logs.push(line) },
  },
)
const ended = { since: new Date(0), sunset: new Date(1) }
const versions = [
  { representation: v1, deprecated: { ...ended, successor: 2 } },
  { representation: v2, deprecated: { ...ended, successor: 3 } },
]
const retired = await testApp(t, {}, { database, versions })
const member = (await person('member')).client

/** That a reply is the envelope of that version, with that status and code, and leaks nothing. */
function isFailure(t: Test, reply: Reply, version: number, status: number, code: string, sentence = '') {
  const { body, headers, text } = reply
  t.equal(reply.status, status, `v${version} ${status} ${sentence}`)
  t.same(Object.keys(body ?? {}), ['error'])
  t.equal(body?.error.code, code)
  t.match(body?.error.message, /^[A-Z][^{}]{4,200}$/)
  t.equal(body?.error.request_id, headers.get('x-request-id'))
  t.ok(headers.get('link')?.endsWith(`</docs/#${code}>; rel="help"`), `${headers.get('link')}`)
  const names = ['content-type', 'cache-control', 'api-version', 'vary']
  t.same(
    names.map((name) => headers.get(name)),
    ['application/json; charset=utf-8', 'no-store', `${version}`, 'Accept, Authorization, X-API-Key'],
  )
  const list = version === 1 ? 'details' : 'errors'
  for (const key of Object.keys(body?.error ?? {})) {
    t.ok(['code', 'message', 'request_id', list].includes(key), key)
  }
  for (const each of body?.error[list] ?? []) t.same(Object.keys(each), ['field', 'message', 'code'])
  t.notMatch(text, /select |password_hash|postgres|pglite|\bat \/|node:|\.ts|stack/i)
}

const input = (sku: string, name = 'A') => ({ sku, name, price_amount: 1 })

for (const version of [1, 2]) {
  const base = `/api/v${version}`
  const products = `${base}/products`

  t.test(`v${version}: every error status has its code, in the envelope`, async (t) => {
    const made = await admin.post(products, input(`E-${version}`))
    const one = `${products}/${made.body.data.id}`
    const unknown = `${products}/${uuid()}`
    const cases: [status: number, code: string, reply: Reply, sentence?: string][] = [
      [400, 'INVALID_REQUEST', await admin.post(products, '{"broken'), 'an unreadable body'],
      [400, 'INVALID_REQUEST', await admin.call('POST', products), 'an empty body'],
      [400, 'INVALID_REQUEST', await admin.post(products, '[]'), 'a body that is no object'],
      [400, 'INVALID_REQUEST', await admin.get(products, { authorization: 'Bearer x' }), 'two credentials'],
      [400, 'INVALID_REQUEST', await admin.get(`${products}?search=%zz`), 'an encoding that is none'],
      [400, 'VALIDATION_ERROR', await admin.get(`${products}?limit=0&x=1`), 'the query'],
      [400, 'INVALID_CURSOR', await admin.get(`${products}?cursor=x`), 'the cursor'],
      [401, 'UNAUTHORIZED', await anybody.get(products), 'no credentials'],
      [401, 'UNAUTHORIZED', await anybody.get(products, { 'x-api-key': 'x' }), 'a bad key'],
      [401, 'UNAUTHORIZED', await anybody.get(products, { authorization: 'Bearer x' }), 'a bad token'],
      [401, 'UNAUTHORIZED', await anybody.get(products, { authorization: 'Basic eDp5' }), 'another scheme'],
      [403, 'FORBIDDEN', await member.post(products, {}), 'a role'],
      [403, 'FORBIDDEN', await (await person('admin', ['orders:read'])).client.get(products), 'a scope'],
      [404, 'RESOURCE_NOT_FOUND', await admin.get(unknown), 'a row'],
      [404, 'RESOURCE_NOT_FOUND', await admin.get(`${base}/nothing`), 'a path'],
      [405, 'METHOD_NOT_ALLOWED', await admin.delete(products)],
      [406, 'NOT_ACCEPTABLE', await admin.get(products, { accept: 'text/html' })],
      [409, 'RESOURCE_CONFLICT', await admin.post(products, input(`E-${version}`)), 'a taken value'],
      [410, 'VERSION_RETIRED', await retired.admin.get(products)],
      [412, 'PRECONDITION_FAILED', await admin.patch(one, {}, { 'if-match': '"9-abcdefghijkl"' })],
      [413, 'PAYLOAD_TOO_LARGE', await admin.post(products, 'x'.repeat(1_048_577))],
      [414, 'URI_TOO_LONG', await admin.get(`${products}?search=${'x'.repeat(8_192)}`)],
      [415, 'UNSUPPORTED_MEDIA_TYPE', await admin.post(products, 'x', { 'content-type': 'text/plain' })],
      [422, 'VALIDATION_ERROR', await admin.post(products, { x: 1 })],
      [428, 'PRECONDITION_REQUIRED', await admin.patch(one, {})],
      [501, 'NOT_IMPLEMENTED', await admin.call('PROPFIND', products)],
      [431, 'HEADERS_TOO_LARGE', await admin.get(products, { 'x-long': 'x'.repeat(16_384) })],
    ]
    for (const [status, code, reply, sentence] of cases) isFailure(t, reply, version, status, code, sentence)
  })

  t.test(`v${version}: an unexpected error is a 500 that reveals nothing of it`, async (t) => {
    for (const way of ['error', 'status', 'string', 'nothing']) {
      const reply = await admin.post(products, input(`X-${way}-${version}`, way))
      isFailure(t, reply, version, 500, 'INTERNAL_SERVER_ERROR', way)
      t.equal(reply.body.error.message, 'Something went wrong on our side')
      t.equal((await admin.get(`${products}?search=X-${way}`)).body.data.length, 0)
    }
  })

  t.test(`v${version}: requests get 503 with Retry-After while the database is unavailable`, async (t) => {
    const away = await admin.post(products, input(`AWAY-${version}`, 'away'))
    isFailure(t, away, version, 503, 'SERVICE_UNAVAILABLE')
    isAway = true
    t.teardown(() => {
      isAway = false
    })
    const replies = [
      await admin.get(products),
      await admin.get(`${products}/${uuid()}`),
      await admin.post(products, input('Y')),
      await admin.patch(`${products}/${uuid()}`, {}),
      await admin.delete(`${products}/${uuid()}`),
    ]
    for (const reply of replies) {
      isFailure(t, reply, version, 503, 'SERVICE_UNAVAILABLE')
      t.match(reply.headers.get('retry-after'), /^[1-9]\d*$/)
    }
    isAway = false
    t.equal((await admin.get(products)).status, 200, 'and all is well when it is back')
  })
}

t.test('an unexpected error is logged with the request id, an undefined method is not', async (t) => {
  const { request_id } = (await admin.post('/products', input('LOGGED', 'error'))).body.error
  const other = (await admin.call('PROPFIND', '/products')).body.error
  const lines: Json[] = logs.map((line) => JSON.parse(line))
  t.notOk(lines.some((line) => line.request_id === other.request_id))
  t.match(
    lines.find((line) => line.request_id === request_id),
    { level: 'error', err: { stack: /errors\.test\.ts/ } },
  )
})

const unknownPaths: [path: string, message: string][] = [
  ['/api/v3/users', 'There is no version 3; supported: 1, 2'],
  ['/v3', 'There is no version 3; supported: 1, 2'],
  ['/v01/products', 'There is no version 01; supported: 1, 2'],
  ['/v1x/products', 'There is no such version; supported: 1, 2'],
  [`/v${'1'.repeat(400)}/products`, 'There is no such version; supported: 1, 2'],
  ['/product', 'Resource not found'],
  ['/%22%3Cscript', 'Resource not found'],
  ['/api/v1', 'Resource not found'],
  ['/v1', 'Resource not found'],
  ['/v2/products//', 'Resource not found'],
  ['/products/x/y', 'Resource not found'],
  ['/openapi/v9.json', 'Resource not found'],
]

t.test('an unknown path is a 404 without credentials, which names an unknown version', async (t) => {
  for (const [path, message] of unknownPaths) {
    const { status, body } = await anybody.get(path)
    t.same([status, body.error.code, body.error.message], [404, 'RESOURCE_NOT_FOUND', message], path)
  }
})

t.test('an unknown id is a 404 that names the resource and the id', async (t) => {
  const note = { title: 'a', body: 'b' }
  const unknown = `with the id ${UNKNOWN_ID}`
  for (const [request, message, body] of [
    [`GET /products/${UNKNOWN_ID}`, `There is no product ${unknown}`],
    [`GET /products/${UNKNOWN_ID.toUpperCase()}`, `There is no product ${unknown}`],
    [`DELETE /user-profiles/${UNKNOWN_ID}`, `There is no user profile ${unknown}`],
    [`PATCH /orders/${UNKNOWN_ID}`, `There is no order ${unknown}`, {}],
    [`GET /users/${UNKNOWN_ID}/notes`, `There is no user ${unknown}`],
    [`GET /users/me/notes/${UNKNOWN_ID}`, `There is no note ${unknown}`],
    [`POST /users/${UNKNOWN_ID}/notes`, 'The user_id in the path does not exist', note],
    ['GET /products/TEA-001', 'The id in the path is not a UUID'],
  ] as const) {
    const [method = '', path = ''] = request.split(' ')
    const reply = await admin.call(method, path, { body })
    const { code, message: found } = reply.body.error
    t.same([reply.status, code, found], [404, 'RESOURCE_NOT_FOUND', message], request)
  }
})
