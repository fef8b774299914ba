/** Which media types a request body may have, and how a body with another type is refused. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { ADMIN_KEY, testApp } from '../helpers/app.ts'
import { parseReplies, sendRaw } from '../helpers/network.ts'
import { waitUntil } from '../helpers/time.ts'

const { admin, app, base, port } = await testApp(t)
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
})

t.test('GET ignores a Content-Type without a body, and rejects a body with 400', async (t) => {
  t.equal((await admin.get('/products', { 'content-type': 'text/plain' })).status, 200)
  t.equal((await admin.get('/products', { 'content-encoding': 'gzip' })).status, 200)
  for (const method of ['GET', 'HEAD']) {
    const request = `${method} /products HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`
    t.equal((await sendRaw(port, request)).replies[0]?.status, 400, method)
  }
})

/** A request with credentials, which ends its connection. */
const request = (method: string, url: string, fields: string, rest = '') =>
  `${method} ${url} HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\nConnection: close\r\n${fields}\r\n${rest}`
const CHUNKED = 'Transfer-Encoding: chunked\r\n'
const NO_CHUNK = '0\r\n\r\n'

t.test('a body without a byte is no body, however it is sent', async (t) => {
  const bodies: [fields: string, rest?: string][] = [
    [CHUNKED, NO_CHUNK],
    [CHUNKED, '0\r\nX-Trailer: 1\r\n\r\n'],
    ['Content-Length: 0\r\n'],
    [''],
  ]
  const types = ['', 'application/json', 'text/plain', 'json'].map(
    (type) => type && `Content-Type: ${type}\r\n`,
  )
  const others = ['Content-Type: \r\n', 'Content-Encoding: gzip\r\n']
  const urls: [method: string, url: string, status: number][] = [
    ['GET', path, 200],
    ['HEAD', path, 200],
    ['GET', '/products', 200],
    ['GET', '/livez', 200],
    ['GET', '/docs/', 200],
    ['GET', '/unknown', 404],
    ['OPTIONS', path, 204],
    ['POST', '/products', 400],
    ['PATCH', path, 400],
    ['PUT', '/products', 405],
  ]
  for (const [fields, rest] of bodies) {
    for (const more of [...types, ...others]) {
      const { id } = (await admin.post('/products', product())).body.data
      for (const [method, url, status] of [...urls, ['DELETE', `/products/${id}`, 204] as const]) {
        const { replies } = await sendRaw(port, request(method, url, fields + more, rest))
        t.equal(replies[0]?.status, status, `${method} ${url} ${fields}${more}${rest}`)
        if (status === 400) t.match(replies[0]?.text, /A request body is required/)
      }
    }
  }
})

t.test('one byte is a body: 400 for GET, HEAD and DELETE, 415 for a type that is not accepted', async (t) => {
  const cases: [method: string, fields: string, status: number][] = [
    ['GET', '', 400],
    ['HEAD', 'Content-Type: text/plain\r\n', 400],
    ['DELETE', 'Content-Type: text/plain\r\n', 400],
    ['PATCH', 'Content-Type: text/plain\r\n', 415],
    ['PATCH', 'Content-Type: json\r\n', 415],
    ['PATCH', '', 415],
  ]
  for (const [method, fields, status] of cases) {
    const announced = request(method, path, `${fields}Content-Length: 1\r\n`, '1')
    const chunks = request(method, path, fields + CHUNKED, `1\r\n1\r\n${NO_CHUNK}`)
    // The response does not wait for the end of the body.
    const unended = request(method, path, fields + CHUNKED, '1\r\n1\r\n')
    for (const bytes of [announced, chunks, unended]) {
      const { replies } = await sendRaw(port, bytes)
      t.equal(replies[0]?.status, status, bytes)
      if (status === 415) t.match(replies[0]?.headers, { accept: /^application\/json, / })
    }
  }
  t.equal((await admin.get(path)).status, 200, 'and nothing was removed')
})

t.test('a GET that waits for the end of its chunks holds no slot', async (t) => {
  const socket = connect(port, '127.0.0.1')
  const received: Buffer[] = []
  socket.on('data', (chunk) => received.push(chunk))
  const arrived = once(app.server, 'request')
  socket.write(request('GET', path, CHUNKED))
  await arrived
  await waitUntil(() => app.admissionQueue.used === 0)
  socket.write(NO_CHUNK)
  await once(socket, 'close')
  t.equal(parseReplies(Buffer.concat(received))[0]?.status, 200)
})
