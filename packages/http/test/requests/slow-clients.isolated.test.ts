/** Connections of slow, silent or disconnected clients end in time, and other clients are not affected. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { ADMIN_KEY, recordMessages, testApp } from '../../../testing/helpers/app.ts'
import { parseReplies, sendRaw } from '../../../testing/helpers/network.ts'
import { createNotes } from '../../../testing/helpers/notes.ts'
import { createServerSettings, startServer } from '../../../testing/helpers/process.ts'
import { readConfig } from '../../src/config/read-config.ts'
import { getServerOptions } from '../../src/http/server-options.ts'

const HEAD = `Host: localhost\r\nX-API-Key: ${ADMIN_KEY}\r\n`
const GET = `GET /api/v1/products HTTP/1.1\r\n${HEAD}\r\n`
/** Of a page: more than the buffers of two kernels take. */
const NOTES = 60
const CHARACTERS = 100_000

/** A tenth of the real patience, or some more: the test is as busy as the app, in the same process. */
const patience = { headersTimeout: 1_000, requestTimeout: 2_000, keepAliveTimeout: 500 }
// The large pages of a user are read one after the other: even on a busy machine, none of them may be answered with 503,
// for which a reader that does not read would wait for ever.
const timeouts = { responseTimeoutMs: 8_000, readTimeoutMs: 800 }
const service = await testApp(t, {}, { ...(await createNotes(t)), timeouts })
Object.assign(service.app.server, patience)
const { app, admin, adminId, database, port } = service
await database.run(
  `insert into notes (id, user_id, title, body, search)
   select gen_random_uuid(), $1, 'A long one', repeat('y', ${CHARACTERS}), '' from generate_series(1, ${NOTES})`,
  [adminId],
)
const LARGE = `/users/${adminId}/notes?limit=${NOTES}`

const connections = () =>
  new Promise<number>((resolve) => app.server.getConnections((_error, count) => resolve(count)))

const noneLeft = async () => {
  while ((await connections()) > 0) await wait(20)
}

/** Milliseconds between two bytes. */
const SEND_INTERVAL_MS = 200

interface Client {
  socket: Socket
  received: Buffer[]
  closed: Promise<unknown>
}

/** Opens a connection that sends its bytes one by one. */
function sendSlowly(text: string): Client {
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  const received: Buffer[] = []
  socket.on('data', (chunk) => received.push(chunk))
  let sent = 0
  const timer = setInterval(() => {
    if (sent < text.length) socket.write(text.charAt(sent++))
  }, SEND_INTERVAL_MS)
  const closed = once(socket, 'close').finally(() => clearInterval(timer))
  return { socket, received, closed }
}

/** Opens a connection that reads `bytes` of its response now and then, or nothing at all. */
function readSlowly(bytes: number): Socket {
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  socket.write(`GET /api/v1${LARGE} HTTP/1.1\r\n${HEAD}\r\n`)
  // Without a listener for 'data' nothing is read but what is asked for; closing is heard of at the end of it.
  const timer = setInterval(() => socket.read(bytes), 50)
  socket.on('close', () => clearInterval(timer))
  return socket
}

t.test("the server's default timeouts are the documented ones", async (t) => {
  const options = getServerOptions(readConfig({ NODE_ENV: 'test' }), (serve) => serve)
  const { requestTimeout, headersTimeout, keepAliveTimeout, timeout } = options.serverFactory(() => {})
  t.same([requestTimeout, headersTimeout, keepAliveTimeout, timeout], [10_000, 5_000, 5_000, 30_000])
})

t.test('60 slow clients are disconnected while others are served', async (t) => {
  const unread = recordMessages(t, 'resource-api:overload:unread')

  const post = `POST /api/v1/products HTTP/1.1\r\n${HEAD}Content-Type: application/json\r\nContent-Length: 500\r\n\r\n`
  const heads = Array.from({ length: 25 }, () => sendSlowly(GET))
  const bodies = Array.from({ length: 25 }, () => {
    const client = sendSlowly(' '.repeat(500))
    client.socket.write(post)
    return client
  })
  const readers = Array.from({ length: 10 }, (_, i) => readSlowly(i % 2 === 0 ? 1_000 : 0))
  const slow = { over: false }
  const statuses = new Set<number>()
  const healthy = (async () => {
    while (!slow.over) {
      statuses.add((await admin.get('/products')).status)
      await wait(10)
    }
  })()

  await Promise.all([...heads, ...bodies].map(({ closed }) => closed))
  for (const { received } of [...heads, ...bodies]) {
    const [reply] = parseReplies(Buffer.concat(received))
    t.equal(reply?.status, 408)
    t.equal(JSON.parse(reply?.text ?? '').error.code, 'REQUEST_TIMEOUT')
  }
  while (unread.length < readers.length) await wait(20)
  slow.over = true
  await healthy
  t.same([...statuses], [200], 'a healthy client notices nothing')
  for (const socket of readers) socket.destroy()
  await noneLeft()
  t.equal(app.admissionQueue.used, 0)
  t.equal(unread.length, readers.length)
})

t.test('a connection without a request, or without a next one, is closed', async (t) => {
  for (const [bytes, status] of [
    ['', 408],
    [GET, 200],
  ] as const) {
    const { closed, replies } = await sendRaw(port, bytes)
    t.match({ closed, replies }, { closed: true, replies: [{ status }] })
    t.equal(replies.length, 1)
  }
  for (const bytes of [GET, GET.slice(0, 20)])
    t.ok((await sendRaw(port, bytes, { end: true })).closed, 'a half-open connection')
  await noneLeft()
  t.equal(app.admissionQueue.used, 0)
})

t.test(
  'clients that disconnect in the middle of a reply leave no open connection',
  { timeout: 110_000 },
  async (t) => {
    const disconnect = async () => {
      const socket = readSlowly(0)
      await once(socket, 'readable')
      socket.destroy()
    }
    for (let round = 0; round < 3; round++) await Promise.all(Array.from({ length: 5 }, disconnect))
    // Before the reply as well.
    for (let i = 0; i < 20; i++) readSlowly(0).destroy()
    await noneLeft()
    t.equal(app.admissionQueue.used, 0)
    t.equal((await admin.get('/products')).status, 200, 'the database has all its connections')
    t.equal(database.estimateWait(), 0)
  },
)

t.test('a connection above MAX_CONNECTIONS is closed, with one log line', async (t) => {
  const { url, output } = await startServer(t, {
    ...(await createServerSettings(t)),
    MAX_CONNECTIONS: '5',
    LOG_LEVEL: 'warn',
  })
  const port = Number(new URL(url).port)
  const open = async () => {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    return socket
  }
  const kept = await Promise.all(Array.from({ length: 5 }, open))
  t.teardown(() => kept.map((socket) => socket.destroy()))
  for (const socket of kept) socket.write(`GET /livez HTTP/1.1\r\nHost: a\r\n\r\n`)
  await Promise.all(kept.map((socket) => once(socket, 'data')))
  for (let i = 0; i < 50; i++) {
    const { closed, bytes } = await sendRaw(port, '')
    t.ok(closed && bytes.length === 0)
  }
  const lines = output.out.split('\n').filter((line) => line.includes('overloaded'))
  t.equal(lines.length, 1)
  t.match(lines[0], /connections/)
  kept[0]?.destroy()
  for (let status = 0; status !== 200; ) {
    status = (await fetch(`${url}/livez`).catch(() => ({ status: 0 }))).status
  }
  t.pass('and as soon as one leaves, there is room')
})
