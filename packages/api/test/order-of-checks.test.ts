/** A request that breaks two rules gets the error of the check that comes first. */
import t from 'tap'
import { v7 as uuid } from 'uuid'
import { ADMIN_KEY, type CallOptions, type Client, testApp } from '../../testing/helpers/app.ts'
import { createNotes } from '../../testing/helpers/notes.ts'
import { v1 } from '../src/versions/representation/v1.ts'
import { v2 } from '../src/versions/representation/v2.ts'

// v1 has ended, so that 410 can be asked for; all but a few requests go to v2.
const ended = { since: new Date(0), sunset: new Date(1), successor: 2 }
const versions = [{ representation: v1, deprecated: ended }, { representation: v2 }]
const served = { ...(await createNotes(t)), versions }
const { admin, anybody, person } = await testApp(t, { REQUIRE_IF_MATCH: 'true' }, served)
const member = (await person('member')).client
const reader = (await person('admin', ['products:read'])).client

const product = (
  await admin.post('/v2/products', { sku: 'A', name: 'A', price_amount: 1, stock: 5, status: 'active' })
).body.data
const items = [{ product_id: product.id, quantity: 1 }]
const order = `/v2/orders/${(await admin.post('/v2/orders', { items })).body.data.id}`
const ownNote = (await admin.post('/v2/users/me/notes', { title: 'A', body: 'B', status: 'published' })).body
  .data

const PRODUCTS = '/v2/products'
const unknownNote = `/v2/users/${uuid()}/notes/${uuid()}`
const one = `${PRODUCTS}/${product.id}`
const unknown = `${PRODUCTS}/${uuid()}`
const unknownNotes = `/v2/users/${uuid()}/notes`
const note = `/v2/users/${ownNote.attributes.user_id}/notes/${ownNote.id}`
const html = { accept: 'text/html' }
const two = { authorization: 'Bearer x', 'x-api-key': ADMIN_KEY }
const bad = { 'x-api-key': 'bad' }
const bothBad = { ...two, ...bad }
const text = { 'content-type': 'text/plain' }
const stale = { 'if-match': '"9-abcdefghijkl"' }
const noneMatch = { 'if-none-match': '*' }
const current = { 'if-match': '*' }
const large = 'x'.repeat(1_048_577)
const broken = '{"broken'
const negative = { stock: -1 }
const title = { title: 'T' }
const newNote = { title: 'T', body: 'B' }
const completed = { status: 'completed' }
const taken = { sku: 'B' }
const REQUIRED = '428 PRECONDITION_REQUIRED'
const FAILED = '412 PRECONDITION_FAILED'

