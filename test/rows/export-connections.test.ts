/** An export holds nothing while its client reads slowly, gives back all when it leaves, and never ends early unnoticed. */
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { createDatabase } from '../../drizzle/client/database.ts'
import { type Database, DatabaseUnavailable } from '../../drizzle/client/index.ts'
import type { AppOverrides } from '../../src/app.ts'
import { ADMIN_KEY, type TestApp, testApp } from '../helpers/app.ts'
import { type Owner, testDatabase } from '../helpers/database.ts'
import { createDeferred, waitUntil } from '../helpers/time.ts'
import { CSV, getExport, NDJSON, parseLines, readRows } from './read-export.ts'

/** More than the buffers of a connection on this machine take. */
const COUNT = 4_000
const ROW_BYTES = 5_000

const insertProducts = (database: Database, count: number, bytes: number) =>
  database.run(
    `insert into products (id, sku, name, description, price_amount, search)
     select gen_random_uuid(), 'P-' || n, 'Product ' || n, repeat('x', $2), n % 5, ''
     from generate_series(1, $1::integer) as n`,
    [count, bytes],
  )

/** A database whose reads of products a test counts, holds, or lets fail. */
function control(opened: Database) {
  const state = {
    /** Rows of products that were read. */
    rows: 0,
    statements: 0,
    /** Called before a statement that reads products. */
    before: async (_statements: number, _limit: unknown): Promise<void> => undefined,
  }
  const database = createDatabase({
    ...opened.$client,
    async run(text, params, options) {
      if (!/from "products"/.test(text)) return opened.run(text, params, options)
      state.statements += 1
      await state.before(state.statements, params?.at(-1))
      const rows = await opened.run(text, params, options)
      state.rows += rows.length
      return rows
    },
  })
  return { database, state }
}

async function startApp(
  t: Owner,
  { settings = {}, overrides = {}, count = COUNT, bytes = ROW_BYTES }: StartOptions = {},
) {
  const opened = await testDatabase(t)
  await insertProducts(opened, count, bytes)
  const { database, state } = control(opened)
  const test = await testApp(t, settings, { ...overrides, database })
  return { ...test, state }
}

interface StartOptions {
  settings?: Record<string, string>
  overrides?: AppOverrides
  count?: number
  bytes?: number
}

interface RawExport {
  socket: Socket
  /** What has arrived. */
  read(): string
  /** Resolves to how the connection ended, or when the last chunk has arrived. */
  untilEnd: Promise<'complete' | 'end' | 'reset'>
}

const LAST_CHUNK = '\r\n0\r\n\r\n'

/** Sends a request for an export on a connection of its own. */
function open(
  t: Owner,
  { port }: Pick<TestApp, 'port'>,
  { key = ADMIN_KEY, path = '/products', accept = NDJSON, version = '1.1', isPaused = false } = {},
): RawExport {
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  const chunks: Buffer[] = []
  const read = () => Buffer.concat(chunks).toString('latin1')
  const untilEnd = new Promise<'complete' | 'end' | 'reset'>((resolve) => {
    socket.on('error', () => resolve('reset'))
    socket.on('close', () => resolve('end'))
    socket.on('data', (chunk) => {
      chunks.push(chunk)
      const tail = Buffer.concat(chunks.slice(-2)).subarray(-LAST_CHUNK.length).toString('latin1')
      if (tail === LAST_CHUNK) resolve('complete')
    })
  })
  if (isPaused) socket.pause()
  socket.write(`GET ${path} HTTP/${version}\r\nHost: a\r\nX-API-Key: ${key}\r\nAccept: ${accept}\r\n\r\n`)
  return { socket, read, untilEnd }
}

/** Waits until an export is not read on: the buffers of the connection are full. */
async function untilStalled({ state }: { state: { rows: number } }): Promise<void> {
  let former = -1
  let since = performance.now()
  await waitUntil(() => {
    if (state.rows !== former) since = performance.now()
    former = state.rows
    return former > 0 && performance.now() - since > 300
  })
}

