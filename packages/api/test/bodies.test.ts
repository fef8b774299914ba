/** Request bodies: their media types, their limits in length, depth and size of texts, and how others are refused. */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { ADMIN_KEY, testApp } from '../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../testing/helpers/database.ts'
import { parseReplies, sendRaw } from '../../testing/helpers/network.ts'
import { getViolations } from '../../testing/helpers/replies.ts'
import { waitUntil } from '../../testing/helpers/time.ts'
import { createUniqueName } from '../../testing/helpers/versioned-client.ts'

const database = await createSharedDatabase(t)
const { admin, anybody, app, port, person } = await testApp(t, { ALLOW_SIGNUP: 'true' }, { database })
/** Node.js reads a socket in pieces of this size. */
const READ_BYTES = 65_536
const KEY = `X-API-Key: ${ADMIN_KEY}\r\n`
const TYPE = 'Content-Type: application/json\r\n'
const CHUNKED = 'Transfer-Encoding: chunked\r\n'
const NO_CHUNK = '0\r\n\r\n'
const [ORDERS, PRODUCTS, USERS] = ['/api/v1/orders', '/api/v1/products', '/api/v1/users']
const VENDOR = 'application/vnd.api+json'
const MERGE_PATCH = 'application/merge-patch+json'

const product = (members: Record<string, unknown> = {}) => {
  return { sku: createUniqueName('BODY'), name: 'a', price_amount: 1, ...members }
}
const { id } = (await admin.post(PRODUCTS, product())).body.data
const ONE = `${PRODUCTS}/${id}`
const signUp = () => ({ name: 'a', email: `${createUniqueName('limit')}@example.com` })
const objectOf = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`x${i}`, 1]))

/** A request with credentials, which ends its connection. */
const request = (method: string, url: string, fields: string, rest = '') =>
  `${method} ${url} HTTP/1.1\r\nHost: a\r\n${KEY}Connection: close\r\n${fields}\r\n${rest}`
