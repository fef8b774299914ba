/** Requests that the HTTP parser rejects get the error envelope, in order, and the connection ends cleanly. */
import t, { type Test } from 'tap'
import { ADMIN_KEY, testApp } from '../helpers/app.ts'
import { type RawReply, sendRaw } from '../helpers/network.ts'

const { app, port, admin } = await testApp(t)
// Ten and five seconds by default.
app.server.headersTimeout = 400
app.server.requestTimeout = 700

const PRODUCTS = '/api/v1/products'
const HEAD = `Host: localhost\r\nX-API-Key: ${ADMIN_KEY}\r\n`
const CLOSE = `${HEAD}Connection: close\r\n`

const JSON_BODY = 'Content-Type: application/json\r\n'
const CLOSE_KEY = `X-API-Key: ${ADMIN_KEY}\r\nConnection: close\r\n`

const get = (target: string, headers = CLOSE) => `GET ${target} HTTP/1.1\r\n${headers}\r\n`
const post = (body: string | Buffer, headers = '', type = 'application/json') =>
  Buffer.concat([
    Buffer.from(
      `POST ${PRODUCTS} HTTP/1.1\r\n${CLOSE}Content-Type: ${type}\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n`,
    ),
    Buffer.from(body),
  ])
/** A POST with other fields than those of a JSON body. */
const postHead = (fields: string) => `POST ${PRODUCTS} HTTP/1.1\r\n${CLOSE}${fields}\r\n`
const chunked = (chunks: string, type = JSON_BODY) =>
  `POST ${PRODUCTS} HTTP/1.1\r\n${CLOSE}${type}Transfer-Encoding: chunked\r\n\r\n${chunks}`
const product = (members: string) => `{"sku":"RAW-1","name":"Raw","price_amount":1${members}}`

