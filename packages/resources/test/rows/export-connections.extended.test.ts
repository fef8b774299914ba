/** An export holds nothing while its client reads slowly, gives back all when it leaves, and never ends early unnoticed. */
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import type { AppOverrides } from '../../../../src/app.ts'
import { DatabaseUnavailable } from '../../../database/src/client/index.ts'
import { ADMIN_KEY, testApp } from '../../../testing/helpers/app.ts'
import { type Owner, testDatabase } from '../../../testing/helpers/database.ts'
import { createDeferred, waitUntil } from '../../../testing/helpers/time.ts'
import {
  controlReads,
  holdStatement,
  insertProducts,
  openExport,
  type RawExport,
  untilStalled,
} from './raw-export.ts'
import { CSV, getExport, NDJSON, parseLines, readRows } from './read-export.ts'

/** More than the buffers of a connection on this machine take. */
const COUNT = 4_000

interface StartOptions {
  settings?: Record<string, string>
  overrides?: AppOverrides
  count?: number
  bytes?: number
}

async function startApp(
  t: Owner,
  { settings = {}, overrides = {}, count = COUNT, bytes = 5_000 }: StartOptions = {},
) {
  const opened = await testDatabase(t)
  await insertProducts(opened, count, bytes)
  const { database, state } = controlReads(opened)
  return { ...(await testApp(t, settings, { ...overrides, database })), state }
}

const shared = await startApp(t)
const { admin, app, database, state } = shared
t.beforeEach(() => waitUntil(() => app.exports.size === 0))

t.test('a slow reader holds no connection and few rows, and delays no other', async (t) => {
  state.rows = 0
  const slow = openExport(t, shared, { isPaused: true })
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

t.test('while a client reads, an export is at most two pages ahead', async (t) => {
  // 30 MB, of which the buffers of the connection and two pages hold less than a half.
  const count = 15_000
  const test = await startApp(t, { count, bytes: 2_000 })
  const sent = openExport(t, test, { isPaused: true })
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
  const first = openExport(t, shared, { credential: `X-API-Key: ${person.key}`, isPaused: true })
  await waitUntil(() => app.exports.size === 1)
  for (const path of ['/products', '/users', '/events']) {
    const { status, headers, body } = await getExport(person.bearer, path, CSV)
    t.match([status, body], [429, { error: { code: 'RATE_LIMIT_EXCEEDED' } }])
    const expected = { 'retry-after': /^[1-9]\d*$/, 'content-type': /^application\/json/ }
    t.match(Object.fromEntries(headers), { ...expected, 'content-disposition': undefined })
  }
  t.equal((await person.client.call('HEAD', '/products', { headers: { accept: CSV } })).status, 200)
  t.equal((await person.client.get('/products')).status, 200, 'pages are not exports')
  t.equal((await readRows(admin, '/users')).length > 0, true, 'another user has a place too')
  first.socket.resume()
  t.equal(await first.untilEnd, 'complete')
  await waitUntil(() => app.exports.size === 0)
  t.equal((await getExport(person.client, '/users')).status, 200, 'the last byte gives it back')
})

t.test('a process has as many exports as its memory allows, and others get 503', async (t) => {
  // Two exports of one MiB.
  const overrides = { maxExportBytes: 2_500_000 }
  const test = await startApp(t, { overrides, count: 10 })
  const running = []
  for (const { key } of [await test.person('admin'), await test.person('admin')])
    running.push(await holdStatement(t, test, 1, { credential: `X-API-Key: ${key}` }))
  const { status, headers, body } = await getExport(test.admin, '/products')
  t.match([status, body], [503, { error: { code: 'SERVICE_UNAVAILABLE' } }])
  t.match(headers.get('retry-after'), /^[1-9]\d*$/)
  for (const { goOn } of running) goOn()
  for (const { sent } of running) t.equal(await sent.untilEnd, 'complete')
  await waitUntil(() => test.app.exports.size === 0)
  t.equal((await getExport(test.admin, '/products')).status, 200)
})

t.test('an export whose first rows cannot be read is an error, and gives its place back', async (t) => {
  state.before = async () => {
    throw new DatabaseUnavailable('The database is away')
  }
  const { status, body } = await getExport(admin, '/products')
  state.before = async () => undefined
  t.match([status, body], [503, { error: { code: 'SERVICE_UNAVAILABLE' } }])
  await waitUntil(() => app.exports.size === 0)
})

/** Brings an export into a phase; resolves to a function that lets it go on. */
const PHASES: Record<string, (t: Test) => Promise<{ sent: RawExport; goOn: () => void }>> = {
  'while its first rows are read': (t) => holdStatement(t, shared, 1),
  'while further rows are read': (t) => holdStatement(t, shared, 3),
  async 'while its body is not read'(t) {
    const sent = openExport(t, shared, { isPaused: true })
    await untilStalled(shared)
    return { sent, goOn: () => undefined }
  },
}

for (const [name, enter] of Object.entries(PHASES))
  for (const end of ['destroy', 'resetAndDestroy'] as const)
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

t.test('with HTTP/1.0, the end of a whole export is not a reset', async (t) => {
  const sent = openExport(t, shared, { version: '1.0' })
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
  const sent = openExport(t, test, { isPaused: true })
  const begun = performance.now()
  await waitUntil(() => performance.now() - begun > 2_000)
  sent.socket.resume()
  t.equal(await sent.untilEnd, 'complete')
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
  const sent = openExport(t, test)
  await waitUntil(() => sent.read().split('"sku"').length > 100)
  t.equal(test.app.exports.size, 1)
  sent.socket.destroy()
  await waitUntil(() => test.app.exports.size === 0)
  t.ok(test.state.rows < COUNT, 'the rest is not read')
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
  for (const { client } of [first, second]) t.equal((await getExport(client, '/users')).status, 200)
})