const shared = await startApp(t)
const compressing = await startApp(t, { settings: { COMPRESS: 'true' }, count: 2_000 })
const { admin, app, database, state } = shared
t.beforeEach(() => waitUntil(() => app.exports.size === 0))

t.test('a slow reader holds no connection and few rows, and delays no other', async (t) => {
  state.rows = 0
  const slow = open(t, shared, { isPaused: true })
  await untilStalled(shared)
  const { rows } = state
  t.ok(rows < COUNT, `${rows} rows were read`)
  // Other work of the process may use one for a moment.
  await waitUntil(() => database.getLoad().used === 0)
  t.equal((await admin.get('/products')).status, 200)
  slow.socket.resume()
  t.equal(await slow.untilEnd, 'complete')
  t.equal(slow.read().split('"sku"').length - 1, COUNT)
})

t.test('a reader that takes one byte at a time gets all of it', async (t) => {
  const received: number[] = []
  const ended = createDeferred()
  const socket = connect({
    port: shared.port,
    host: '127.0.0.1',
    onread: {
      buffer: Buffer.alloc(1),
      callback(_, bytes) {
        received.push(...bytes)
        return true
      },
    },
  })
  t.teardown(() => socket.destroy())
  socket.on('end', ended.resolve)
  const path = '/products?fields=sku&sort=price_amount'
  socket.write(`GET ${path} HTTP/1.0\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\nAccept: ${NDJSON}\r\n\r\n`)
  await ended.promise
  const [, text = ''] = Buffer.from(received).toString().split('\r\n\r\n')
  t.strictSame(parseLines(text), await readRows(admin, path))
})

t.test('while a client reads, an export is at most two chunks ahead', async (t) => {
  // 30 MB, of which the buffers of the connection and two chunks of 3 MB hold less than a half.
  const count = 15_000
  const test = await startApp(t, { count, bytes: 2_000 })
  const sent = open(t, test, { isPaused: true })
  await untilStalled(test)
  const received = test.state.rows
  sent.socket.resume()
  // The server reads on.
  await waitUntil(() => test.state.rows > received)
  sent.socket.pause()
  await untilStalled(test)
  t.ok(test.state.rows < count, 'but not to the end')
  sent.socket.destroy()
})

t.test('a user has one export at a time, whatever its collection and credential', async (t) => {
  const person = await shared.person('admin')
  const first = open(t, shared, { key: person.key, isPaused: true })
  await waitUntil(() => app.exports.size === 1)
  for (const path of ['/products', '/users', '/events']) {
    const { status, headers, body } = await getExport(person.bearer, path, CSV)
    t.match({ status, body }, { status: 429, body: { error: { code: 'RATE_LIMIT_EXCEEDED' } } })
    t.match(headers.get('retry-after'), /^[1-9]\d*$/)
    t.match(headers.get('content-type'), /^application\/json/)
    t.notOk(headers.has('content-disposition'))
  }
  t.equal((await person.client.call('HEAD', '/products', { headers: { accept: CSV } })).status, 200)
  t.equal((await person.client.get('/products')).status, 200, 'pages are not exports')
  t.equal((await readRows(admin, '/users')).length > 0, true, 'another user has a place too')
  first.socket.resume()
  t.equal(await first.untilEnd, 'complete')
  await waitUntil(() => app.exports.size === 0)
  t.equal((await getExport(person.client, '/users')).status, 200, 'the last byte gives it back')
})

t.test('an export whose first rows cannot be read is an error, and gives its place back', async (t) => {
  state.before = async () => {
    throw new DatabaseUnavailable('The database is away')
  }
  const { status, body } = await getExport(admin, '/products')
  state.before = async () => undefined
  t.match({ status, body }, { status: 503, body: { error: { code: 'SERVICE_UNAVAILABLE' } } })
  await waitUntil(() => app.exports.size === 0)
})