const cases: [sentence: string, bytes: string | Buffer, status: number][] = [
  // Request lines
  ['an empty line, then a request', `\r\n${get('/livez')}`, 200],
  ['garbage', 'hello\r\n\r\n', 400],
  ['random bytes', Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0xff, 0xfe, 0x0d, 0x0a, 0x0d, 0x0a]), 400],
  ['an unknown method', `BREW ${PRODUCTS} HTTP/1.1\r\n${CLOSE}\r\n`, 501],
  ['a method in lower case', `get ${PRODUCTS} HTTP/1.1\r\n${CLOSE}\r\n`, 501],
  ['a method of another protocol', `PROPFIND ${PRODUCTS} HTTP/1.1\r\n${CLOSE}\r\n`, 501],
  ['a request line without a target', `GET HTTP/1.1\r\n${CLOSE}\r\n`, 400],
  ['a target with a space', get(`${PRODUCTS}/a b`), 400],
  ['a target that begins with no slash', get('products'), 400],
  ['an unknown HTTP version', `GET ${PRODUCTS} HTTP/3.7\r\n${CLOSE}\r\n`, 400],
  ['a version that is no number', `GET ${PRODUCTS} HTTP/x.y\r\n${CLOSE}\r\n`, 400],
  ['HTTP/2 by its preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['HTTP/0.9', `GET ${PRODUCTS}\r\n\r\n`, 400],
  ['HTTP/1.0 without a Host', `GET ${PRODUCTS} HTTP/1.0\r\nX-API-Key: ${ADMIN_KEY}\r\n\r\n`, 200],
  ['an absolute target', get(`http://elsewhere.example${PRODUCTS}`), 200],
  ['an absolute target without a path', get('http://elsewhere.example'), 200],
  ['OPTIONS *', `OPTIONS * HTTP/1.1\r\n${CLOSE}\r\n`, 204],
  ['GET *', get('*'), 404],
  ['CONNECT', `CONNECT example.com:443 HTTP/1.1\r\n${CLOSE}\r\n`, 400],
  ['TRACE', `TRACE ${PRODUCTS} HTTP/1.1\r\n${CLOSE}\r\n`, 405],
  // Header fields
  ['a Host that is none', get(PRODUCTS, `Host: a/b@c\r\n${CLOSE_KEY}`), 400],
  ['two X-API-Keys', get(PRODUCTS, `${CLOSE}X-API-Key: ${ADMIN_KEY}\r\n`), 400],
  ['a header without a colon', get(PRODUCTS, `${CLOSE}nonsense\r\n`), 400],
  ['a header without a name', get(PRODUCTS, `${CLOSE}: value\r\n`), 400],
  ['a header with a space in its name', get(PRODUCTS, `${CLOSE}Bad Name: value\r\n`), 400],
  ['a bare CR in a header', get(PRODUCTS, `${CLOSE}X-Cr: a\rb\r\n`), 400],
  [
    'bytes above ASCII in a header',
    Buffer.from(get(PRODUCTS, `${CLOSE}X-High: \xff\xfe\r\n`), 'latin1'),
    200,
  ],
  ['headers of 17 KiB', get(PRODUCTS, `${CLOSE}X-Long: ${'a'.repeat(17_408)}\r\n`), 431],
  ['a thousand headers', get(PRODUCTS, CLOSE + 'X-Many: 12345678\r\n'.repeat(1_000)), 431],
  ['two thousand short headers', get(PRODUCTS, CLOSE + 'X-M: 12\r\n'.repeat(2_000)), 431],
  [
    'a second Host behind a thousand headers',
    get(PRODUCTS, `${CLOSE}${'X: 1\r\n'.repeat(1_000)}Host: b\r\n`),
    400,
  ],
  [
    'a key behind a thousand headers',
    get(PRODUCTS, `Host: a\r\n${'X: 1\r\n'.repeat(1_000)}${CLOSE_KEY}`),
    200,
  ],
  ['an endless Accept', get(PRODUCTS, `${CLOSE}Accept: ${'a/b,'.repeat(3_000)}\r\n`), 406],
  ['an expectation that can be met', post(product(',"x":1'), 'Expect: 100-continue\r\n'), 422],
  ['an upgrade', get(PRODUCTS, `${HEAD}Connection: upgrade, close\r\nUpgrade: websocket\r\n`), 200],
  ['an upgrade to h2c', get(PRODUCTS, `${HEAD}Connection: close, upgrade\r\nUpgrade: h2c\r\n`), 200],
  // Addresses
  ['an encoding that is none', get(`${PRODUCTS}/%zz`), 400],
  ['an encoding that is no UTF-8', get(`${PRODUCTS}/%ff`), 400],
  ['an encoded NUL', get(`${PRODUCTS}/%00`), 404],
  ['an encoded slash', get(`/api/v1%2Fproducts`), 404],
  ['dots', get('/api/v1/../../etc/passwd'), 404],
  ['a path of 24 KiB', get(`${PRODUCTS}/${'a'.repeat(24_576)}`), 404],
  ['an id that would be SQL', get(`${PRODUCTS}/'%20or%201=1--`), 404],
  ['a query with an encoding that is none', get(`${PRODUCTS}?search=%zz`), 400],
  ['a query with an encoding that is no UTF-8', get(`${PRODUCTS}?search=%ff`), 400],
  ['a query with a NUL', get(`${PRODUCTS}?search=%00`), 400],
  ['a query with a lone surrogate', get(`${PRODUCTS}?search=%ed%a0%80`), 400],
  ['a query that names __proto__', get(`${PRODUCTS}?__proto__=1`), 400],
  ['a query that names constructor', get(`${PRODUCTS}?constructor=1&toString=2`), 400],
  ['a query with brackets', get(`${PRODUCTS}?limit[$gt]=1`), 400],
  ['a query of 8 KiB', get(`${PRODUCTS}?search=${'a'.repeat(8_185)}`), 400],
  ['a query of more', get(`${PRODUCTS}?search=${'a'.repeat(8_186)}`), 414],
  // Lengths and chunks
  ['a length below zero', postHead('Content-Length: -1\r\n'), 400],
  ['a length that is no number', postHead('Content-Length: two\r\n'), 400],
  ['a length beyond the limit', postHead(`${JSON_BODY}Content-Length: 1048577\r\n`), 413],
  ['chunks in good order', chunked(`5\r\n{"a":\r\n2\r\n1}\r\n0\r\n\r\n`), 422],
  ['a chunk whose size is no number', chunked('zz\r\n{}\r\n0\r\n\r\n'), 400],
  ['a chunk longer than it says', chunked('2\r\n{"a":1}\r\n0\r\n\r\n'), 400],
  ['a chunk extension of 20 KiB', chunked(`2;${'a'.repeat(20_480)}\r\n{}\r\n0\r\n\r\n`), 413],
  ['a GET with a body', `${get(PRODUCTS, `${CLOSE}${JSON_BODY}Content-Length: 2\r\n`)}{}`, 400],
  // Bodies
  ['gzip that is none', post('{}', 'Content-Encoding: gzip\r\n'), 415],
  ['nothing but spaces', post('   '), 400],
  ['a byte order mark before JSON', post(`\ufeff${product(',"x":1')}`), 422],
  ['a byte order mark of UTF-16', post(Buffer.from([0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00])), 400],
  ['invalid UTF-8', post(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), 400],
  ['an encoded surrogate', post(Buffer.from('{"name":"\xed\xa0\x80"}', 'latin1')), 400],
  ['a NUL between members', post('{"sku":"A",\0"name":"B"}'), 400],
  ['an escaped NUL', post(product(',"description":"a\\u0000b"')), 422],
  ['an escaped lone surrogate', post(product(',"description":"\\ud800"')), 422],
  ['a hundred thousand levels', post('['.repeat(100_000)), 400],
  ['brackets in a string, which are no levels', post(product(`,"x":"${'['.repeat(50)}"`)), 422],
  ['a number beyond all numbers', post('{"sku":"A","name":"B","price_amount":1e400}'), 422],
  ['constructor with a prototype', post('{"constructor":{"prototype":{"role":"admin"}}}'), 400],
  // Time
  ['a head that never ends', `GET ${PRODUCTS} HTTP/1.1\r\nHost: localhost\r\n`, 408],
  ['a request line that never ends', 'GET /api', 408],
  ['a body that never ends', `${postHead(`${JSON_BODY}Content-Length: 10\r\n`)}{`, 408],
  ['chunks that never end', chunked('1\r\n{\r\n'), 408],
]

