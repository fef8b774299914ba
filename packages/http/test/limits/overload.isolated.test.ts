/** Under overload a request is served, queued, or refused immediately with 503. */
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import errors from '../../../api/src/errors/errors.ts'
import { createAddressing } from '../../../api/src/versions/addresses.ts'
import { createDatabase } from '../../../database/src/client/database.ts'
import type { Database } from '../../../database/src/client/index.ts'
import { runTransactionBody } from '../../../database/src/client/transaction.ts'
import { ADMIN_KEY, recordMessages, testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { parseReplies, sendRaw } from '../../../testing/helpers/network.ts'
import { versions } from '../../../testing/helpers/shop.ts'
import { createDeferred, waitUntil } from '../../../testing/helpers/time.ts'
import admission, { type AdmissionOptions } from '../../src/admission/index.ts'
import databasePlugin from '../../src/database/index.ts'
import cors from '../../src/http/cors.ts'
import timeouts, { type TimeoutOptions } from '../../src/http/timeouts.ts'
import shutdown, { type ShutdownOptions } from '../../src/operations/shutdown.ts'

/** Records refusals; `reasons` lists why each happened. */
function recordRefusals(t: Test) {
  const messages = recordMessages(t, 'resource-api:overload:refused')
  return { messages, reasons: () => messages.map((message) => String(Object(message).reason)) }
}

/** Starts an app whose `held` answers when it is released, `quick` immediately, `large` with 20 MB. */
async function small(t: Test, options: Partial<ShutdownOptions> & AdmissionOptions & TimeoutOptions) {
  const addresses = createAddressing(versions, 1)
  const app: FastifyInstance = Fastify({
    return503OnClosing: false,
    rewriteUrl: (request) => addresses.rewriteUrl(request),
    serverFactory: (serve) => createServer((request, response) => app.admit(request, response, serve)),
  })
  const { promise: opened, resolve: open } = createDeferred()
  const { responseTimeoutMs, readTimeoutMs, SHUTDOWN_DELAY = 0, ...limits } = options
  /** Milliseconds that a new caller would wait for the database. */
  const state = { delay: 0 }
  const stand = createDatabase({
    kind: 'embedded',
    schema: 'public',
    run: async () => [],
    transaction: (work) => runTransactionBody(stand.run, work),
    ping: async () => {},
    getLoad: () => ({ size: 0, used: 0, waiting: 0 }),
    estimateWait: () => state.delay,
    close: async () => {},
  })
  app.decorate('addressing', addresses)
  await app.register(errors, {
    getErrorEnvelope: (request) => addresses.getAddress(request).representation.error,
  })
  await app.register(cors, { CORS_ORIGINS: ['https://shop.example'] })
  await app.register(timeouts, { responseTimeoutMs, readTimeoutMs })
  await app.register(databasePlugin, { database: stand, isServed: false, DATA_DIR: '', POOL_SIZE: 1 })
  await app.register(shutdown, { SHUTDOWN_DELAY })
  // A busy machine makes it late as well, which is not what is tried with this.
  const headers = { 'x-ratelimit-limit': 60, 'x-ratelimit-remaining': 59, 'x-ratelimit-reset': 1_800_000_000 }
  app.decorate('countOverloaded', () => ({ headers, isExceeded: false }))
  await app.register(admission, { maxLoopDelayMs: Number.POSITIVE_INFINITY, ...limits })
  const held = async () => {
    await opened
    return { held: true }
  }
  for (const version of [1, 2]) {
    app.get(`/api/v${version}/held`, held)
    app.post(`/api/v${version}/held`, held)
    app.get(`/api/v${version}/quick`, async () => ({ quick: true }))
    app.get(`/api/v${version}/large`, async () => 'x'.repeat(20_000_000))
  }
  app.get('/livez', async () => ({ status: 'ok' }))
  t.teardown(() => {
    open()
    return app.close()
  })
  const base = await app.listen({ port: 0, host: '127.0.0.1' })
  return { app, base, port: Number(new URL(base).port), release: open, state }
}

/** A database whose statements wait for `open` while `slow.on` is set. */
function createSlowDatabase({ $client }: Database) {
  const { promise: opened, resolve: open } = createDeferred()
  const slow = { on: false }
  const run: typeof $client.run = async (...args) => {
    if (slow.on) await opened
    return $client.run(...args)
  }
  return { database: createDatabase({ ...$client, run }), slow, open }
}

t.test(
  'a request above the concurrency and queue limits gets 503 with Retry-After in the envelope',
  async (t) => {
    const { reasons } = recordRefusals(t)
    const { app, base, release } = await small(t, { maxActive: 2, maxWaiting: 1 })
    const held = Array.from({ length: 3 }, () => fetch(`${base}/api/v1/held`))
    await waitUntil(() => app.admissionQueue.used + app.admissionQueue.waiting === 3)

    const headers = { 'x-request-id': 'mine-12345678', origin: 'https://shop.example' }
    const refused = await fetch(`${base}/api/v1/quick`, { headers })
    t.equal(refused.status, 503)
    t.match(Object.fromEntries(refused.headers), {
      'retry-after': '2',
      'x-request-id': 'mine-12345678',
      'api-version': '1',
      vary: 'Accept, Authorization, X-API-Key, Origin',
      'access-control-allow-origin': 'https://shop.example',
      'cache-control': 'no-store',
      'content-type': 'application/json; charset=utf-8',
      'x-content-type-options': 'nosniff',
      connection: 'keep-alive',
    })
    const error = { code: 'SERVICE_UNAVAILABLE', message: 'The service is overloaded' }
    t.same(await refused.json(), { error: { ...error, request_id: 'mine-12345678' } })
    const accept = 'application/vnd.api+json;version=2'
    const typed = await fetch(`${base}/quick`, { headers: { accept } })
    t.equal(typed.headers.get('api-version'), '2')
    t.equal(typed.headers.get('content-type'), accept)
    const posted = await fetch(`${base}/held`, { method: 'POST', body: '{"a":1}' })
    t.equal(posted.status, 503)
    const head = await fetch(`${base}/quick`, { method: 'HEAD' })
    t.equal(head.status, 503)
    t.equal(await head.text(), '')
    t.equal((await fetch(`${base}/livez`)).status, 200, 'livez is asked by who would end the process')
    t.same(reasons(), ['line', 'line', 'line', 'line'])

    release()
    for (const { status } of await Promise.all(held)) t.equal(status, 200, 'an admitted request is served')
    await waitUntil(() => app.admissionQueue.used === 0)
    t.equal((await fetch(`${base}/api/v1/quick`)).status, 200)
  },
)

t.test('a request that would wait too long for the database is refused with 503', async (t) => {
  const { reasons } = recordRefusals(t)
  const { base, state } = await small(t, { maxActive: 100, maxWaiting: 0, maxWaitMs: 1_000 })
  state.delay = 1_001
  t.equal((await fetch(`${base}/quick`)).status, 503)
  t.equal((await fetch(`${base}/livez`)).status, 200)
  state.delay = 1_000
  t.equal((await fetch(`${base}/quick`)).status, 200)
  t.same(reasons(), ['line'])
})

t.test('slow uploads and unread replies do not count as active requests', async (t) => {
  const { app, base, port } = await small(t, { maxActive: 1, maxWaiting: 0 })
  let heads = 0
  app.server.on('request', () => {
    heads += 1
  })
  const half =
    'POST /api/v1/held HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{'
  const large = 'GET /api/v1/large HTTP/1.1\r\nHost: a\r\n\r\n'
  const sockets = [half, half, half, large, large].map((bytes) => {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    socket.write(bytes)
    return socket.pause()
  })
  t.teardown(() => sockets.map((socket) => socket.destroy()))
  await waitUntil(() => heads === 5)
  t.equal((await fetch(`${base}/quick`)).status, 200)
  t.equal(app.admissionQueue.used, 0)
})

t.test('during shutdown a refusal closes its connection', async (t) => {
  const { app, base, release } = await small(t, { maxActive: 1, maxWaiting: 0, SHUTDOWN_DELAY: 300 })
  const held = fetch(`${base}/held`)
  await waitUntil(() => app.admissionQueue.used === 1)
  const drained = app.drain()
  const refused = await fetch(`${base}/quick`)
  t.equal(refused.status, 503)
  t.equal(refused.headers.get('connection'), 'close')
  release()
  t.equal((await held).status, 200)
  await drained
})

t.test('requests get 503 while the event loop is late, and 200 afterwards', async (t) => {
  const { messages, reasons } = recordRefusals(t)
  const real = await testDatabase(t)
  const { database, slow, open } = createSlowDatabase(real)
  const { app, admin, anybody } = await testApp(t, {}, { maxLoopDelayMs: 250, database })
  t.equal((await admin.get('/products')).status, 200)
  slow.on = true
  const atWork = admin.get('/products')
  await waitUntil(() => app.admissionQueue.used === 1)
  slow.on = false

  const pause = (milliseconds: number) => {
    for (const end = performance.now() + milliseconds; performance.now() < end; );
  }
  /** In how many windows the loop was late at most while a little time passes, and how long the longest turn was. */
  const watch = async (milliseconds: number) => {
    let [late, longest] = [0, 0]
    const end = performance.now() + milliseconds
    for (let before = performance.now(), now = before; now < end; before = now) {
      await turn()
      now = performance.now()
      late = Math.max(late, app.lateWindows)
      longest = Math.max(longest, now - before)
    }
    return { late, longest }
  }
  const askWhenLate = async () => {
    while (app.lateWindows === 0) await turn()
    return admin.get('/products')
  }
  /** One pause of the process, and no other: a machine that paused it as well is given another try. */
  const pausedOnce = async (before: number) => {
    for (;;) {
      while (app.lateWindows > 0) await wait(5)
      messages.length = 0
      await wait(before)
      pause(600)
      const [{ late, longest }, { status }] = await Promise.all([watch(250), askWhenLate()])
      if (longest < 200) return { late, status }
    }
  }
  for (const before of [0, 40, 80]) {
    const paused = { late: 1, status: 200 }
    t.same(await pausedOnce(before), paused, 'a pause is one window, wherever it falls, and no overload')
    t.same(reasons(), [])
  }

  const block = { over: false }
  const blocked = (async () => {
    while (!block.over) {
      pause(280)
      await turn()
    }
  })()
  while (app.lateWindows < 2) await turn()
  const [refused, livez] = await Promise.all([admin.get('/products'), anybody.get('/livez')])
  block.over = true
  await blocked
  t.equal(refused.status, 503)
  t.equal(refused.headers.get('retry-after'), '2')
  t.equal(refused.body.error.code, 'SERVICE_UNAVAILABLE')
  t.equal(livez.status, 200)
  t.same(reasons(), ['event-loop'])
  while (app.lateWindows > 0) await wait(5)
  t.equal((await admin.get('/products')).status, 200)
  open()
  t.equal((await atWork).status, 200, 'what was at work is finished')
})

t.test('1,000 requests wait for the database, more are refused', async (t) => {
  const { reasons } = recordRefusals(t)
  const real = await testDatabase(t)
  const most = real.kind === 'embedded' ? 1_001 : 1_010
  const { database, slow, open } = createSlowDatabase(real)
  const logs: string[] = []
  const parts = {
    database,
    logs: { write: (line: string) => logs.push(line) },
    // However long a busy machine takes for all of it.
    timeouts: { responseTimeoutMs: 60_000 },
  }
  const { app, admin, port } = await testApp(t, { LOG_LEVEL: 'warn' }, parts)
  t.equal((await admin.get('/products')).status, 200)
  slow.on = true
  const request = `GET /products?limit=1 HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\n`
  const packet = `${`${request}\r\n`.repeat(101)}${request}Connection: close\r\n\r\n`
  const all = Array.from({ length: 10 }, () => sendRaw(port, packet, { timeoutMs: 60_000 }))
  await waitUntil(() => app.admissionQueue.used + app.admissionQueue.waiting + reasons().length === 1_020)
  t.equal(app.admissionQueue.used + app.admissionQueue.waiting, most)
  t.equal(logs.length, 1, 'one log line for all of them')
  t.match(JSON.parse(logs[0] ?? ''), { level: 'warn', reason: 'line', refused: 1 })
  slow.on = false
  open()
  const replies = (await Promise.all(all)).flatMap(({ bytes }) => parseReplies(bytes))
  const count = (status: number) => replies.filter((reply) => reply.status === status).length
  // Who waits for the database has two seconds, which a busy machine may need for fewer than all.
  t.equal(count(200) + count(503), 1_020, '102 pipelined requests at a time are all answered')
  t.ok(count(200) > 0 && count(503) >= 1_020 - most)
})