/** Brings an export into a phase; resolves to a function that lets it go on. */
const phases: Record<string, (t: Test) => Promise<{ sent: RawExport; goOn: () => void }>> = {
  async 'while its first rows are read'(t) {
    return holdStatement(t, 1)
  },
  async 'while further rows are read'(t) {
    return holdStatement(t, 3)
  },
  async 'while its body is not read'(t) {
    const sent = open(t, shared, { isPaused: true })
    await untilStalled(shared)
    return { sent, goOn: () => undefined }
  },
}

async function holdStatement(t: Test, which: number) {
  const [reached, released] = [createDeferred(), createDeferred()]
  state.statements = 0
  state.before = async (statements) => {
    if (statements !== which) return
    reached.resolve()
    await released.promise
  }
  const sent = open(t, shared)
  await reached.promise
  return {
    sent,
    goOn() {
      state.before = async () => undefined
      released.resolve()
    },
  }
}

for (const [name, enter] of Object.entries(phases)) {
  for (const end of ['destroy', 'resetAndDestroy'] as const) {
    t.test(`a client that leaves ${name} gives the place back (${end})`, async (t) => {
      state.rows = 0
      const { sent, goOn } = await enter(t)
      t.equal(app.exports.size, 1)
      sent.socket[end]()
      await waitUntil(() => app.exports.size === 0)
      goOn()
      await waitUntil(() => database.getLoad().used === 0)
      const { rows } = state
      t.ok(rows < COUNT, 'the rest is not read')
      t.equal((await readRows(admin, '/users')).length > 0, true)
    })
  }
}

t.test('a database that goes away ends the connection before the end of the body', async (t) => {
  for (const [version, accept, wanted] of [
    ['1.1', NDJSON, 'end'],
    ['1.1', `${CSV}\r\nAccept-Encoding: gzip`, 'end'],
    ['1.0', NDJSON, 'reset'],
  ] as const) {
    const test = accept === NDJSON ? shared : compressing
    test.state.statements = 0
    test.state.before = async (statements) => {
      if (statements > 3) throw new DatabaseUnavailable('The database is away')
    }
    const sent = open(t, test, { version, accept })
    t.equal(await sent.untilEnd, wanted, `${version} ${accept}`)
    t.match(sent.read(), /^HTTP\/1\.1 200/)
    test.state.before = async () => undefined
    await waitUntil(() => test.app.exports.size === 0)
  }
})

t.test('with HTTP/1.0, the end of a whole export is not a reset', async (t) => {
  const sent = open(t, shared, { version: '1.0' })
  t.equal(await sent.untilEnd, 'end')
  t.equal(sent.read().split('"sku"').length - 1, COUNT)
})

t.test('a statement that takes too long is tried again for fewer rows', async (t) => {
  const limits: unknown[] = []
  state.before = async (_, limit) => {
    limits.push(limit)
    if (Number(limit) > 30) throw new DatabaseUnavailable('too long', { code: '57014' })
  }
  t.equal((await readRows(admin, '/products')).length, COUNT)
  state.before = async () => undefined
  t.ok(limits.includes(100) && limits.includes(25), 'it was halved')
})

t.test('deadlines for answers do not apply', async (t) => {
  const timeouts = { responseTimeoutMs: 500, readTimeoutMs: 500 }
  const test = await startApp(t, { overrides: { timeouts }, settings: { EXPORT_SECONDS: '60' } })
  const sent = open(t, test, { isPaused: true })
  const begun = performance.now()
  await waitUntil(() => performance.now() - begun > 2_000)
  sent.socket.resume()
  t.equal(await sent.untilEnd, 'complete')
})

t.test('EXPORT_SECONDS does', async (t) => {
  const test = await startApp(t, { settings: { EXPORT_SECONDS: '1' } })
  const sent = open(t, test, { isPaused: true })
  await waitUntil(() => test.app.exports.size === 1)
  await waitUntil(() => test.app.exports.size === 0)
  sent.socket.resume()
  t.not(await sent.untilEnd, 'complete')
})