/** Words of the database, of its driver, of Node's internals, of a stack. */
const LEAK = /select |insert |syntax error|relation |column "|postgres|pglite|HPE_|FST_|\bat \/|node:|\.ts:/i

function isEnvelope(t: Test, { status, headers, text }: RawReply) {
  t.equal(headers['content-type'], 'application/json; charset=utf-8')
  t.equal(headers['cache-control'], 'no-store')
  t.equal(headers['x-content-type-options'], 'nosniff')
  t.equal(headers['x-frame-options'], 'DENY')
  const { error } = JSON.parse(text)
  t.match(error, { code: /^[A-Z_]+$/, message: /^[A-Z].{5,}/ })
  t.equal(error.request_id, headers['x-request-id'])
  t.notMatch(text, LEAK, `nothing leaks in ${status}`)
}

t.test('garbage is rejected in the error envelope', async (t) => {
  // A few at a time: the last ones wait for the parser to lose its patience.
  const waiting = cases.map(async ([sentence, bytes, expected]) => {
    const { replies } = await sendRaw(port, bytes)
    const [reply] = replies
    t.test(sentence, async (t) => {
      if (!reply) return t.fail('no reply')
      t.equal(reply.status, expected, reply.text.slice(0, 200))
      t.equal(replies.length, 1)
      if (reply.status >= 400) isEnvelope(t, reply)
    })
  })
  await Promise.all(waiting)
})

/** The headers of a reply that depend on how much of the request could be read. */
const knownOf = ({ status, headers }: RawReply) => ({
  status,
  version: headers['api-version'],
  vary: headers.vary,
  type: headers['content-type'],
  hasLimit: ['limit', 'remaining', 'reset'].map((name) => headers[`x-ratelimit-${name}`] !== undefined),
})
const JSON_TYPE = 'application/json; charset=utf-8'
const VENDOR = 'application/vnd.api+json;version=2'
const VARY = 'Accept, Authorization, X-API-Key'
const ALL = [true, true, true]
const NONE = [false, false, false]

