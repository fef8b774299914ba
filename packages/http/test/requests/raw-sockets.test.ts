/**
 * Requests that the HTTP parser rejects get the error envelope, in order, and the connection ends cleanly. Where a proxy
 * could read the end of a request differently, no hidden request is answered.
 */
import t, { type Test } from 'tap'
import { ADMIN_KEY, testApp } from '../../../testing/helpers/app.ts'
import { type RawReply, sendRaw } from '../../../testing/helpers/network.ts'

const { app, port, admin } = await testApp(t)
// Ten and five seconds by default.
app.server.headersTimeout = 400
app.server.requestTimeout = 700
app.server.keepAliveTimeout = 500

const PRODUCTS = '/api/v1/products'
const KEY = `X-API-Key: ${ADMIN_KEY}\r\n`
const HEAD = `Host: localhost\r\n${KEY}`
const CLOSE = `${HEAD}Connection: close\r\n`

const JSON_BODY = 'Content-Type: application/json\r\n'
const CLOSE_KEY = `${KEY}Connection: close\r\n`
const MANY = 'X: 1\r\n'.repeat(1_000)
const latin1 = (text: string) => Buffer.from(text, 'latin1')

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
  ['a request line without a target', `GET HTTP/1.1\r\n${CLOSE}\r\n`, 400],
  ['a target with a space', get(`${PRODUCTS}/a b`), 400],
  ['a target that begins with no slash', get('products'), 400],
  ['an unknown HTTP version', `GET ${PRODUCTS} HTTP/3.7\r\n${CLOSE}\r\n`, 400],
  ['HTTP/0.9', `GET ${PRODUCTS}\r\n\r\n`, 400],
  ['HTTP/1.0 without a Host', `GET ${PRODUCTS} HTTP/1.0\r\n${KEY}\r\n`, 200],
  ['GET *', get('*'), 404],
  // Header fields
  ['a header without a name', get(PRODUCTS, `${CLOSE}: value\r\n`), 400],
  ['a header with a space in its name', get(PRODUCTS, `${CLOSE}Bad Name: value\r\n`), 400],
  ['a bare CR in a header', get(PRODUCTS, `${CLOSE}X-Cr: a\rb\r\n`), 400],
  ['bytes above ASCII in a header', latin1(get(PRODUCTS, `${CLOSE}X-High: \xff\xfe\r\n`)), 200],
  ['a thousand headers', get(PRODUCTS, CLOSE + 'X-Many: 12345678\r\n'.repeat(1_000)), 431],
  ['a second Host behind a thousand headers', get(PRODUCTS, `${CLOSE}${MANY}Host: b\r\n`), 400],
  ['a key behind a thousand headers', get(PRODUCTS, `Host: a\r\n${MANY}${CLOSE_KEY}`), 200],
  ['an endless Accept', get(PRODUCTS, `${CLOSE}Accept: ${'a/b,'.repeat(3_000)}\r\n`), 406],
  ['an expectation that can be met', post(product(',"x":1'), 'Expect: 100-continue\r\n'), 422],
  ['an upgrade to h2c', get(PRODUCTS, `${HEAD}Connection: close, upgrade\r\nUpgrade: h2c\r\n`), 200],
  ['an upgrade', get(PRODUCTS, `${HEAD}Connection: upgrade, close\r\nUpgrade: websocket\r\n`), 200],
  // Addresses
  ['an encoding that is none', get(`${PRODUCTS}/%zz`), 400],
  ['an encoding that is no UTF-8', get(`${PRODUCTS}/%ff`), 400],
  ['dots', get('/api/v1/../../etc/passwd'), 404],
  ['a path of 24 KiB', get(`${PRODUCTS}/${'a'.repeat(24_576)}`), 404],
  ['an id that would be SQL', get(`${PRODUCTS}/'%20or%201=1--`), 404],
  ['a query of 8 KiB', get(`${PRODUCTS}?search=${'a'.repeat(8_185)}`), 400],
  ['a query of more', get(`${PRODUCTS}?search=${'a'.repeat(8_186)}`), 414],
  // Lengths and chunks
  ['a length beyond the limit', postHead(`${JSON_BODY}Content-Length: 1048577\r\n`), 413],
  ['chunks in good order', chunked(`5\r\n{"a":\r\n2\r\n1}\r\n0\r\n\r\n`), 422],
  ['a chunk longer than it says', chunked('2\r\n{"a":1}\r\n0\r\n\r\n'), 400],
  // Bodies
  ['nothing but spaces', post('   '), 400],
  ['a byte order mark before JSON', post(`\ufeff${product(',"x":1')}`), 422],
  ['a byte order mark of UTF-16', post(Buffer.from([0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00])), 400],
  ['invalid UTF-8', post(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), 400],
  ['an encoded surrogate', post(latin1('{"name":"\xed\xa0\x80"}')), 400],
  ['a NUL between members', post('{"sku":"A",\0"name":"B"}'), 400],
  ['a hundred thousand levels', post('['.repeat(100_000)), 400],
  ['brackets in a string, which are no levels', post(product(`,"x":"${'['.repeat(50)}"`)), 422],
  // Time
  ['a head that never ends', `GET ${PRODUCTS} HTTP/1.1\r\nHost: localhost\r\n`, 408],
  ['a request line that never ends', 'GET /api', 408],
  ['a body that never ends', `${postHead(`${JSON_BODY}Content-Length: 10\r\n`)}{`, 408],
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
  t.ok(headers.link?.endsWith(`</docs/#${error.code}>; rel="help"`), error.code)
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

