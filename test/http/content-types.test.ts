/** Which media types a request body may have, and how a body with another type is refused. */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { ADMIN_KEY, testApp } from '../helpers/app.ts'
import { sendRaw } from '../helpers/network.ts'

const { admin, base, port } = await testApp(t)
const VENDOR = 'application/vnd.api+json'
const JSON_TYPES = ['application/json', VENDOR]
const MERGE_PATCH = 'application/merge-patch+json'
const OTHERS = [
  ...['text/plain', 'text/json', 'application/xml', 'application/x-www-form-urlencoded', 'json', '*/*'],
  ...['multipart/form-data; boundary=x', 'application/json-patch+json', 'application/jsonx', 'application/*'],
]

let count = 0
const product = () => ({ sku: `M-${++count}`, name: 'M', price_amount: 1 })
const made = (await admin.post('/products', product())).body.data
const path = `/products/${made.id}`

const WRITES = [
  ['POST', '/products'],
  ['PUT', path],
  ['PATCH', path],
] as const

/** Sends a body as bytes, with these headers alone. */
const send = (method: string, url: string, body: string | Buffer, headers: Record<string, string>) =>
  fetch(base + url, {
    method,
    body: new Uint8Array(Buffer.from(body)),
    headers: { 'x-api-key': ADMIN_KEY, ...headers },
  })

t.test('POST, PUT and PATCH accept application/json and the vendor type', async (t) => {
  const spellings = ['APPLICATION/JSON', `${VENDOR};version=1`, 'application/json ; charset=utf-8']
  for (const type of [...JSON_TYPES, ...spellings]) {
    t.equal((await admin.post('/products', product(), { 'content-type': type })).status, 201, type)
    t.equal((await admin.put(path, { ...product() }, { 'content-type': type })).status, 200, type)
    t.equal((await admin.patch(path, { stock: 1 }, { 'content-type': type })).status, 200, type)
  }
})

t.test('application/merge-patch+json is accepted by PATCH alone', async (t) => {
  for (const type of [MERGE_PATCH, `${MERGE_PATCH}; charset=utf-8`]) {
    t.equal((await admin.patch(path, { stock: 2 }, { 'content-type': type })).status, 200, type)
  }
  for (const [method, url] of [
    ['POST', '/products'],
    ['PUT', path],
  ] as const) {
    const headers = { 'content-type': MERGE_PATCH }
    const { status, body } = await admin.call(method, url, { body: product(), headers })
    t.equal(status, 415, method)
    t.equal(body.error.code, 'UNSUPPORTED_MEDIA_TYPE')
  }
})

t.test('another or a missing Content-Type is rejected with 415', async (t) => {
  for (const [method, url] of WRITES) {
    for (const type of OTHERS) {
      const headers = { 'content-type': type }
      const { status, body } = await admin.call(method, url, { body: product(), headers })
      t.equal(status, 415, `${method} ${type}`)
      t.equal(body.error.code, 'UNSUPPORTED_MEDIA_TYPE')
    }
    const untyped = await send(method, url, JSON.stringify(product()), {})
    t.equal(untyped.status, 415, `${method} without a type`)
  }
})

t.test('a 415 names the media types that the method accepts', async (t) => {
  const types = JSON_TYPES.join(', ')
  const unacceptable: Record<string, string>[] = [
    { 'content-type': 'text/plain' },
    { 'content-type': 'application/json; charset=utf-16' },
    { 'content-type': 'application/json', 'content-encoding': 'gzip' },
  ]
  for (const headers of unacceptable) {
    for (const [method, url, accept, acceptPatch] of [
      ['POST', '/products', `${types}, application/x-ndjson, text/csv`, null],
      ['POST', '/tokens', types, null],
      ['PUT', path, types, null],
      ['PATCH', path, `${types}, ${MERGE_PATCH}`, `${types}, ${MERGE_PATCH}`],
    ] as const) {
      const reply = await admin.call(method, url, { body: '{}', headers })
      t.equal(reply.status, 415, `${method} ${url}`)
      t.equal(reply.headers.get('accept'), accept, `${method} ${url}`)
      t.equal(reply.headers.get('accept-patch'), acceptPatch, `${method} ${url}`)
      t.equal(reply.headers.get('accept-encoding'), headers['content-encoding'] ? 'identity' : null)
    }
  }
  const invalid = await admin.patch(path, { x: 1 })
  t.equal(invalid.status, 422)
  t.equal(invalid.headers.get('accept'), null, 'other failures do not')
})

t.test('a charset other than UTF-8 is rejected with 415', async (t) => {
  const post = (charset: string) =>
    admin.post('/products', product(), { 'content-type': `application/json; charset=${charset}` })
  for (const charset of ['utf-16', 'iso-8859-1', 'us-ascii', 'utf-8;charset=utf-16', '"utf-16"', '']) {
    t.equal((await post(charset)).status, 415, charset)
  }
  for (const charset of ['utf-8', 'UTF-8', '"utf-8"', 'utf8']) {
    t.equal((await post(charset)).status, 201, charset)
  }
})

t.test('a Content-Encoding is rejected with 415 and Accept-Encoding', async (t) => {
  const zipped = gzipSync(JSON.stringify(product()))
  for (const encoding of ['gzip', 'br', 'deflate', 'identity, gzip', 'x']) {
    const reply = await send('POST', '/products', zipped, {
      'content-type': 'application/json',
      'content-encoding': encoding,
    })
    t.equal(reply.status, 415, encoding)
    t.equal(reply.headers.get('accept-encoding'), 'identity')
  }
  const identity = { 'content-encoding': 'identity' }
  t.equal((await admin.post('/products', product(), identity)).status, 201)
})

t.test('a missing body is rejected with 400', async (t) => {
  for (const [method, url] of WRITES) {
    for (const headers of [{}, { 'content-type': 'application/json' }, { 'content-type': 'text/plain' }]) {
      const { status, body } = await admin.call(method, url, { headers })
      t.equal(status, 400, `${method} ${JSON.stringify(headers)}`)
      t.equal(body.error.code, 'INVALID_REQUEST')
      t.match(body.error.message, /required/)
    }
  }
})

t.test('DELETE ignores a Content-Type without a body, and rejects a body with 400', async (t) => {
  for (const headers of [{}, { 'content-type': 'text/plain' }, { 'content-encoding': 'gzip' }]) {
    const { id } = (await admin.post('/products', product())).body.data
    t.equal((await admin.delete(`/products/${id}`, headers)).status, 204, JSON.stringify(headers))
  }
  for (const text of ['{}', '{"broken', 'null']) {
    const { status, body } = await admin.call('DELETE', path, { body: text })
    t.equal(status, 400)
    t.equal(body.error.code, 'INVALID_REQUEST')
  }
  t.equal((await admin.get(path)).status, 200, 'and nothing was removed')
  const chunked = `DELETE /products/${made.id} HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`
  t.equal((await sendRaw(port, chunked)).replies[0]?.status, 204, 'chunks of nothing are no body')
})

t.test('GET ignores a Content-Type without a body, and rejects a body with 400', async (t) => {
  t.equal((await admin.get('/products', { 'content-type': 'text/plain' })).status, 200)
  t.equal((await admin.get('/products', { 'content-encoding': 'gzip' })).status, 200)
  for (const method of ['GET', 'HEAD']) {
    const request = `${method} /products HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`
    t.equal((await sendRaw(port, request)).replies[0]?.status, 400, method)
  }
})