/** Each request breaks the rule of its line and as many later ones as possible; the earliest is reported. */
const cases: [sentence: string, error: string, request: string, options?: CallOptions, client?: Client][] = [
  ['path before method', '404 RESOURCE_NOT_FOUND', 'DELETE /v2/nothing'],
  ['path before Accept', '404 RESOURCE_NOT_FOUND', 'GET /v2/nothing', { headers: html }],
  ['path before retirement', '404 RESOURCE_NOT_FOUND', 'GET /v1/nothing'],
  ['path before credentials', '404 RESOURCE_NOT_FOUND', 'GET /v2/nothing', {}, anybody],
  ['path before body', '404 RESOURCE_NOT_FOUND', 'POST /v2/nothing', { headers: text, body: broken }],
  ['method before Accept', '405 METHOD_NOT_ALLOWED', `DELETE ${PRODUCTS}`, { headers: html }],
  ['method before retirement', '405 METHOD_NOT_ALLOWED', 'DELETE /v1/products'],
  ['method before credentials', '405 METHOD_NOT_ALLOWED', `DELETE ${PRODUCTS}`, {}, anybody],
  ['method before body', '405 METHOD_NOT_ALLOWED', `PUT ${PRODUCTS}`, { headers: text, body: broken }],
  ['Accept before retirement', '406 NOT_ACCEPTABLE', 'GET /v1/products', { headers: html }],
  ['Accept before credentials', '406 NOT_ACCEPTABLE', `GET ${PRODUCTS}`, { headers: html }, anybody],
  ['retirement before credentials', '410 VERSION_RETIRED', 'GET /v1/products', {}, anybody],
  ['two credentials before bad ones', '400 INVALID_REQUEST', `GET ${PRODUCTS}`, { headers: bothBad }],
  ['credentials before role', '401 UNAUTHORIZED', `POST ${PRODUCTS}`, { body: {} }, anybody],
  ['credentials before size', '401 UNAUTHORIZED', `POST ${PRODUCTS}`, { headers: bad, body: large }],
  ['credentials before query', '401 UNAUTHORIZED', `GET ${PRODUCTS}?x=1`, { headers: bad }],
  ['role before type', '403 FORBIDDEN', `POST ${PRODUCTS}`, { headers: text, body: 'x' }, member],
  ['role before query', '403 FORBIDDEN', 'GET /v2/users?x=1', {}, member],
  ['role before members', '403 FORBIDDEN', `POST ${PRODUCTS}`, { body: {} }, member],
  ['role before row', '403 FORBIDDEN', `PATCH ${unknown}`, { body: {} }, member],
  ['scope before type', '403 FORBIDDEN', `POST ${PRODUCTS}`, { headers: text, body: 'x' }, reader],
  ['scope before row', '403 FORBIDDEN', `DELETE ${unknown}`, {}, reader],
  ['type before size', '415 UNSUPPORTED_MEDIA_TYPE', `POST ${PRODUCTS}`, { headers: text, body: large }],
  ['type before query', '415 UNSUPPORTED_MEDIA_TYPE', `POST ${PRODUCTS}?x=1`, { headers: text, body: '{}' }],
  ['size before syntax', '413 PAYLOAD_TOO_LARGE', `POST ${PRODUCTS}`, { body: large }],
  ['syntax before query', '400 INVALID_REQUEST', `POST ${PRODUCTS}?x=1`, { body: broken }],
  ['an absent body before query', '400 INVALID_REQUEST', `PUT ${one}?x=1`],
  ['syntax before row', '400 INVALID_REQUEST', `PATCH ${unknown}`, { body: broken }],
  ['query before members', '400 VALIDATION_ERROR', `POST ${PRODUCTS}?x=1`, { body: {} }],
  ['query before row', '400 VALIDATION_ERROR', `GET ${unknown}?x=1`],
  ['query before parent', '400 VALIDATION_ERROR', `GET ${unknownNotes}?x=1`],
  ['members before row', '422 VALIDATION_ERROR', `PATCH ${unknown}`, { body: negative }],
  ['members before parent', '422 VALIDATION_ERROR', `POST ${unknownNotes}`, { body: {} }],
  ['members before access', '422 VALIDATION_ERROR', `PATCH ${note}`, { body: { title: '' } }, member],
  ['members before precondition', '422 VALIDATION_ERROR', `PATCH ${one}`, { headers: stale, body: negative }],
  ['row before access', '404 RESOURCE_NOT_FOUND', `PATCH ${unknownNote}`, { body: title }, member],
  ['parent before access', '404 RESOURCE_NOT_FOUND', `POST ${unknownNotes}`, { body: newNote }, member],
  ['row before a precondition that is required', '404 RESOURCE_NOT_FOUND', `DELETE ${unknown}`],
  ['access before a precondition that is required', '403 FORBIDDEN', `DELETE ${note}`, {}, member],
  ['a required precondition before another', REQUIRED, `PATCH ${one}`, { headers: noneMatch, body: {} }],
  ['precondition before state', FAILED, `PATCH ${order}`, { headers: stale, body: completed }],
  ['last of all, state', '409 RESOURCE_CONFLICT', `PATCH ${order}`, { headers: current, body: completed }],
  ['and a taken value', '409 RESOURCE_CONFLICT', `PATCH ${one}`, { headers: current, body: taken }],
]

t.test('a request that breaks two rules gets the error of the earlier check', async (t) => {
  await admin.post(PRODUCTS, { sku: 'B', name: 'B', price_amount: 1 })
  for (const [sentence, error, request, options, client = admin] of cases) {
    const [method = '', path = ''] = request.split(' ')
    const { status, body } = await client.call(method, path, options)
    t.equal(`${status} ${body?.error?.code}`, error, sentence)
  }
})

t.test('OPTIONS checks nothing but the path', async (t) => {
  for (const [path, headers] of Object.entries({
    ...{ [PRODUCTS]: {}, [one]: html, [unknown]: bad, [`${PRODUCTS}?x=1`]: two, '/v1/products': {} },
  }))
    t.equal((await anybody.call('OPTIONS', path, { headers })).status, 204, path)
  t.equal((await anybody.call('OPTIONS', '/v2/nothing')).status, 404)
})
