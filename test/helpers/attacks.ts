/** Requests that are meant to be expensive, and the delay of `/livez` while the server answers them. */

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { ADMIN_KEY } from './app.ts'
import { sendRaw } from './raw-requests.ts'

export interface Attack {
  name: string
  /** Everything that is sent. */
  bytes: Buffer
  /** The status of the reply. */
  status: number
}

interface Request {
  method?: string
  path: string
  /** Whole lines, each with its end. */
  headers?: string
  contentType?: string
  body?: string | Buffer
  /** Whether it is sent without credentials. */
  isAnonymous?: boolean
  /** Bytes of each chunk; absent: not sent in chunks. */
  chunkSize?: number
}

const MIB = 1_048_576
const ID = '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'
const MARKS = '\u0301\u0323'

function inChunks(body: Buffer, size: number): Buffer {
  const chunks: Buffer[] = []
  for (let i = 0; i < body.length; i += size) {
    const chunk = body.subarray(i, i + size)
    chunks.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'))
  }
  return Buffer.concat([...chunks, Buffer.from('0\r\n\r\n')])
}

function toBytes(request: Request): Buffer {
  const { path, headers = '', body, isAnonymous = false, chunkSize } = request
  const content = body === undefined ? undefined : Buffer.from(body)
  const framing =
    chunkSize === undefined ? `Content-Length: ${content?.length}` : 'Transfer-Encoding: chunked'
  const head = [
    `${request.method ?? (content ? 'POST' : 'GET')} ${path} HTTP/1.1`,
    'Connection: close',
    ...(/^Host:/m.test(headers) ? [] : ['Host: a']),
    ...(isAnonymous ? [] : [`X-API-Key: ${ADMIN_KEY}`]),
    ...(content ? [`Content-Type: ${request.contentType ?? 'application/json'}`, framing] : []),
  ]
  const sent = content && (chunkSize === undefined ? content : inChunks(content, chunkSize))
  return Buffer.concat([
    Buffer.from(`${head.join('\r\n')}\r\n${headers}\r\n`, 'latin1'),
    ...(sent ? [sent] : []),
  ])
}

/** Repeats a unit as often as it fits into `size` bytes. */
const repeated = (unit: string, size = MIB - 1_000) => unit.repeat(Math.floor(size / Buffer.byteLength(unit)))

/** Returns a JSON array with as many copies of an item as fit into a body. */
const arrayOf = (item: string) => `[${repeated(`${item},`)}${item}]`

const objectOf = (count: number, name: (i: number) => string, value = '1') =>
  `{${Array.from({ length: count }, (_, i) => `"${name(i)}":${value}`).join()}}`

const MEMBERS = Math.floor((MIB - 1_000) / '"x00000":1,'.length)

const tokens: [string, number, Partial<Request>][] = [
  [
    'charset with 16,000 spaces',
    415,
    { contentType: `application/json; charset=${' '.repeat(16_000)}a"b`, body: '{}' },
  ],
  [
    'charset with 3,000 spaces',
    415,
    { contentType: `application/json; charset=${' '.repeat(3_000)}a"b`, body: '{}' },
  ],
  [
    'an address of 900 kB of marks',
    413,
    { body: `{"grant_type":"password","password":"x","email":"a${repeated(MARKS, 900_000)}"}` },
  ],
  [
    'an address of 16 KiB of marks',
    422,
    { body: `{"grant_type":"password","password":"x","email":"a${repeated(MARKS, 16_000)}"}` },
  ],
  ['1 MiB of [', 413, { body: repeated('[') }],
  ['16 KiB of [', 400, { body: repeated('[', 16_000) }],
  ['1 MiB of [ in chunks', 413, { body: repeated('['), chunkSize: 65_536 }],
  ['100,000 members', 413, { body: objectOf(MEMBERS, (i) => `x${i}`) }],
]