const VENDOR = 'application/vnd.api+json;version=2'
/** Returns the status, the version and the media type of a response, and whether it has the rate-limit headers. */
const summarize = ({ status, headers }: RawReply) => {
  const count = ['limit', 'remaining', 'reset'].filter((name) => headers[`x-ratelimit-${name}`]).length
  const vary = headers.vary === 'Accept, Authorization, X-API-Key' ? 'vary ' : ''
  const type = headers['content-type']?.startsWith('application/json;') ? 'json' : headers['content-type']
  return `${status} ${headers['api-version'] ?? '-'} ${vary}${type} ${count}`
}

t.test('a request rejected for its headers gets API-Version and rate-limit headers', async (t) => {
  for (const [sentence, status, fields] of [
    ['two Hosts', 400, 'Host: a\r\nHost: b\r\n'],
    ['no Host', 400, ''],
    ['two keys', 400, 'Host: a\r\nX-API-Key: a\r\nX-API-Key: b\r\n'],
    ['an unknown expectation', 400, 'Host: a\r\nExpect: a-miracle\r\n'],
    ['headers of 17 KiB', 431, `Host: a\r\nX-Long: ${'a'.repeat(17_408)}\r\n`],
  ] as const) {
    for (const [path, accept, expected] of [
      ['/products', '*/*', '1 vary json 3'],
      ['/api/v2/products', '*/*', '2 vary json 3'],
      ['/products', VENDOR, `2 vary ${VENDOR} 3`],
      ['/livez', '*/*', '- json 0'],
    ] as const) {
      const [reply] = (await sendRaw(port, get(path, `${fields}Accept: ${accept}\r\n`))).replies
      t.equal(reply && summarize(reply), `${status} ${expected}`, `${sentence}, ${path}`)
    }
  }
})