t.test('an export counts as one request per 100 rows', async (t) => {
  const test = await startApp(t, { settings: { RATE_LIMIT: '1000' }, count: 1_250, bytes: 10 })
  const remaining = async () => Number((await test.admin.get('/users')).headers.get('x-ratelimit-remaining'))
  const before = await remaining()
  t.equal((await readRows(test.admin, '/products')).length, 1_250)
  t.equal(before - (await remaining()), 13 + 1)
  const again = await remaining()
  t.equal((await getExport(test.admin, '/users')).status, 200)
  t.equal(again - (await remaining()), 1 + 1, 'the first 100 rows are the request itself')
})

t.test('an export waits where a window is full', async (t) => {
  const settings = { RATE_LIMIT: '4', RATE_LIMIT_WINDOW: '1', RATE_LIMIT_BURST: '100' }
  const test = await startApp(t, { settings, count: 700, bytes: 2_000 })
  const begun = performance.now()
  t.equal((await readRows(test.admin, '/products')).length, 700)
  t.ok(performance.now() - begun > 500, 'it waited')
  await waitUntil(async () => (await test.admin.get('/users')).status === 200)
})

t.test('a client that leaves while its export waits for the limit gives the place back', async (t) => {
  const settings = { RATE_LIMIT: '2', RATE_LIMIT_WINDOW: '3600' }
  const test = await startApp(t, { settings, bytes: 10 })
  const sent = open(t, test)
  await waitUntil(() => sent.read().split('"sku"').length > 100)
  t.equal(test.app.exports.size, 1)
  sent.socket.destroy()
  await waitUntil(() => test.app.exports.size === 0)
})

t.test('an export ends when its session does, but not when only its access token expires', async (t) => {
  const test = await startApp(t, { settings: { ACCESS_TOKEN_TTL: '3' } })
  for (const isRevoked of [false, true]) {
    const person = await test.person('manager')
    const [reached, released] = [createDeferred(), createDeferred()]
    test.state.statements = 0
    test.state.before = async (statements) => {
      if (statements !== 3) return
      reached.resolve()
      await released.promise
    }
    const answer = person.bearer.get('/products', { accept: NDJSON }).then(
      ({ text }) => parseLines(text).length,
      () => 'broken off',
    )
    await reached.promise
    await waitUntil(async () => (await person.bearer.get('/users/me')).status === 401)
    if (isRevoked)
      t.equal(
        (await test.database.run('delete from sessions where id = $1 returning id', [person.sessionId]))
          .length,
        1,
      )
    test.app.credentials.tokens.clearCache()
    released.resolve()
    t.equal(await answer, isRevoked ? 'broken off' : COUNT)
  }
})

t.test('at the end of the grace of a shutdown, exports are broken off', async (t) => {
  const test = await startApp(t)
  const sent = open(t, test, { isPaused: true })
  await untilStalled(test)
  const draining = test.app.drain()
  for (const end of test.app.onGraceEnd) end()
  sent.socket.resume()
  t.equal(await sent.untilEnd, 'end')
  t.notOk(sent.read().endsWith(LAST_CHUNK))
  await draining
})

t.test('a pipelined export gives its place back when the connection ends before its turn', async (t) => {
  const [first, second] = [await shared.person('admin'), await shared.person('admin')]
  const socket = connect(shared.port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.pause()
  const write = (path: string, key: string) =>
    `GET ${path} HTTP/1.1\r\nHost: a\r\nX-API-Key: ${key}\r\nAccept: ${NDJSON}\r\n\r\n`
  socket.write(write('/products', first.key) + write('/users', second.key))
  await waitUntil(() => app.exports.size === 2)
  socket.resetAndDestroy()
  await waitUntil(() => app.exports.size === 0)
})
