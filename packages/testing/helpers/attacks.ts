/** Requests that are meant to be expensive, and the delay of `/livez` while the server answers them. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { ADMIN_KEY, UNKNOWN_ID } from './app.ts'
import { sendRaw } from './network.ts'

interface Request {
  method?: string
  headers?: Record<string, string>
  body?: string
  /** Bytes of each chunk; absent: not sent in chunks. */
  chunkSize?: number
}

const MIB = 1_048_576
const MARKS = '\u0301\u0323'
const ID = UNKNOWN_ID

function toChunks(body: Buffer, size: number): Buffer {
  const chunks: Buffer[] = []
  for (let i = 0; i < body.length; i += size) {
    const chunk = body.subarray(i, i + size)
    chunks.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'))
  }
  return Buffer.concat([...chunks, Buffer.from('0\r\n\r\n')])
}

/** Creates a request. A header of the request replaces the default one; an empty one is omitted. */
function toBytes(path: string, { method, headers, body, chunkSize }: Request): Buffer {
  const content = Buffer.from(body ?? '')
  const all: Record<string, string> = {
    ...{ Connection: 'close', Host: 'a', 'X-API-Key': ADMIN_KEY },
    ...(body !== undefined && { 'Content-Type': 'application/json' }),
    ...(chunkSize !== undefined && { 'Transfer-Encoding': 'chunked' }),
    ...(chunkSize === undefined && body !== undefined && { 'Content-Length': String(content.length) }),
    ...headers,
  }
  const lines = Object.entries(all).map(([name, value]) => (value ? `${name}: ${value}\r\n` : ''))
  const head = `${method ?? (body === undefined ? 'GET' : 'POST')} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
  return Buffer.concat([
    Buffer.from(head, 'latin1'),
    chunkSize === undefined ? content : toChunks(content, chunkSize),
  ])
}

/** Repeats a unit as often as it fits into `size` bytes. */
const repeat = (unit: string, size = MIB - 1_000) => unit.repeat(Math.floor(size / Buffer.byteLength(unit)))

/** Returns a JSON array with as many copies of an item as fit into a body. */
const createArray = (item: string) => `[${repeat(`${item},`)}${item}]`

const createObject = (count: number, name: (i: number) => string, value = '1') =>
  `{${Array.from({ length: count }, (_, i) => `"${name(i)}":${value}`).join()}}`

const MEMBERS = Math.floor((MIB - 1_000) / '"x00000":1,'.length)

const createGrant = (size: number) =>
  `{"grant_type":"password","password":"x","email":"a${repeat(MARKS, size)}"}`

/** Bodies of orders: all those that are JSON are also sent as PUT, PATCH and with an Idempotency-Key. */
const orders: [name: string, status: number, body: string][] = [
  ['1 MiB of [', 400, repeat('[')],
  ['1 MiB of {"a":', 400, repeat('{"a":')],
  ['1 MiB of "', 400, repeat('"')],
  ['1 MiB of backslashes', 400, `"${repeat('\\')}`],
  ['1 MiB of white space', 400, repeat(' ')],
  ['100,000 members', 400, createObject(MEMBERS, (i) => `x${i}`)],
  ['100,000 members of one name', 400, createObject(MEMBERS, () => 'x00000')],
  ['100,000 members in objects of a thousand', 400, `[${repeat(`${createObject(900, (i) => `x${i}`)},`)}1]`],
  [
    'objects with different members',
    400,
    `[${Array.from({ length: 8_000 }, (_, i) => createObject(9, (j) => (i * 9 + j).toString(36))).join()}]`,
  ],
  ['items with names with escapes', 400, `{"items":${createArray('{"\\u0061":1}')}}`],
  ['names that are numbers', 422, createObject(990, (i) => `${i * 1_024}`)],
  ['a name of 1 MiB of dots', 422, `{"${repeat('.')}":1}`],
  ['50 names of 20 kB of control characters', 422, createObject(50, (i) => repeat('\\u0001', 20_000) + i)],
  ['500,000 items that are numbers', 422, `{"items":${createArray('1')}}`],
  ['items that are fractions', 422, `{"items":${createArray('1e5')}}`],
  ['items that are strings', 422, `{"items":${createArray('""')}}`],
  ['items that are arrays', 400, `{"items":${createArray('[]')}}`],
  ['items that are equal', 400, `{"items":${createArray(`{"product_id":"${ID}","quantity":1}`)}}`],
  [
    '100 items with 98 unknown members each',
    422,
    `{"items":[${Array.from({ length: 100 }, () => createObject(98, (i) => `${i}${'n'.repeat(90)}`)).join()}]}`,
  ],
  [
    '100 items with ids of 10 kB',
    422,
    `{"items":[${Array.from({ length: 100 }, (_, i) => `{"product_id":"${i}${'a'.repeat(10_000)}"}`).join()}]}`,
  ],
  ['an address with 990 unknown members', 422, `{"shipping_address":${createObject(990, (i) => `x${i}`)}}`],
  ['a note of 1 MiB of control characters', 422, `{"note":"${repeat('\\u0001')}"}`],
  ['a note of 1 MiB of lone surrogates', 422, `{"note":"${repeat('\\ud800')}"}`],
  ['a note of 1 MiB of marks', 422, `{"note":"a${repeat(MARKS)}"}`],
  ['a note of 6,000 marks', 422, `{"note":"a${MARKS.repeat(3_000)}"}`],
  ['an unknown member of 1 MiB of marks', 422, `{"x":"a${repeat(MARKS)}"}`],
  ['a status of 1 MiB of marks', 422, `{"status":"a${repeat(MARKS)}"}`],
  ['a number of 1 MiB', 422, `{"status":${repeat('1')}}`],
]