const orders: [string, number, string][] = [
  ['1 MiB of [', 400, repeated('[')],
  ['1 MiB of {"a":', 400, repeated('{"a":')],
  ['1 MiB of "', 400, repeated('"')],
  ['1 MiB of backslashes', 400, `"${repeated('\\')}`],
  ['1 MiB of white space', 400, repeated(' ')],
  ['1 MiB of :', 400, repeated('"":')],
  ['100,000 members', 400, objectOf(MEMBERS, (i) => `x${i}`)],
  ['100,000 members of one name', 400, objectOf(MEMBERS, () => 'x00000')],
  ['100,000 members in objects of a thousand', 400, `[${repeated(`${objectOf(900, (i) => `x${i}`)},`)}1]`],
  [
    'objects with different members',
    400,
    `[${Array.from({ length: 8_000 }, (_, i) => objectOf(9, (j) => (i * 9 + j).toString(36))).join()}]`,
  ],
  ['names with escapes that are none', 400, `{"items":${arrayOf('{"\\x":1}')}}`],
  ['names with escapes', 400, `{"items":${arrayOf('{"\\u0061":1}')}}`],
  ['names that are numbers', 422, objectOf(990, (i) => `${i * 1_024}`)],
  ['a name of 1 MiB', 422, `{"${repeated('n')}":1}`],
  ['a name of 1 MiB of dots', 422, `{"${repeated('.')}":1}`],
  ['50 names of 20 kB of control characters', 422, objectOf(50, (i) => repeated('\\u0001', 20_000) + i)],
  ['500,000 items that are numbers', 422, `{"items":${arrayOf('1')}}`],
  ['items that are fractions', 422, `{"items":${arrayOf('1e5')}}`],
  ['items that are strings', 422, `{"items":${arrayOf('""')}}`],
  ['items that are arrays', 400, `{"items":${arrayOf('[]')}}`],
  ['items that are empty objects', 400, `{"items":${arrayOf('{}')}}`],
  ['items that are alike', 400, `{"items":${arrayOf(`{"product_id":"${ID}","quantity":1}`)}}`],
  [
    '100 items with 98 unknown members each',
    422,
    `{"items":[${Array.from({ length: 100 }, () => objectOf(98, (i) => `${i}${'n'.repeat(90)}`)).join()}]}`,
  ],
  [
    '100 items with ids of 10 kB',
    422,
    `{"items":[${Array.from({ length: 100 }, (_, i) => `{"product_id":"${i}${'a'.repeat(10_000)}"}`).join()}]}`,
  ],
  ['an address with 990 unknown members', 422, `{"shipping_address":${objectOf(990, (i) => `x${i}`)}}`],
  ['a note of 1 MiB', 422, `{"note":"${repeated('n')}"}`],
  ['a note of 1 MiB of control characters', 422, `{"note":"${repeated('\\u0001')}"}`],
  ['a note of 1 MiB of lone surrogates', 422, `{"note":"${repeated('\\ud800')}"}`],
  ['a note of 1 MiB of marks', 422, `{"note":"a${repeated(MARKS)}"}`],
  ['a note of 6,000 marks', 422, `{"note":"a${MARKS.repeat(3_000)}"}`],
  ['an unknown member of 1 MiB of marks', 422, `{"x":"a${repeated(MARKS)}"}`],
  ['an owner of 1 MiB', 422, `{"user_id":"${repeated('0')}"}`],
  ['a status of 1 MiB of marks', 422, `{"status":"a${repeated(MARKS)}"}`],
  ['a number of 1 MiB', 422, `{"status":${repeated('1')}}`],
]

const gets: [string, number, string][] = [
  ['a search of 8 KiB of marks', 400, `/products?search=a${encodeURIComponent(repeated(MARKS, 2_700))}`],
  ['fields of 8 KiB', 400, `/products?fields=${repeated('a,', 8_000)}`],
  [
    'different fields of 8 KiB',
    400,
    `/products?fields=${Array.from({ length: 1_900 }, (_, i) => i.toString(36)).join()}`,
  ],
  ['sort of 8 KiB', 400, `/products?sort=${repeated('-name,', 8_000)}`],
  ['order of 8 KiB', 400, `/products?order=${repeated('asc,', 8_000)}`],
  ['include of 8 KiB', 400, `/orders?include=${repeated('user,', 8_000)}`],
  [
    '1,500 parameters',
    400,
    `/products?${Array.from({ length: 1_500 }, (_, i) => `${i.toString(36)}=1`).join('&')}`,
  ],
  ['4,000 times one parameter', 400, `/products?${repeated('a&', 8_000)}`],
  ['a cursor of 8 KiB', 400, `/products?cursor=${repeated('a', 8_000)}`],
  ['a number of 8 KiB', 400, `/products?limit=${repeated('1', 8_000)}`],
  ['a path of 15 KiB', 404, `/products/${repeated('a', 15_000)}`],
  ['a path of 15 KiB of encodings', 404, `/products/${repeated('%61', 15_000)}`],
]

const headers: [string, number, string][] = [
  ['Accept', 406, repeated('a/b;c="d,', 14_000)],
  ['Accept', 404, `application/json;version${' '.repeat(980)}x`],
  ['If-None-Match', 404, repeated('"a" "', 14_000)],
  ['If-Modified-Since', 404, `Sun, ${repeated('0', 14_000)}`],
  ['Origin', 404, repeated('https://', 14_000)],
  ['X-Forwarded-For', 404, repeated('1.1.1.1,', 14_000)],
  ['Host', 404, repeated('a.', 14_000)],
  ['Cookie', 404, repeated('a=b;', 14_000)],
  ['traceparent', 404, repeated('00-', 14_000)],
  ['X-Request-Id', 404, repeated('a', 14_000)],
]

