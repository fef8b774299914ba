/** Request bodies are limited in length, depth and size of their texts, and ordinary bodies stay valid. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { ADMIN_KEY, testApp } from '../helpers/app.ts'
import { sendRaw } from '../helpers/network.ts'
import { getViolations } from '../helpers/replies.ts'
import { createUniqueName } from '../helpers/versioned-client.ts'

const { app, admin, anybody, port, person } = await testApp(t, { ALLOW_SIGNUP: 'true' })
/** Node.js reads a socket in pieces of this size. */
const READ_BYTES = 65_536
const KEY = `X-API-Key: ${ADMIN_KEY}\r\n`
const ORDERS = '/api/v1/orders'
const PRODUCTS = '/api/v1/products'

const product = (members: Record<string, unknown> = {}) => {
  return { sku: createUniqueName('LIMIT'), name: 'a', price_amount: 1, ...members }
}
const signUp = (name: string) => ({ name, email: `${createUniqueName('limit')}@example.com` })
const objectOf = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`x${i}`, 1]))

/** A body of exactly so many bytes, with white space behind it. */
const padded = (body: unknown, bytes: number) => JSON.stringify(body).padEnd(bytes, ' ')

/** A POST whose body is sent in chunks of `size` bytes. */
function chunked(path: string, body: string, headers = '', size = body.length) {
  const chunks = body.match(new RegExp(`.{1,${size}}`, 'gs')) ?? []
  return [
    `POST ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n`,
    `${headers}Transfer-Encoding: chunked\r\n\r\n`,
    ...chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`),
    '0\r\n\r\n',
  ].join('')
}

t.test('a body without credentials is limited to 16 KiB', async (t) => {
  const grant = { grant_type: 'password', email: 'unknown@example.com', password: 'x' }
  t.equal((await anybody.post('/api/v1/tokens', padded(grant, 16_384))).status, 401)
  t.equal((await anybody.post('/api/v1/users', padded(signUp('a'), 16_384))).status, 201)
  for (const [path, body] of [
    ['/api/v1/tokens', grant],
    ['/api/v1/users', signUp('a')],
  ] as const) {
    const { status, body: reply, headers } = await anybody.post(path, padded(body, 16_385))
    t.equal(status, 413, path)
    t.equal(reply.error.code, 'PAYLOAD_TOO_LARGE')
    t.equal(headers.get('connection'), 'close')
    const { replies } = await sendRaw(port, chunked(path, padded(body, 16_385)))
    t.equal(replies[0]?.status, 413, `${path} in chunks`)
    const fields = 'Host: a\r\nContent-Type: application/json\r\nContent-Length: 16385\r\n'
    const unsent = await sendRaw(port, `POST ${path} HTTP/1.1\r\n${fields}\r\n`)
    t.equal(unsent.replies[0]?.status, 413, `${path} before its body is read`)
  }
  // Credentials that POST /tokens does not look at change nothing.
  t.equal((await admin.post('/api/v1/tokens', padded(grant, 16_385))).status, 413)
})

t.test('a body with credentials is limited to BODY_LIMIT bytes', async (t) => {
  const member = await person('member')
  t.equal((await admin.post(PRODUCTS, padded(product(), 1_048_576))).status, 201)
  const refused = await admin.post(PRODUCTS, padded(product(), 1_048_577))
  t.match([refused.status, refused.body.error.code], [413, 'PAYLOAD_TOO_LARGE'])
  const { replies } = await sendRaw(port, chunked(PRODUCTS, padded(product(), 1_048_577), KEY))
  t.equal(replies[0]?.status, 413, 'in chunks')
  t.equal((await admin.post('/api/v1/users', padded(signUp('a'), 20_000))).status, 201)
  const patch = await member.client.patch('/api/v1/users/me', padded({ name: 'b' }, 20_000))
  t.equal(patch.status, 200)
})

t.test('a BODY_LIMIT below 16 KiB also limits bodies without credentials', async (t) => {
  const { anybody } = await testApp(t, { ALLOW_SIGNUP: 'true', BODY_LIMIT: '2048' })
  t.equal((await anybody.post('/api/v1/users', padded(signUp('a'), 2_048))).status, 201)
  t.equal((await anybody.post('/api/v1/users', padded(signUp('a'), 2_049))).status, 413)
})

t.test('an IP address over its limit gets 429 for a sign-up before the body is read', async (t) => {
  const { port } = await testApp(t, { ALLOW_SIGNUP: 'true', RATE_LIMIT_ANONYMOUS: '1' })
  const head = `POST /api/v1/users HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`
  const first = await sendRaw(port, `${head}Connection: close\r\nContent-Length: 2\r\n\r\n{}`)
  t.equal(first.replies[0]?.status, 422)
  // Of the body that is announced, nothing is sent.
  const { replies } = await sendRaw(port, `${head}Content-Length: 100\r\n\r\n`, { timeoutMs: 5_000 })
  t.equal(replies[0]?.status, 429)
})

t.test('a body in too many small chunks is rejected with 400', async (t) => {
  const send = async (size: number) => {
    const body = padded(product(), 64_000)
    const { replies } = await sendRaw(port, chunked(PRODUCTS, body, KEY, size))
    return replies[0]
  }
  t.equal((await send(64))?.status, 201)
  const refused = await send(1)
  t.equal(refused?.status, 400)
  t.match(refused?.text, /"code":"INVALID_REQUEST"/)
})

t.test('the rest of a body in too many small chunks is not read', async (t) => {
  const sockets: Socket[] = []
  app.server.once('connection', (socket) => sockets.push(socket))
  const body = Buffer.from('1\r\n \r\n'.repeat(170_000))
  const client = connect(port, '127.0.0.1')
    .on('error', () => undefined)
    .resume()
  t.teardown(() => client.destroy())
  client.write(
    `POST ${PRODUCTS} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n` +
      `${KEY}Transfer-Encoding: chunked\r\n\r\n`,
  )
  client.write(body)
  await once(client, 'close')
  const [socket] = sockets
  t.ok(socket && socket.bytesRead < 1.5 * READ_BYTES, `${socket?.bytesRead} of ${body.length} bytes`)
})

t.test('a body of depth 20 is accepted, one of depth 21 is rejected with 400', async (t) => {
  const nested = (depth: number) => `{"sku":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`
  const deep = await admin.post(PRODUCTS, nested(20))
  t.equal(deep.status, 422)
  t.ok(getViolations(deep).includes('sku INVALID_TYPE'))
  const deeper = await admin.post(PRODUCTS, nested(21))
  t.equal(deeper.status, 400)
  t.match(deeper.body.error, { code: 'INVALID_REQUEST', message: /deeper than 20/ })
})

t.test('an object with 1,000 fields is accepted, one with 1,001 is rejected with 400', async (t) => {
  t.equal((await admin.post(PRODUCTS, objectOf(1_000))).status, 422)
  t.equal((await admin.post(ORDERS, { shipping_address: objectOf(1_000) })).status, 422)
  for (const body of [objectOf(1_001), { shipping_address: objectOf(1_001) }]) {
    const { status, body: reply } = await admin.post(ORDERS, body)
    t.equal(status, 400)
    t.match(reply.error, { code: 'INVALID_REQUEST', message: /more than 1000 fields/ })
  }
})

t.test('a body with 10,000 objects, arrays and fields is accepted, a larger one is a 400', async (t) => {
  // The body itself, its field and the array are three of them.
  const build = (nodes: number) => ({ items: Array.from({ length: nodes - 3 }, () => ({})) })
  const read = await admin.post(ORDERS, build(10_000))
  t.equal(read.status, 422)
  t.same(getViolations(read), ['items TOO_LONG'])
  t.equal((await admin.post(ORDERS, build(10_001))).status, 400)
})

t.test('a duplicate field name is rejected with 400, in any escaping and at any depth', async (t) => {
  const nested = ['{"x":[{"a":1},{"a":1,"a":1}]}', '{"":1,"":2}', '{"1":1,"1":2}']
  for (const body of ['{"sku":"a","sku":"b"}', '{"sku":"a","\\u0073ku":"b"}', ...nested]) {
    const { status, body: reply } = await admin.post(PRODUCTS, body)
    t.equal(status, 400, body)
    t.match(reply.error.message, /duplicate field/)
  }
  t.equal((await admin.post(PRODUCTS, '{"x":[{"a":1},{"a":1}],"a":":\\"a\\":"}')).status, 422)
})

t.test('an array or a string far above its maximum length is one violation', async (t) => {
  const long = 'n'.repeat(300_000)
  const items = (count: number) => Array.from({ length: count }, () => 1)
  const order = await admin.post(ORDERS, { items: items(150_000), note: long, status: long })
  t.same(getViolations(order), ['items TOO_LONG', 'note TOO_LONG', 'status TOO_LONG'])
  t.same(getViolations(await admin.post(PRODUCTS, product({ name: long }))), ['name TOO_LONG'])
  t.same(getViolations(await admin.post(PRODUCTS, product({ sku: long }))), ['sku TOO_LONG'])
})

t.test('the length of a string is measured after normalization and trimming', async (t) => {
  // Four and six UTF-16 units that become one character.
  const ALPHA = '\u1f82'
  const VOWEL = '\u{16d6a}'
  for (const letter of [ALPHA, VOWEL]) {
    const sent = letter.normalize('NFD').repeat(200)
    const { status, body } = await admin.post(PRODUCTS, product({ name: sent }))
    t.equal(status, sent.normalize('NFC') === letter.repeat(200) ? 201 : 422)
    if (status === 201) t.equal(body.data.name, letter.repeat(200))
  }
  const spaced = await admin.post(PRODUCTS, product({ name: `${' '.repeat(500_000)}a\u3000` }))
  t.equal(spaced.body.data.name, 'a')
  const lines = await admin.post(PRODUCTS, product({ description: `${'\r\n'.repeat(4_998)}a\r\nb` }))
  t.equal(lines.status, 201)
  t.equal(lines.body.data.description, 'a\nb')
})

t.test('no character takes more UTF-16 code units than the limit reserves', async (t) => {
  let most = 0
  for (let code = 0; code <= 0x10ffff; code++) {
    if (code >= 0xd800 && code <= 0xdfff) continue
    const text = String.fromCodePoint(code)
    if (text.normalize('NFC') === text) most = Math.max(most, text.normalize('NFD').length)
  }
  t.ok(most <= 6, `${most}`)
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
  const password = await admin.post('/api/v1/users', { ...signUp('a'), password: `twelve bytes${marks(31)}` })
  t.same(getViolations(password), ['password INVALID_FORMAT'])
})

t.test('a search with more than 30 combining marks in a row is rejected', async (t) => {
  const cases: [text: string, status: number, violations: string[]][] = [
    [`a${'\u0301'.repeat(30)}`, 200, []],
    ['\u1f82'.normalize('NFD').repeat(100), 200, []],
    [`a${'\u0301'.repeat(31)}`, 400, ['search INVALID_FORMAT']],
    ['a'.repeat(700), 400, ['search TOO_LONG']],
  ]
  for (const [text, status, violations] of cases) {
    const reply = await admin.get(`${PRODUCTS}?search=${encodeURIComponent(text)}`)
    t.equal(reply.status, status)
    if (status === 400) t.same(getViolations(reply), violations)
  }
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
  const name = 'n'.repeat(900_000)
  const reply = await admin.post(PRODUCTS, { ...product(), [name]: 1 })
  t.equal(reply.status, 422)
  t.same(getViolations(reply), [`${'n'.repeat(256)}... UNKNOWN_FIELD`])
  t.ok(reply.text.length < 2_000)
})

t.test('a Content-Type of more than 256 characters is rejected with 415', async (t) => {
  const type = (length: number) => 'application/json; charset=utf-8; x='.padEnd(length, 'x')
  t.equal((await admin.post(PRODUCTS, product(), { 'content-type': type(256) })).status, 201)
  t.equal((await admin.post(PRODUCTS, product(), { 'content-type': type(257) })).status, 415)
})