const createQuery = (count: number, separator: string, suffix = '') =>
  Array.from({ length: count }, (_, i) => i.toString(36) + suffix).join(separator)

const API_KEYS = '/api/v1/api-keys'
const TOKENS = '/api/v1/tokens'
const ORDERS = '/api/v1/orders'
const PRODUCTS = '/api/v1/products'
const PRODUCT = `${PRODUCTS}/${ID}`
const anonymous = { 'X-API-Key': '' }
const badCharset = `application/json; charset=${' '.repeat(16_000)}a"b`

type Case = [name: string, status: number, path: string, request?: Request]

const attacks: Case[] = [
  [
    'charset with 16,000 spaces',
    415,
    TOKENS,
    { headers: { ...anonymous, 'Content-Type': badCharset }, body: '{}' },
  ],
  ['an address of 900 kB of marks', 413, TOKENS, { headers: anonymous, body: createGrant(900_000) }],
  ['an address of 16 KiB of marks', 422, TOKENS, { headers: anonymous, body: createGrant(16_000) }],
  ['16 KiB of [', 400, TOKENS, { headers: anonymous, body: repeat('[', 16_000) }],
  ['1 MiB of [ in chunks', 413, TOKENS, { headers: anonymous, body: repeat('['), chunkSize: 65_536 }],
  ...orders.map(([name, status, body]): Case => [name, status, ORDERS, { body }]),
  ...orders
    .filter(([name]) => /items|members|note/.test(name))
    .flatMap(([name, status, body]): Case[] => [
      [name, status, ORDERS, { headers: { 'Idempotency-Key': 'attack' }, body }],
      [name, status, `${ORDERS}/${ID}`, { method: 'PUT', body }],
      [
        name,
        status,
        `${ORDERS}/${ID}`,
        { method: 'PATCH', headers: { 'Content-Type': 'application/merge-patch+json' }, body },
      ],
    ]),
  [
    'a typed envelope with a name of 1 MiB',
    422,
    '/api/v2/products',
    { body: `{"data":{"type":"products","attributes":{"name":"${repeat('n')}"}}}` },
  ],
  [
    'a typed envelope with 990 unknown members',
    422,
    '/api/v2/products',
    { body: `{"data":${createObject(990, (i) => `x${i}`)}}` },
  ],
  ['white space of 1 MiB', 404, PRODUCT, { method: 'PATCH', body: `{"name":"${repeat(' ')}a"}` }],
  [
    'a text of 100,000 characters of 6 bytes',
    404,
    `/api/v1/users/${ID}/posts/${ID}`,
    { method: 'PATCH', body: `{"body":"${'\\u263a'.repeat(100_000)}"}` },
  ],
  [
    'a time of 1 MiB',
    422,
    API_KEYS,
    { body: `{"name":"a","scopes":["*"],"expires_at":"2026-11-21T09:30:00.${repeat('0')}Z"}` },
  ],
  ['scopes of 1 MiB', 422, API_KEYS, { body: `{"scopes":${createArray('"*"')}}` }],
  ['a body of 1 MiB', 400, PRODUCT, { method: 'DELETE', body: repeat('[') }],
  ['100,000 chunks of one byte', 400, ORDERS, { body: repeat(' ', 170_000), chunkSize: 1 }],
  ['a search of marks', 400, `${PRODUCTS}?search=a${encodeURIComponent(repeat(MARKS, 2_700))}`],
  ['fields of 8 KiB', 400, `${PRODUCTS}?fields=${repeat('a,', 8_000)}`],
  ['different fields of 8 KiB', 400, `${PRODUCTS}?fields=${createQuery(1_900, ',')}`],
  ['sort of 8 KiB', 400, `${PRODUCTS}?sort=${repeat('-name,', 8_000)}`],
  ['include of 8 KiB', 400, `${ORDERS}?include=${repeat('user,', 8_000)}`],
  ['1,500 parameters', 400, `${PRODUCTS}?${createQuery(1_500, '&', '=1')}`],
  ['4,000 times one parameter', 400, `${PRODUCTS}?${repeat('a&', 8_000)}`],
  ['a cursor of 8 KiB', 400, `${PRODUCTS}?cursor=${repeat('a', 8_000)}`],
  ['a number of 8 KiB', 400, `${PRODUCTS}?limit=${repeat('1', 8_000)}`],
  ['a path of 15 KiB of encodings', 404, `${PRODUCTS}/${repeat('%61', 15_000)}`],
  ...(
    [
      ['Accept', 406, repeat('a/b;c="d,', 14_000)],
      ['Accept', 404, `application/json;version${' '.repeat(980)}x`],
      ['If-None-Match', 404, repeat('"a" "', 14_000)],
      ['If-Modified-Since', 404, `Sun, ${repeat('0', 14_000)}`],
      ['Origin', 404, repeat('https://', 14_000)],
      ['X-Forwarded-For', 404, repeat('1.1.1.1,', 14_000)],
      ['Host', 404, repeat('a.', 14_000)],
      ['Cookie', 404, repeat('a=b;', 14_000)],
      ['traceparent', 404, repeat('00-', 14_000)],
      ['X-Request-Id', 404, repeat('a', 14_000)],
    ] as const
  ).map(
    ([name, status, value]): Case => [
      `${name} of ${value.length} characters`,
      status,
      PRODUCT,
      { headers: { [name]: value } },
    ],
  ),
  [
    'Idempotency-Key of 14,000 characters',
    400,
    ORDERS,
    { headers: { 'Idempotency-Key': `"${repeat('\\"', 14_000)}` }, body: '{}' },
  ],
  ...[`Bearer ${' '.repeat(14_000)}a b`, `Bearer ${repeat('a.', 14_000)}`].map(
    (value, i): Case => [
      `Authorization of 14,000 characters, ${i + 1}`,
      401,
      ORDERS,
      { headers: { ...anonymous, Authorization: value } },
    ],
  ),
]