/** Creates every kind of request that costs, or might cost, more than others of its size. */
export function createAttacks(): Attack[] {
  const made = (name: string, status: number, request: Request): Attack => ({
    name: `${request.method ?? (request.body === undefined ? 'GET' : 'POST')} ${request.path.slice(0, 30)}: ${name}`,
    bytes: toBytes(request),
    status,
  })
  const api = '/api/v1'
  return [
    ...tokens.map(([name, status, request]) =>
      made(name, status, { path: `${api}/tokens`, isAnonymous: true, ...request }),
    ),
    ...orders.map(([name, status, body]) => made(name, status, { path: `${api}/orders`, body })),
    ...orders
      .filter(([name]) => /items|members|note/.test(name))
      .flatMap(([name, status, body]) => [
        made(name, status, { path: `${api}/orders`, headers: 'Idempotency-Key: attack\r\n', body }),
        made(name, status, { method: 'PUT', path: `${api}/orders/${ID}`, body }),
        made(name, status, {
          method: 'PATCH',
          path: `${api}/orders/${ID}`,
          contentType: 'application/merge-patch+json',
          body,
        }),
      ]),
    made('a typed envelope with a name of 1 MiB', 422, {
      path: '/api/v2/products',
      body: `{"data":{"type":"products","attributes":{"name":"${repeated('n')}"}}}`,
    }),
    made('a typed envelope with 990 unknown members', 422, {
      path: '/api/v2/products',
      body: `{"data":${objectOf(990, (i) => `x${i}`)}}`,
    }),
    made('white space of 1 MiB around a name', 404, {
      method: 'PATCH',
      path: `${api}/products/${ID}`,
      body: `{"name":"${repeated(' ')}a"}`,
    }),
    made('a text of 100,000 characters of 6 bytes', 404, {
      method: 'PATCH',
      path: `${api}/users/${ID}/posts/${ID}`,
      body: `{"body":"${'\\u263a'.repeat(100_000)}"}`,
    }),
    made('a time of 1 MiB', 422, {
      path: `${api}/api-keys`,
      body: `{"name":"a","scopes":["*"],"expires_at":"2026-11-21T09:30:00.${repeated('0')}Z"}`,
    }),
    made('scopes of 1 MiB', 422, { path: `${api}/api-keys`, body: `{"scopes":${arrayOf('"*"')}}` }),
    made('a body of 1 MiB', 400, { method: 'DELETE', path: `${api}/products/${ID}`, body: repeated('[') }),
    made('100,000 chunks of one byte', 400, {
      path: `${api}/orders`,
      body: repeated(' ', 170_000),
      chunkSize: 1,
    }),
    ...gets.map(([name, status, path]) => made(name, status, { path: api + path })),
    ...headers.map(([name, status, value]) =>
      made(`${name} of ${value.length} characters`, status, {
        path: `${api}/products/${ID}`,
        headers: `${name}: ${value}\r\n`,
      }),
    ),
    ...[`"${repeated('\\"', 14_000)}`, repeated('a', 14_000)].map((key) =>
      made('Idempotency-Key of 14,000 characters', 400, {
        path: `${api}/orders`,
        headers: `Idempotency-Key: ${key}\r\n`,
        body: '{}',
      }),
    ),
    ...[`Bearer ${' '.repeat(14_000)}a b`, `Bearer ${repeated('a.', 14_000)}`].map((value) =>
      made('Authorization of 14,000 characters', 401, {
        path: `${api}/orders`,
        headers: `Authorization: ${value}\r\n`,
        isAnonymous: true,
      }),
    ),
  ]
}

/** Milliseconds that replies took. */
export interface Delays {
  count: number
  p50: number
  p99: number
  max: number
}

const PROBE = 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'
/** Milliseconds between a reply and the next request. */
const PAUSE = 2

/** Opens a connection. Its first reply takes longer than the others and does not count. */
async function openProbe(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.setNoDelay()
  await once(socket, 'connect')
  await probe(socket)
  return socket
}

/** Sends one request for `/livez` and waits for the complete reply. */
async function probe(socket: Socket): Promise<void> {
  socket.write(PROBE)
  let text = ''
  // The reply ends with the JSON object that is its body.
  while (!/\r\n\r\n.*\}$/s.test(text)) {
    const [chunk] = await once(socket, 'data')
    text += String(chunk)
  }
}

/** Measures the delay of `/livez` on a separate connection until `work` has ended. */
export async function watchLivez(port: number, work: () => Promise<unknown>): Promise<Delays> {
  let socket = await openProbe(port)
  const delays: number[] = []
  let isOver = false
  const working = work().finally(() => {
    isOver = true
  })
  while (!isOver) {
    const began = performance.now()
    // A server that is blocked for longer than its keep-alive timeout closes this connection as well.
    const isAnswered = await probe(socket).then(
      () => true,
      () => false,
    )
    delays.push(performance.now() - began)
    if (!isAnswered) socket = await openProbe(port)
    await wait(PAUSE)
  }
  socket.destroy()
  await working
  const sorted = delays.sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN
  return { count: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) }
}

/** Sends an attack on a connection of its own, and waits for its reply. */
export async function sendAttack(port: number, { bytes }: Attack): Promise<number | undefined> {
  const { replies } = await sendRaw(port, bytes, { timeoutMs: 120_000 })
  return replies[0]?.status
}
