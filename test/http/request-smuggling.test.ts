/** A request whose end a proxy and this server could read differently is rejected: no hidden request is answered. */
import t from 'tap'
import { ADMIN_KEY, testApp } from '../helpers/app.ts'
import { sendRaw } from '../helpers/network.ts'

const { app, port, admin } = await testApp(t)
// What waits for bytes that never come is given up soon.
app.server.headersTimeout = 400
app.server.requestTimeout = 700
app.server.keepAliveTimeout = 500

const PRODUCTS = '/api/v1/products'
const KEY = `X-API-Key: ${ADMIN_KEY}\r\n`
const GOOD = 'good-request-0001'
const HIDDEN = 'hidden-request-0001'
const good = `GET /livez HTTP/1.1\r\nHost: a\r\nX-Request-Id: ${GOOD}\r\nConnection: close\r\n\r\n`
const hiddenBody = '{"sku":"HIDDEN","name":"Hidden","price_amount":1}'
const hidden = `POST ${PRODUCTS} HTTP/1.1\r\nHost: a\r\n${KEY}X-Request-Id: ${HIDDEN}\r\nContent-Type: application/json\r\nContent-Length: ${hiddenBody.length}\r\n\r\n${hiddenBody}`
/** The length of the hidden request, where it is a body. */
const HIDDEN_BODY = `Content-Length: ${hidden.length}\r\n`
const hex = (text: string) => text.length.toString(16)

/** A POST with these fields; what comes after its head is up to the case. */
const post = (fields: string, rest: string) =>
  `POST ${PRODUCTS} HTTP/1.1\r\nHost: a\r\n${KEY}Content-Type: application/json\r\n${fields}\r\n${rest}`
const get = (fields: string, rest = '', target = '/livez') =>
  `GET ${target} HTTP/1.1\r\nHost: a\r\n${fields}\r\n${rest}`
const empty = '0\r\n\r\n'
/** A POST with the hidden request as its body, or behind its chunks. */
const hide = (fields: string) => post(fields + HIDDEN_BODY, hidden)
const hideBehindChunks = (fields: string) => post(fields, `${empty}${hidden}`)
const TE = 'Transfer-Encoding: chunked\r\n'

/** `ends`: refused, and the connection closed. `goes on`: answered for what it is, and so is the good one after it. */
type Case = [sentence: string, bytes: string, outcome: 'ends' | 'goes on' | 'either']