t.test('the reply to a parser error uses the headers that were read so far', async (t) => {
  const vendor = `Content-Type: application/json\r\nAccept: ${VENDOR}\r\nX-Request-Id: mine-12345678\r\n`
  const whole = get('/v2/products', HEAD)
  for (const [sentence, bytes, expected] of [
    ['a broken head', get('/v2/products', `${CLOSE}nonsense\r\n`), '400 - json 0'],
    ['a broken chunk', chunked('zz\r\n').replace('/v1/', '/v2/'), '400 2 vary json 0'],
    ['a broken chunk, by Accept', chunked('zz\r\n', vendor).replace('/api/v1', ''), `400 2 vary ${VENDOR} 0`],
    ['a body that never ends', chunked('1\r\n{\r\n'), '408 1 vary json 0'],
    ['a long chunk extension', chunked(`2;${'a'.repeat(20_480)}\r\n`), '413 1 vary json 0'],
    ['a path that cannot be decoded', get('/v2/products/%zz'), '400 2 vary json 0'],
    ['a broken head behind a whole request', `${whole}GET / HTTP/1.1\r\nx\r\n\r\n`, '400 - json 0'],
  ] as const) {
    const reply = (await sendRaw(port, bytes)).replies.at(-1)
    t.equal(reply && summarize(reply), expected, sentence)
    const requestId = reply?.headers['x-request-id']
    t.equal(JSON.parse(reply?.text ?? '').error.request_id, requestId)
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

const GOOD = 'good-request-0001'
const HIDDEN = 'hidden-request-0001'
const good = `GET /livez HTTP/1.1\r\nHost: a\r\nX-Request-Id: ${GOOD}\r\nConnection: close\r\n\r\n`
const hiddenBody = '{"sku":"HIDDEN","name":"Hidden","price_amount":1}'
const hidden = `POST ${PRODUCTS} HTTP/1.1\r\n${HEAD}X-Request-Id: ${HIDDEN}\r\nContent-Type: application/json\r\nContent-Length: ${hiddenBody.length}\r\n\r\n${hiddenBody}`
/** The length of the hidden request, where it is a body. */
const HIDDEN_BODY = `Content-Length: ${hidden.length}\r\n`
const hex = (text: string) => text.length.toString(16)

/** A POST with these fields; what comes after its head is up to the case. */
const send = (fields: string, rest: string) =>
  `POST ${PRODUCTS} HTTP/1.1\r\n${HEAD}${JSON_BODY}${fields}\r\n${rest}`
const ask = (fields: string, rest = '', target = '/livez') => get(target, `Host: a\r\n${fields}`) + rest
const empty = '0\r\n\r\n'
/** A POST with the hidden request as its body, or behind its chunks. */
const hide = (fields: string) => send(fields + HIDDEN_BODY, hidden)
const hideBehindChunks = (fields: string) => send(fields, `${empty}${hidden}`)
const TE = 'Transfer-Encoding: chunked\r\n'

/** `ends`: refused, and the connection closed. `goes on`: answered for what it is, and so is the good one after it. */
type Case = [sentence: string, bytes: string, outcome: 'ends' | 'goes on' | 'either']

const ambiguous: Case[] = [
  // Two lengths
  ['a length and chunks', hideBehindChunks(`Content-Length: 5\r\n${TE}`), 'ends'],
  ['chunks and a length', hideBehindChunks(`${TE}Content-Length: 5\r\n`), 'ends'],
  ['two lengths that differ', hide('Content-Length: 0\r\n'), 'ends'],
  ['two lengths alike', send('Content-Length: 2\r\nContent-Length: 2\r\n', '{}'), 'ends'],
  ['two lengths in one field that differ', send(`Content-Length: 0, ${hidden.length}\r\n`, hidden), 'ends'],
  // Lengths that are none
  ['a length with a plus', send('Content-Length: +2\r\n', '{}'), 'ends'],
  ['a length in hexadecimal', send('Content-Length: 0x2\r\n', '{}'), 'ends'],
  ['a length with a decimal point', send('Content-Length: 2.0\r\n', '{}'), 'ends'],
  ['a length with a space inside', send('Content-Length: 1 0\r\n', '{}'), 'ends'],
  ['a length with a leading tab', send('Content-Length:\t2\r\n', '{}'), 'goes on'],
  ['a length with leading zeros', send('Content-Length: 0002\r\n', '{}'), 'goes on'],
  ['a length of nothing', send('Content-Length: \r\n', hidden), 'ends'],
  ['a length that overflows 64 bits', send('Content-Length: 18446744073709551618\r\n', '{}'), 'ends'],
  ['a length with a space before its colon', send(`Content-Length : ${hidden.length}\r\n`, hidden), 'ends'],
  ['a folded length', send('Content-Length:\r\n 2\r\n', '{}'), 'ends'],
  // Codings
  ['an unknown coding', hideBehindChunks('Transfer-Encoding: cow\r\n'), 'ends'],
  ['a coding that begins like chunked', hideBehindChunks('Transfer-Encoding: chunkedx\r\n'), 'ends'],
  ['identity', hideBehindChunks('Transfer-Encoding: identity\r\n'), 'ends'],
  ['chunked, then identity', hideBehindChunks('Transfer-Encoding: chunked, identity\r\n'), 'ends'],
  ['chunked twice', hideBehindChunks('Transfer-Encoding: chunked, chunked\r\n'), 'ends'],
  ['chunked, then a cow in another field', hideBehindChunks(`${TE}Transfer-Encoding: cow\r\n`), 'ends'],
  ['chunked in quotes', hideBehindChunks('Transfer-Encoding: "chunked"\r\n'), 'ends'],
  ['chunked behind a comma', hideBehindChunks('Transfer-Encoding: ,chunked\r\n'), 'ends'],
  ['chunked with a space before its colon', hideBehindChunks('Transfer-Encoding : chunked\r\n'), 'ends'],
  ['chunked, folded', hideBehindChunks('Transfer-Encoding:\r\n chunked\r\n'), 'ends'],
  ['chunked with a vertical tab', hideBehindChunks('Transfer-Encoding: \x0bchunked\r\n'), 'ends'],
  ['chunked after a bare CR', hideBehindChunks('X-A: b\rTransfer-Encoding: chunked\r\n'), 'ends'],
  ['an empty coding', send('Transfer-Encoding: \r\n', hidden), 'ends'],
  ['chunks in HTTP/1.0', hideBehindChunks(TE).replace('HTTP/1.1', 'HTTP/1.0'), 'ends'],
  ['gzip, then chunked', send('Transfer-Encoding: gzip, chunked\r\n', empty), 'ends'],
  // Chunks
  ['a chunk size that overflows', send(TE, `FFFFFFFFFFFFFFFFF\r\n${hidden}`), 'ends'],
  ['a chunk size below zero', send(TE, `-2\r\n{}\r\n${empty}`), 'ends'],
  ['a chunk size with a space behind it', send(TE, `2 \r\n{}\r\n${empty}`), 'either'],
  ['a chunk size of nothing', send(TE, `\r\n${hidden}`), 'ends'],
  ['a chunk whose line ends in LF alone', send(TE, `2\n{}\r\n${empty}`), 'ends'],
  ['a chunk without an end', send(TE, `2\r\n{}${empty}`), 'ends'],
  ['a chunk that ends in LF alone', send(TE, `2\r\n{}\n${empty}`), 'ends'],
  ['a chunk extension with a line break', send(TE, `2;a\nb\r\n{}\r\n${empty}`), 'ends'],
  ['a chunk extension', send(TE, `2;a="b"\r\n{}\r\n${empty}`), 'goes on'],
  ['a last chunk of many zeros', send(TE, '2\r\n{}\r\n000\r\n\r\n'), 'goes on'],
  ['a trailer', send(TE, '2\r\n{}\r\n0\r\nX-Trailer: 1\r\n\r\n'), 'goes on'],
  ['a trailer that would be a length', send(TE, `2\r\n{}\r\n0\r\n${HIDDEN_BODY}\r\n`), 'either'],
  ['a trailer that would be a coding', send(TE, `2\r\n{}\r\n0\r\n${TE}\r\n`), 'either'],
  // Bodies where none belongs
  ['a GET whose body is a request', ask(HIDDEN_BODY, hidden), 'either'],
  ['a GET whose chunk is a request', ask(TE, `${hex(hidden)}\r\n${hidden}\r\n${empty}`), 'either'],
  ['an OPTIONS whose body is a request', ask(HIDDEN_BODY, hidden).replace('GET', 'OPTIONS'), 'either'],
  ['a DELETE whose body is a request', ask(KEY + HIDDEN_BODY, hidden).replace('GET', 'DELETE'), 'either'],
  ['a JSON body that is a request', hide(''), 'either'],
  ['an expectation whose body is a request', hide('Expect: 100-continue\r\n'), 'either'],
  ['an unknown expectation whose body is a request', hide('Expect: a-miracle\r\n'), 'ends'],
  ['an upgrade whose bytes are a request', ask('Connection: upgrade\r\nUpgrade: websocket\r\n'), 'ends'],
  ['HTTP/2 by its preface, then a request', `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${hidden}`, 'ends'],
  ['CONNECT, then a request', `CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n${hidden}`, 'ends'],
  // Lines and names
  ['a target of the authority form', ask('', '', 'example.com:443'), 'ends'],
  ['a target with a tab', ask('', '', '/livez\t'), 'ends'],
  ['two spaces in the request line', ask('').replace('GET ', 'GET  '), 'either'],
  ['a request line with words behind it', ask('').replace('HTTP/1.1', 'HTTP/1.1 HTTP/1.1'), 'ends'],
  ['a request line that ends in LF alone', ask('').replace('\r\n', '\n'), 'ends'],
  ['HTTP/1.2', ask('').replace('HTTP/1.1', 'HTTP/1.2'), 'ends'],
  ['http in small letters', ask('').replace('HTTP/1.1', 'http/1.1'), 'ends'],
  ['a space before the first header', ask(' X-A: b\r\n').replace('Host: a\r\n', ''), 'ends'],
  ['two Hosts alike', ask('Host: a\r\n'), 'ends'],
  ['a Host with a path', ask('').replace('Host: a', 'Host: a/b'), 'ends'],
  ['an empty Host', ask('').replace('Host: a', 'Host:'), 'either'],
  ['a name in obs-text', ask('X-\xe9: b\r\n'), 'ends'],
  ['a value in obs-text', ask('X-A: \xe9\xff\r\n'), 'goes on'],
  ['a value with a DEL', ask('X-A: a\x7fb\r\n'), 'ends'],
  ['a value with a NUL', ask('X-A: a\0b\r\n'), 'ends'],
  ['a folded header', ask('X-A: b\r\n c\r\n'), 'either'],
  ['headers that end in LF alone', ask('X-A: b\nX-B: c\n'), 'either'],
  ['a header section that ends in CR CR', ask('').replace('\r\n\r\n', '\r\r'), 'ends'],
  ['an empty line before the request', `\r\n${ask('')}`, 'goes on'],
  ['Connection: close, then a request', ask('Connection: close\r\n', hidden), 'ends'],
  ['Connection that names Content-Length', hide('Connection: Content-Length\r\n'), 'either'],
]

t.test('a request with an ambiguous end is rejected, and the connection is closed', async (t) => {
  const answers = await Promise.all(ambiguous.map(async ([, bytes]) => sendRaw(port, latin1(bytes + good))))
  for (const [i, [sentence, , outcome]] of ambiguous.entries()) {
    t.test(`${sentence}: ${outcome}`, async (t) => {
      const { replies = [], closed = false } = answers[i] ?? {}
      const ids = replies.map(({ headers }) => headers['x-request-id'])
      t.notOk(ids.includes(HIDDEN), 'hidden bytes are no request')
      t.ok(closed, 'the connection ends, by the good request or before it')
      t.ok(replies.length >= 1, 'it is answered')
      for (const { status, headers, text } of replies) {
        t.ok(status < 500, `${status} ${text}`)
        if (status < 400) continue
        t.match(JSON.parse(text), { error: { code: /^[A-Z_]+$/, request_id: headers['x-request-id'] } })
      }
      const goesOn = ids.includes(GOOD)
      t.equal(replies.length, goesOn ? 2 : 1, 'one answer for each')
      if (goesOn) t.match([ids[1], replies[1]?.status], [GOOD, 200], 'in their order')
      if (outcome === 'ends')
        t.notOk(goesOn, `nothing is read after it: ${replies.map(({ status }) => status)}`)
      if (outcome === 'goes on') t.ok(goesOn, `${replies.map(({ status, text }) => `${status} ${text}`)}`)
    })
  }
  t.same((await admin.get(`${PRODUCTS}?search=hidden`)).body.data, [], 'no hidden request wrote anything')
})

t.test('bytes after a request with Connection: close are not answered', async (t) => {
  const bytes = hideBehindChunks(TE).replace('HTTP/1.1', 'HTTP/1.0')
  const counts = new Set<number>()
  for (let i = 0; i < 5; i++) {
    const all = await Promise.all(Array.from({ length: 50 }, () => sendRaw(port, bytes)))
    for (const { replies } of all) counts.add(replies.length)
  }
  t.strictSame([...counts], [1])
})