/** A body of exactly so many bytes, with white space behind it. */
const padded = (body: unknown, bytes: number) => JSON.stringify(body).padEnd(bytes, ' ')
/** A POST whose body is sent in chunks of `size` bytes. */
function chunked(path: string, body: string, size = body.length) {
  const chunks = (body.match(new RegExp(`.{1,${size}}`, 'gs')) ?? []).map(
    (chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`,
  )
  return request('POST', path, TYPE + CHUNKED, chunks.join('') + NO_CHUNK)
}
const withoutKey = (bytes: string) => bytes.replace(KEY, '')

const LONGEST_TYPE = 'application/json; charset=utf-8; x='.padEnd(256, 'x')
/** The statuses of a POST, a PUT and a PATCH with these media types; `-` stands for none. */
const types: Record<string, string[]> = {
  '201 200 200': [
    ...['application/json', VENDOR, 'APPLICATION/JSON', `${VENDOR};version=1`, LONGEST_TYPE],
    ...['', 'UTF-8', '"utf-8"', 'utf8', 'us-ascii', '"US-ASCII"'].map(
      (charset) => `application/json ; charset=${charset || 'utf-8'}`,
    ),
  ],
  '415 415 200': [MERGE_PATCH, `${MERGE_PATCH}; charset=utf-8`],
  '415 415 415': [
    ...['utf-16', 'iso-8859-1', 'utf-8;charset=utf-16', '"utf-16"', ''].map(
      (charset) => `application/json; charset=${charset}`,
    ),
    ...[
      'text/plain',
      'text/json',
      'application/xml',
      'application/x-www-form-urlencoded',
      'json',
      '*/*',
      '-',
    ],
    ...['multipart/form-data; boundary=x', 'application/json-patch+json', 'application/jsonx'],
    ...['application/*', `${LONGEST_TYPE}x`],
  ],
}

t.test('each method accepts its media types in UTF-8, and others are rejected with 415', async (t) => {
  const writes = [`POST ${PRODUCTS}`, `PUT ${ONE}`, `PATCH ${ONE}`]
  for (const [statuses, accepted] of Object.entries(types)) {
    for (const type of accepted) {
      const found: (number | undefined)[] = []
      for (const write of writes) {
        const [method = '', url = ''] = write.split(' ')
        const text = JSON.stringify(product())
        const field = type === '-' ? '' : `Content-Type: ${type}\r\n`
        const bytes = request(method, url, `${field}Content-Length: ${text.length}\r\n`, text)
        const [reply] = (await sendRaw(port, bytes)).replies
        found.push(reply?.status)
        if (reply?.status === 415) t.match(reply.text, '"code":"UNSUPPORTED_MEDIA_TYPE"')
      }
      t.equal(found.join(' '), statuses, type)
    }
  }
})

t.test('a 415 names the media types and encodings that the method accepts', async (t) => {
  const accepted = `application/json, ${VENDOR}`
  for (const each of [
    ...['text/plain -', 'application/json;charset=utf-16 -', 'application/json gzip', 'application/json br'],
    ...['application/json deflate', 'application/json identity,gzip', 'application/json x'],
  ]) {
    const [type = '', encoding = ''] = each.split(' ')
    const headers = { 'content-type': type, ...(encoding !== '-' && { 'content-encoding': encoding }) }
    for (const [method, url, accept, acceptPatch] of [
      ['POST', PRODUCTS, `${accepted}, application/x-ndjson, text/csv`, null],
      ['POST', '/tokens', accepted, null],
      ['PUT', ONE, accepted, null],
      ['PATCH', ONE, `${accepted}, ${MERGE_PATCH}`, `${accepted}, ${MERGE_PATCH}`],
    ] as const) {
      const reply = await admin.call(method, url, { body: '{}', headers })
      const found = ['accept', 'accept-patch', 'accept-encoding'].map((name) => reply.headers.get(name))
      const expected = [415, accept, acceptPatch, encoding === '-' ? null : 'identity']
      t.same([reply.status, ...found], expected, `${method} ${url} ${type} ${encoding}`)
    }
  }
  t.equal((await admin.post(PRODUCTS, product(), { 'content-encoding': 'identity' })).status, 201)
  const invalid = await admin.patch(ONE, { x: 1 })
  t.same([invalid.status, invalid.headers.get('accept')], [422, null], 'other failures do not')
})

t.test('a body without a byte is no body, however it is sent', async (t) => {
  const bodies: [fields: string, rest?: string][] = [
    [CHUNKED, NO_CHUNK],
    [CHUNKED, '0\r\nX-Trailer: 1\r\n\r\n'],
    ['Content-Length: 0\r\n'],
    [''],
  ]
  const types = ['application/json', 'text/plain', 'json', ''].map((type) => `Content-Type: ${type}\r\n`)
  const urls = `GET ${ONE} 200, HEAD ${ONE} 200, GET /products 200, GET /livez 200, GET /docs/ 200, GET /unknown 404, \
OPTIONS ${ONE} 204, POST /products 400, PATCH ${ONE} 400, PUT ${ONE} 400, PUT /products 405`
  for (const [fields, rest] of bodies) {
    for (const more of ['', ...types, 'Content-Encoding: gzip\r\n']) {
      const other = (await admin.post(PRODUCTS, product())).body.data.id
      for (const line of [...urls.split(', '), `DELETE /products/${other} 204`]) {
        const [method = '', url = '', status] = line.split(' ')
        const [reply] = (await sendRaw(port, request(method, url, fields + more, rest))).replies
        t.equal(reply?.status, Number(status), `${method} ${url} ${fields}${more}${rest}`)
        if (status === '400') t.match(reply?.text, /"code":"INVALID_REQUEST".*A request body is required/)
      }
    }
  }
})

t.test('one byte is a body: 400 for GET, HEAD and DELETE, 415 for a type that is not accepted', async (t) => {
  for (const line of [
    ...['400 GET ', '400 GET application/json', '400 HEAD text/plain', '400 DELETE text/plain'],
    ...['400 DELETE application/json', '415 PATCH text/plain', '415 PATCH json', '415 PATCH '],
  ]) {
    const [code, method = '', type] = line.split(' ')
    const status = Number(code)
    const fields = type ? `Content-Type: ${type}\r\n` : ''
    const announced = request(method, ONE, `${fields}Content-Length: 1\r\n`, '1')
    const chunks = request(method, ONE, fields + CHUNKED, `1\r\n1\r\n${NO_CHUNK}`)
    // The response does not wait for the end of the body.
    const unended = request(method, ONE, fields + CHUNKED, '1\r\n1\r\n')
    for (const bytes of [announced, chunks, unended]) {
      const { replies } = await sendRaw(port, bytes)
      t.equal(replies[0]?.status, status, bytes)
      if (status === 415) t.match(replies[0]?.headers, { accept: /^application\/json, / })
    }
  }
  t.equal((await admin.get(ONE)).status, 200, 'and nothing was removed')
})

t.test('a GET that waits for the end of its chunks holds no slot', async (t) => {
  const socket = connect(port, '127.0.0.1')
  const received: Buffer[] = []
  socket.on('data', (chunk) => received.push(chunk))
  const arrived = once(app.server, 'request')
  socket.write(request('GET', ONE, CHUNKED))
  await arrived
  await waitUntil(() => app.admissionQueue.used === 0)
  socket.write(NO_CHUNK)
  await once(socket, 'close')
  t.equal(parseReplies(Buffer.concat(received))[0]?.status, 200)
})

t.test('a body is limited to 16 KiB without credentials, and with them to BODY_LIMIT bytes', async (t) => {
  const small = await testApp(t, { ALLOW_SIGNUP: 'true', BODY_LIMIT: '2048' }, { database })
  const member = await person('member')
  const grant = { grant_type: 'password', email: 'unknown@example.com', password: 'x' }
  for (const [client, method, path, build, bytes, status] of [
    [anybody, 'POST', '/api/v1/tokens', () => grant, 16_384, 401],
    [anybody, 'POST', '/api/v1/tokens', () => grant, 16_385, 413],
    // Credentials that POST /tokens does not look at change nothing.
    [admin, 'POST', '/api/v1/tokens', () => grant, 16_385, 413],
    [anybody, 'POST', USERS, signUp, 16_384, 201],
    [anybody, 'POST', USERS, signUp, 16_385, 413],
    [admin, 'POST', USERS, signUp, 20_000, 201],
    [member.client, 'PATCH', `${USERS}/me`, () => ({ name: 'b' }), 20_000, 200],
    [admin, 'POST', PRODUCTS, product, 1_048_576, 201],
    [admin, 'POST', PRODUCTS, product, 1_048_577, 413],
    [small.anybody, 'POST', USERS, signUp, 2_048, 201],
    [small.anybody, 'POST', USERS, signUp, 2_049, 413],
  ] as const) {
    const reply = await client.call(method, path, { body: padded(build(), bytes) })
    t.equal(reply.status, status, `${path} ${bytes}`)
    if (status === 413) t.equal(reply.body.error.code, 'PAYLOAD_TOO_LARGE')
  }
  for (const [bytes, sentence] of [
    [withoutKey(chunked('/api/v1/tokens', padded(grant, 16_385))), 'in chunks'],
    [withoutKey(chunked(USERS, padded(signUp(), 16_385))), 'in chunks'],
    [chunked(PRODUCTS, padded(product(), 1_048_577)), 'in chunks'],
    [
      withoutKey(request('POST', '/api/v1/tokens', `${TYPE}Content-Length: 16385\r\n`)),
      'before its body is read',
    ],
    [withoutKey(request('POST', USERS, `${TYPE}Content-Length: 16385\r\n`)), 'before its body is read'],
  ] as const)
    t.equal((await sendRaw(port, bytes)).replies[0]?.status, 413, sentence)
})

t.test(
  'the connection of a refused body stays open, so that the client can send the rest and read the response',
  async (t) => {
    const open = (bytes: string) => bytes.replace('Connection: close\r\n', '')
    const large = padded(product(), 1_048_577)
    const text = 'Content-Type: text/plain\r\n'
    const send = (method: string, url: string, fields: string, body: string) =>
      request(method, url, `${fields}Content-Length: ${body.length}\r\n`, body)
    for (const [name, bytes, status] of [
      ['of a declared length', send('POST', PRODUCTS, TYPE, large), 413],
      ['in chunks', chunked(PRODUCTS, large), 413],
      ['of another type', send('POST', PRODUCTS, text, large), 415],
      ['of another type in chunks', chunked(PRODUCTS, large).replace(TYPE, text), 415],
      ['that is not JSON', send('POST', PRODUCTS, TYPE, '{'), 400],
      ['of a DELETE', send('DELETE', ONE, TYPE, '{}'), 400],
      ['of a GET', send('GET', ONE, TYPE, large), 400],
    ] as const) {
      const { replies } = await sendRaw(port, open(bytes) + request('GET', PRODUCTS, ''))
      t.same(
        replies.map((reply) => reply.status),
        [status, 200],
        `a body ${name}`,
      )
    }
  },
)

t.test('an IP address over its limit gets 429 for a sign-up before the body is read', async (t) => {
  const { port } = await testApp(t, { ALLOW_SIGNUP: 'true', RATE_LIMIT_ANONYMOUS: '1' }, { database })
  const post = (fields: string, rest = '') => withoutKey(request('POST', USERS, TYPE + fields, rest))
  t.equal((await sendRaw(port, post('Content-Length: 2\r\n', '{}'))).replies[0]?.status, 422)
  // Of the body that is announced, nothing is sent.
  const { replies } = await sendRaw(port, post('Content-Length: 100\r\n'), { timeoutMs: 5_000 })
  t.equal(replies[0]?.status, 429)
})

t.test('a body in too many small chunks is rejected with 400, and its rest is not read', async (t) => {
  const send = async (size: number) =>
    (await sendRaw(port, chunked(PRODUCTS, padded(product(), 64_000), size))).replies[0]
  t.equal((await send(64))?.status, 201)
  t.match(await send(1), { status: 400, text: /"code":"INVALID_REQUEST"/ })

  const sockets: Socket[] = []
  app.server.once('connection', (socket) => sockets.push(socket))
  const body = '1\r\n \r\n'.repeat(170_000)
  await sendRaw(port, request('POST', PRODUCTS, TYPE + CHUNKED, body).replace('Connection: close\r\n', ''))
  const { bytesRead = Infinity } = sockets[0] ?? {}
  t.ok(bytesRead < 1.5 * READ_BYTES, `${bytesRead} of ${body.length} bytes`)
})

/** Sends a request and then up to 64 MiB of its body, and returns the status, and what the server has read. */
async function flood(head: string, isChunked: boolean) {
  const accepted = new Promise<Socket>((resolve) => {
    const find = (each: Socket) => {
      if (each.remotePort !== socket.localPort) return
      app.server.off('connection', find)
      resolve(each)
    }
    app.server.on('connection', find)
  })
  const socket = connect(port, '127.0.0.1')
  const response = new Promise<number>((resolve) => {
    socket.once('data', (bytes) => resolve(Number(bytes.toString('latin1', 9, 12))))
  })
  socket.on('error', () => {})
  const closed = new Promise((resolve) => socket.once('close', resolve))
  const part = Buffer.alloc(READ_BYTES, ' ')
  const piece = isChunked ? Buffer.concat([Buffer.from('10000\r\n'), part, Buffer.from('\r\n')]) : part
  socket.write(head)
  const { bytesRead } = await accepted.then(async (serverSide) => {
    for (let i = 0; i < 1024 && !socket.destroyed; i++)
      if (!socket.write(piece))
        await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), closed])
    await closed
    return serverSide
  })
  return { status: await response, bytesRead }
}

t.test('of a refused body, a few MiB are discarded, and then the connection is closed', async (t) => {
  const length = 'Content-Length: 67108864\r\n'
  const cases = [
    [413, 'POST', PRODUCTS, TYPE + length],
    [413, 'POST', PRODUCTS, TYPE + CHUNKED],
    [415, 'POST', PRODUCTS, `Content-Type: text/plain\r\n${CHUNKED}`],
    [400, 'GET', PRODUCTS, CHUNKED],
    [400, 'GET', PRODUCTS, length],
    [400, 'DELETE', ONE, CHUNKED],
    [404, 'POST', '/api/v1/nothing', length],
    [404, 'POST', '/nothing', CHUNKED],
    [405, 'DELETE', PRODUCTS, length],
    [204, 'OPTIONS', PRODUCTS, length],
    [200, 'GET', '/livez', length],
  ] as const
  const checks = cases.flatMap(([status, method, url, fields]) => {
    const head = request(method, url, fields).replace('Connection: close\r\n', '')
    const anonymous = /^(?:400|415)$/.test(String(status)) ? [[401, withoutKey(head)] as const] : []
    return [[status, head] as const, ...anonymous].map(async ([expected, sent]) => {
      const { status: received, bytesRead } = await flood(sent, fields.includes(CHUNKED))
      const sentence = `${sent.split('\r\n', 1)} ${fields}: ${bytesRead} bytes`
      t.equal(received, expected, sentence)
      t.ok(bytesRead < 16_777_216, sentence)
    })
  })
  await Promise.all(checks)
})

t.test('a client that reads after its body gets the response when the server reads no more', async (t) => {
  const socket = connect(port, '127.0.0.1').pause()
  t.teardown(() => socket.destroy())
  const send = (data: Buffer | string) =>
    new Promise<void>((resolve, reject) => {
      socket.write(data, (error) => (error ? reject(error) : resolve()))
    })
  const accepted: Promise<IncomingMessage[]> = once(app.server, 'request')
  const head = request('POST', PRODUCTS, `${TYPE}Content-Length: 67108864\r\n`)
  await send(head.replace('Connection: close\r\n', ''))
  const [incoming] = await accepted
  let isRead = true
  incoming?.once('pause', () => {
    isRead = false
  })
  const part = Buffer.alloc(READ_BYTES, ' ')
  for (let i = 0; i < 1024 && isRead; i++) await send(part)
  t.notOk(isRead)
  await send(part)
  const [bytes]: Buffer[] = await once(socket.resume(), 'data')
  t.match(`${bytes}`, /^HTTP\/1\.1 413 /)
})

t.test('after a refused body of 2 MiB, the connection serves the next request', async (t) => {
  const body = ' '.repeat(2_097_152)
  const refused = request('POST', PRODUCTS, `${TYPE}Content-Length: ${body.length}\r\n`, body)
  const next = request('GET', ONE, '')
  const { replies } = await sendRaw(port, refused.replace('Connection: close\r\n', '') + next)
  t.same(
    replies.map(({ status }) => status),
    [413, 200],
  )
})

t.test('a body is limited in its depth, its fields and its nodes, and names no field twice', async (t) => {
  const nested = (depth: number) => `{"sku":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`
  // The body itself, its field and the array are three of them.
  const nodes = (count: number) => ({ items: Array.from({ length: count - 3 }, () => ({})) })
  const cases: [path: string, body: unknown, expected: string | RegExp][] = [
    [PRODUCTS, nested(20), 'sku INVALID_TYPE'],
    [PRODUCTS, nested(21), /deeper than 20/],
    [PRODUCTS, objectOf(1_000), 'x0 UNKNOWN_FIELD'],
    [ORDERS, { shipping_address: objectOf(1_000) }, 'shipping_address.x0 UNKNOWN_FIELD'],
    [ORDERS, objectOf(1_001), /more than 1000 fields/],
    [ORDERS, { shipping_address: objectOf(1_001) }, /more than 1000 fields/],
    [ORDERS, nodes(10_000), 'items TOO_LONG'],
    [ORDERS, nodes(10_001), /more than 10000/],
    [PRODUCTS, '{"sku":"a","sku":"b"}', /duplicate field/],
    [PRODUCTS, '{"sku":"a","\\u0073ku":"b"}', /duplicate field/],
    [PRODUCTS, '{"x":[{"a":1},{"a":1,"a":1}]}', /duplicate field/],
    [PRODUCTS, '{"":1,"":2}', /duplicate field/],
    [PRODUCTS, '{"1":1,"1":2}', /duplicate field/],
    [PRODUCTS, '{"x":[{"a":1},{"a":1}],"a":":\\"a\\":"}', 'x UNKNOWN_FIELD'],
  ]
  for (const [path, body, expected] of cases) {
    const reply = await admin.post(path, body)
    if (typeof expected === 'string') {
      t.equal(reply.status, 422)
      t.ok(getViolations(reply).includes(expected), `${getViolations(reply).slice(0, 3)}`)
    } else t.match([reply.status, reply.body.error], [400, { code: 'INVALID_REQUEST', message: expected }])
  }
})

t.test('the length of a string is measured after normalization and trimming', async (t) => {
  // Four and six UTF-16 units that become one character, the most that there are.
  for (const letter of ['\u1f82', '\u{16d6a}']) {
    const sent = letter.normalize('NFD').repeat(200)
    const { status, body } = await admin.post(PRODUCTS, product({ name: sent }))
    t.equal(status, sent.normalize('NFC') === letter.repeat(200) ? 201 : 422)
    if (status === 201) t.equal(body.data.name, letter.repeat(200))
  }
  const spaced = await admin.post(PRODUCTS, product({ name: `${' '.repeat(500_000)}a\u3000` }))
  t.equal(spaced.body.data.name, 'a')
  const lines = await admin.post(PRODUCTS, product({ description: `${'\r\n'.repeat(4_998)}a\r\nb` }))
  t.equal(lines.body.data.description, 'a\nb')
})

t.test('30 combining marks in a row are accepted, 31 are rejected with 422', async (t) => {
  const marks = (count: number) => `a${'\u0301\u0323'.repeat(count).slice(0, count)}b`
  const taken = await admin.post(PRODUCTS, product({ name: marks(30), description: marks(30).repeat(100) }))
  t.equal(taken.status, 201)
  t.equal(taken.body.data.name, marks(30).normalize('NFC'))
  const refused = await admin.post(PRODUCTS, product({ name: marks(31) }))
  t.equal(refused.status, 422)
  t.same(getViolations(refused), ['name INVALID_FORMAT'])
  t.match(refused.body.error.details[0].message, /30 combining marks/)
  // Names in Vietnamese, Hindi, Thai and Hebrew with its points, decomposed.
  for (const name of ['Nguyễn Thị Mỹ Duyên', 'क्षत्रिय', 'น้ำผึ้ง', 'בְּרֵאשִׁית']) {
    t.equal((await admin.post(PRODUCTS, product({ name: name.normalize('NFD') }))).status, 201, name)
  }
  // A password is not trimmed, and normalized all the same.
  const password = await admin.post('/api/v1/users', { ...signUp(), password: `twelve bytes${marks(31)}` })
  t.same(getViolations(password), ['password INVALID_FORMAT'])
})

t.test('at most 50 violations of a body or a query are reported', async (t) => {
  const items = Array.from({ length: 100 }, () => objectOf(90))
  const names = Array.from({ length: 1_500 }, (_, i) => i.toString(36))
  for (const reply of [
    await admin.post(ORDERS, { items }),
    await admin.post(PRODUCTS, objectOf(900)),
    await admin.get(`${PRODUCTS}?${names.map((name) => `${name}=1`).join('&')}`),
    await admin.get(`${PRODUCTS}?fields=${names.join()}`),
  ]) {
    t.equal(reply.body.error.code, 'VALIDATION_ERROR')
    t.equal(reply.body.error.details.length, 50)
  }
})

t.test('the path of a violation is cut after 256 characters', async (t) => {
  const { status, text, body } = await admin.post(PRODUCTS, { ...product(), ['n'.repeat(900_000)]: 1 })
  t.same([status, body.error.details[0].field], [422, `${'n'.repeat(256)}...`])
  t.ok(text.length < 2_000)
})

t.test('a refused body is named by its place only', async (t) => {
  const { status, body } = await admin.post('/users', '{\n  "email": secret@example.com\n}')
  t.equal(status, 400)
  t.equal(body.error.message, 'The body is not valid JSON; see line 2, column 12')
  t.notMatch(JSON.stringify(body), 'secret')

  const long = (await admin.post('/users', `${'x'.repeat(100_000)}`)).body
  t.equal(long.error.message, 'The body is not valid JSON', 'no error is searched in a long body')
})