const cases: Case[] = [
  // Two lengths
  ['a length and chunks', hideBehindChunks(`Content-Length: 5\r\n${TE}`), 'ends'],
  ['chunks and a length', hideBehindChunks(`${TE}Content-Length: 5\r\n`), 'ends'],
  ['two lengths that differ', hide('Content-Length: 0\r\n'), 'ends'],
  ['two lengths alike', post('Content-Length: 2\r\nContent-Length: 2\r\n', '{}'), 'ends'],
  ['two lengths in one field that differ', post(`Content-Length: 0, ${hidden.length}\r\n`, hidden), 'ends'],
  // Lengths that are none
  ['a length with a plus', post('Content-Length: +2\r\n', '{}'), 'ends'],
  ['a length in hexadecimal', post('Content-Length: 0x2\r\n', '{}'), 'ends'],
  ['a length with a decimal point', post('Content-Length: 2.0\r\n', '{}'), 'ends'],
  ['a length with a space inside', post('Content-Length: 1 0\r\n', '{}'), 'ends'],
  ['a length with a leading tab', post('Content-Length:\t2\r\n', '{}'), 'goes on'],
  ['a length with leading zeros', post('Content-Length: 0002\r\n', '{}'), 'goes on'],
  ['a length of nothing', post('Content-Length: \r\n', hidden), 'ends'],
  ['a length that overflows 64 bits', post('Content-Length: 18446744073709551618\r\n', '{}'), 'ends'],
  ['a length with a space before its colon', post(`Content-Length : ${hidden.length}\r\n`, hidden), 'ends'],
  ['a folded length', post('Content-Length:\r\n 2\r\n', '{}'), 'ends'],
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
  ['an empty coding', post('Transfer-Encoding: \r\n', hidden), 'ends'],
  ['chunks in HTTP/1.0', hideBehindChunks(TE).replace('HTTP/1.1', 'HTTP/1.0'), 'ends'],
  ['gzip, then chunked', post('Transfer-Encoding: gzip, chunked\r\n', empty), 'ends'],
  // Chunks
  ['a chunk size that overflows', post(TE, `FFFFFFFFFFFFFFFFF\r\n${hidden}`), 'ends'],
  ['a chunk size below zero', post(TE, `-2\r\n{}\r\n${empty}`), 'ends'],
  ['a chunk size with a space behind it', post(TE, `2 \r\n{}\r\n${empty}`), 'either'],
  ['a chunk size of nothing', post(TE, `\r\n${hidden}`), 'ends'],
  ['a chunk whose line ends in LF alone', post(TE, `2\n{}\r\n${empty}`), 'ends'],
  ['a chunk without an end', post(TE, `2\r\n{}${empty}`), 'ends'],
  ['a chunk that ends in LF alone', post(TE, `2\r\n{}\n${empty}`), 'ends'],
  ['a chunk extension with a line break', post(TE, `2;a\nb\r\n{}\r\n${empty}`), 'ends'],
  ['a chunk extension', post(TE, `2;a="b"\r\n{}\r\n${empty}`), 'goes on'],
  ['a last chunk of many zeros', post(TE, '2\r\n{}\r\n000\r\n\r\n'), 'goes on'],
  ['a trailer', post(TE, '2\r\n{}\r\n0\r\nX-Trailer: 1\r\n\r\n'), 'goes on'],
  [
    'a trailer that would be a length',
    post(TE, `2\r\n{}\r\n0\r\nContent-Length: ${good.length}\r\n\r\n`),
    'either',
  ],
  ['a trailer that would be a coding', post(TE, `2\r\n{}\r\n0\r\n${TE}\r\n`), 'either'],
  // Bodies where none belongs
  ['a GET whose body is a request', get(HIDDEN_BODY, hidden), 'either'],
  ['a GET whose chunk is a request', get(TE, `${hex(hidden)}\r\n${hidden}\r\n${empty}`), 'either'],
  [
    'an OPTIONS whose body is a request',
    get(HIDDEN_BODY, hidden, PRODUCTS).replace('GET', 'OPTIONS'),
    'either',
  ],
  [
    'a DELETE whose body is a request',
    get(KEY + HIDDEN_BODY, hidden, `${PRODUCTS}/x`).replace('GET', 'DELETE'),
    'either',
  ],
  ['a JSON body that is a request', hide(''), 'either'],
  ['an expectation whose body is a request', hide('Expect: 100-continue\r\n'), 'either'],
  ['an unknown expectation whose body is a request', hide('Expect: a-miracle\r\n'), 'ends'],
  [
    'an upgrade whose bytes are a request',
    get('Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n'),
    'ends',
  ],
  ['HTTP/2 by its preface, then a request', `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${hidden}`, 'ends'],
  ['CONNECT, then a request', `CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n${hidden}`, 'ends'],
  // Lines and names
  ['a target of the authority form', get('', '', 'example.com:443'), 'ends'],
  ['a target with a tab', get('', '', '/livez\t'), 'ends'],
  ['two spaces in the request line', get('').replace('GET ', 'GET  '), 'either'],
  ['a request line with words behind it', get('').replace('HTTP/1.1', 'HTTP/1.1 HTTP/1.1'), 'ends'],
  ['a request line that ends in LF alone', get('').replace('\r\n', '\n'), 'ends'],
  ['HTTP/1.2', get('').replace('HTTP/1.1', 'HTTP/1.2'), 'ends'],
  ['http in small letters', get('').replace('HTTP/1.1', 'http/1.1'), 'ends'],
  ['a space before the first header', get(' X-A: b\r\n').replace('Host: a\r\n', ''), 'ends'],
  ['two Hosts alike', get('Host: a\r\n'), 'ends'],
  ['a Host with a path', get('').replace('Host: a', 'Host: a/b'), 'ends'],
  ['an empty Host', get('').replace('Host: a', 'Host:'), 'either'],
  ['a name in obs-text', get('X-\xe9: b\r\n'), 'ends'],
  ['a value in obs-text', get('X-A: \xe9\xff\r\n'), 'goes on'],
  ['a value with a DEL', get('X-A: a\x7fb\r\n'), 'ends'],
  ['a value with a NUL', get('X-A: a\0b\r\n'), 'ends'],
  ['a folded header', get('X-A: b\r\n c\r\n'), 'either'],
  ['headers that end in LF alone', get('X-A: b\nX-B: c\n'), 'either'],
  ['a header section that ends in CR CR', get('').replace('\r\n\r\n', '\r\r'), 'ends'],
  ['an empty line before the request', `\r\n${get('')}`, 'goes on'],
  ['Connection: close, then a request', get('Connection: close\r\n', hidden), 'ends'],
  ['Connection that names Content-Length', hide('Connection: Content-Length\r\n'), 'either'],
]

t.test('a request with an ambiguous end is rejected, and the connection is closed', async (t) => {
  const answers = await Promise.all(
    cases.map(async ([, bytes]) => sendRaw(port, Buffer.from(bytes + good, 'latin1'))),
  )
  for (const [i, [sentence, , outcome]] of cases.entries()) {
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
      const last = replies.at(-1)
      const goesOn = ids.includes(GOOD)
      if (goesOn) {
        t.equal(replies.length, 2, 'one answer for each')
        t.equal(ids.indexOf(GOOD), 1, 'in their order')
        t.equal(last?.status, 200, 'the good one has its own')
      } else t.equal(replies.length, 1, 'nothing else is answered')
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
  for (let i = 0; i < 20; i++) {
    const all = await Promise.all(Array.from({ length: 50 }, () => sendRaw(port, bytes)))
    for (const { replies } of all) counts.add(replies.length)
  }
  t.strictSame([...counts], [1])
})