t.test('a request rejected for its headers gets API-Version and rate-limit headers', async (t) => {
  const heads: [sentence: string, status: number, fields: string][] = [
    ['two Hosts', 400, 'Host: a\r\nHost: b\r\n'],
    ['no Host', 400, ''],
    ['two keys', 400, 'Host: a\r\nX-API-Key: a\r\nX-API-Key: b\r\n'],
    ['an unknown expectation', 400, 'Host: a\r\nExpect: a-miracle\r\n'],
    ['headers of 17 KiB', 431, `Host: a\r\nX-Long: ${'a'.repeat(17_408)}\r\n`],
  ]
  const forms: [path: string, accept: string, version: string, type: string][] = [
    ['/products', '*/*', '1', JSON_TYPE],
    ['/api/v2/products', '*/*', '2', JSON_TYPE],
    ['/products', VENDOR, '2', VENDOR],
  ]
  for (const [sentence, status, fields] of heads) {
    for (const [path, accept, version, type] of forms) {
      const { replies } = await sendRaw(port, get(path, `${fields}Accept: ${accept}\r\n`))
      const [reply] = replies
      if (!reply) return t.fail('no reply')
      t.same(knownOf(reply), { status, version, vary: VARY, type, hasLimit: ALL }, `${sentence}, ${path}`)
    }
    const [free] = (await sendRaw(port, get('/livez', fields))).replies
    t.match(free, { status, headers: { 'api-version': undefined, 'x-ratelimit-limit': undefined } })
  }
})

t.test('the reply to a parser error uses the headers that were read so far', async (t) => {
  const vendor = `Content-Type: application/json\r\nAccept: ${VENDOR}\r\nX-Request-Id: mine-12345678\r\n`
  const cases: [sentence: string, bytes: string, status: number, version?: string, type?: string][] = [
    ['a broken head', get('/v2/products', `${CLOSE}nonsense\r\n`), 400],
    ['a broken chunk', chunked('zz\r\n').replace('/v1/', '/v2/'), 400, '2'],
    ['a broken chunk, by Accept', chunked('zz\r\n', vendor).replace('/api/v1', ''), 400, '2', VENDOR],
    ['a body that never ends', chunked('1\r\n{\r\n'), 408, '1'],
    ['a long chunk extension', chunked(`2;${'a'.repeat(20_480)}\r\n`), 413, '1'],
    ['a path that cannot be decoded', get('/v2/products/%zz'), 400, '2'],
    ['a broken head behind a whole request', `${get('/v2/products', HEAD)}GET / HTTP/1.1\r\nx\r\n\r\n`, 400],
  ]
  for (const [sentence, bytes, status, version, type = JSON_TYPE] of cases) {
    const reply = (await sendRaw(port, bytes)).replies.at(-1)
    if (!reply) return t.fail('no reply')
    const vary = version === undefined ? undefined : VARY
    t.same(knownOf(reply), { status, version, vary, type, hasLimit: NONE }, sentence)
    const requestId = reply.headers['x-request-id']
    t.equal(JSON.parse(reply.text).error.request_id, requestId)
    if (bytes.includes('mine-12345678')) t.equal(requestId, 'mine-12345678')
  }
})

t.test('the next request on a new connection still works', async (t) => {
  const before = await admin.get(PRODUCTS)
  t.same(before.body.data, [], 'and nothing was made of the garbage')
  const made = await admin.post(PRODUCTS, JSON.parse(product('')))
  t.equal(made.status, 201)
  t.equal((await admin.get(`${PRODUCTS}/${made.body.data.id}`)).status, 200)
})

const getStatuses = (replies: RawReply[]) => replies.map(({ status }) => status)

const unauthorized = `POST ${PRODUCTS} HTTP/1.1\r\nHost: localhost\r\n${JSON_BODY}`
const two = get(PRODUCTS, HEAD) + get('/nothing', HEAD)
const pipelines: [sentence: string, statuses: number[], bytes: string, followedBy?: string][] = [
  ['pipelined requests are answered in order', [200, 404, 200], two + get('/livez')],
  ['a malformed request after complete ones is answered last', [200, 404, 400], `${two}garbage\r\n\r\n`],
  ['a malformed body after a complete request too', [200, 400], get(PRODUCTS, HEAD) + chunked('zz\r\n')],
  [
    'a body that becomes malformed after the reply ends the connection without a second reply',
    [401],
    `${unauthorized}Transfer-Encoding: chunked\r\n\r\n`,
    'zz\r\n',
  ],
  [
    'a malformed request is answered after a request whose body arrived after its reply',
    [401, 400],
    `${unauthorized}Content-Length: 2\r\n\r\n`,
    '{}garbage\r\n\r\n',
  ],
]
for (const [sentence, statuses, bytes, followedBy] of pipelines) {
  t.test(sentence, async (t) => {
    const { replies, closed } = await sendRaw(port, bytes, followedBy === undefined ? {} : { followedBy })
    t.same(getStatuses(replies), statuses)
    t.ok(closed)
  })
}