export interface Attack {
  name: string
  /** Everything that is sent. */
  bytes: Buffer
  /** The status of the reply. */
  status: number
}

/** Creates every kind of request that costs, or might cost, more than others of its size. */
export const createAttacks = (): Attack[] =>
  attacks.map(([name, status, path, request = {}]) => {
    const method = request.method ?? (request.body === undefined ? 'GET' : 'POST')
    return { name: `${method} ${path.slice(0, 30)}: ${name}`, status, bytes: toBytes(path, request) }
  })

const PROBE = 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'
/** Milliseconds between a reply and the next request. */
const PAUSE_MS = 2

/** Sends one request for `/livez` and waits for the complete reply, which ends with the JSON object of its body. */
async function probe(socket: Socket): Promise<void> {
  socket.write(PROBE)
  for (let text = ''; !/\r\n\r\n.*\}$/s.test(text); ) text += String((await once(socket, 'data'))[0])
}

/** Opens a connection. Its first reply takes longer than the others and does not count. */
async function openProbe(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await probe(socket)
  return socket
}

/** Measures the delay of `/livez` in milliseconds on a separate connection until `work` has ended. */
export async function watchLivez(port: number, work: () => Promise<unknown>) {
  let socket = await openProbe(port)
  const delays: number[] = []
  let isOver = false
  const working = work().finally(() => {
    isOver = true
  })
  while (!isOver) {
    const startedAt = performance.now()
    // A server that is blocked for longer than its keep-alive timeout closes this connection as well.
    const isLost = await probe(socket).catch(() => true)
    delays.push(performance.now() - startedAt)
    if (isLost) socket = await openProbe(port)
    await wait(PAUSE_MS)
  }
  socket.destroy()
  await working
  delays.sort((a, b) => a - b)
  const at = (share: number) => delays[Math.floor((delays.length - 1) * share)] ?? Number.NaN
  return { count: delays.length, p50: at(0.5), p99: at(0.99), max: at(1) }
}

/** Sends an attack on a connection of its own, and waits for its reply. */
export async function sendAttack(port: number, { bytes }: Attack): Promise<number | undefined> {
  const { replies } = await sendRaw(port, bytes, { timeoutMs: 120_000 })
  return replies[0]?.status
}
