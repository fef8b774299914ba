/** Traces show requests and statements to a collector, contain no values, and never delay a request. */
import { createServer } from 'node:http'
import { createServer as createSocketServer } from 'node:net'
import t from 'tap'
import { createDatabase } from '../../../database/src/client/database.ts'
import { ADMIN_KEY, type Json, testApp } from '../../../testing/helpers/app.ts'
import { keepOpen, type Owner, testDatabase } from '../../../testing/helpers/database.ts'
import { listen } from '../../../testing/helpers/network.ts'
import { getRunningTime, waitUntil } from '../../../testing/helpers/time.ts'

const database = await testDatabase(t)
const kept = keepOpen(database)

interface Span {
  name: string
  traceId: string
  spanId: string
  parentSpanId: string
  kind: number
  status: number
  attributes: Record<string, unknown>
}

const attributesOf = (list: Json[]) =>
  Object.fromEntries(list.map(({ key, value }) => [key, Object.values(value)[0]]))

/** A collector of OTLP over HTTP, in JSON. It refuses spans while `state.isRefusing`. */
async function collector(owner: Owner) {
  const state = { isRefusing: false }
  const spans: Span[] = []
  const bodies: string[] = []
  const asked: string[] = []
  let resource: Record<string, unknown> = {}
  const server = createServer(async (request, reply) => {
    const text = Buffer.concat(await request.toArray()).toString()
    if (state.isRefusing) return reply.writeHead(400).end('{"message":"no"}')
    bodies.push(text)
    asked.push(`${request.method} ${request.url}`)
    for (const group of JSON.parse(text).resourceSpans) {
      resource = attributesOf(group.resource.attributes)
      for (const span of group.scopeSpans.flatMap((scope: Json) => scope.spans)) {
        const { code = 0 } = span.status ?? {}
        spans.push({ ...span, status: code, attributes: attributesOf(span.attributes) })
      }
    }
    return reply.setHeader('content-type', 'application/json').end('{}')
  })
  const port = await listen(server)
  owner.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { state, endpoint: `http://127.0.0.1:${port}/`, spans, bodies, asked, resource: () => resource }
}

/** An app that sends its spans to a collector. */
async function traced(t: Owner, settings = {}, overrides = {}) {
  const collected = await collector(t)
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: collected.endpoint, ...settings }
  return { ...collected, ...(await testApp(t, endpoint, { database: kept, ...overrides })) }
}

const SERVER_SPAN = 2
const CLIENT_SPAN = 3

t.test('a request is a span, and each of its statements is a child span', async (t) => {
  const lines: string[] = []
  const logs = { write: (line: string) => void lines.push(line) }
  const { spans, asked, resource, app, admin, anybody } = await traced(t, { LOG_LEVEL: 'info' }, { logs })
  const product = { sku: 'TRACE-1', name: 'Traced', price_amount: 1 }
  // Kept with its answer, and so in a transaction; without a key, it is one statement.
  const made = await admin.post('/products', product, { 'idempotency-key': 'traced' })
  t.equal(made.status, 201)
  await admin.get(`/v2/products/${made.body.data.id}?fields=name`)
  await admin.get('/nothing')
  await anybody.get('/livez')
  await anybody.get('/readyz')
  await app.close()
  t.same([...new Set(asked)], ['POST /v1/traces'])
  t.match(resource(), { 'service.name': 'resource-api', 'service.version': /^\d+\.\d+/ })

  const requests = spans.filter(({ kind }) => kind === SERVER_SPAN)
  t.same(requests.map(({ name }) => name).sort(), [
    'GET',
    'GET /api/v2/products/:id',
    'POST /api/v1/products',
  ])
  const read = requests.find(({ name }) => name === 'GET /api/v2/products/:id')
  t.match(read?.attributes, {
    'http.request.method': 'GET',
    'http.route': '/api/v2/products/:id',
    'http.response.status_code': 200,
    'url.scheme': 'http',
    'url.path': `/v2/products/${made.body.data.id}`,
    'network.protocol.version': '1.1',
  })
  t.equal(read?.parentSpanId, undefined)
  const [statement] = spans.filter(({ parentSpanId }) => parentSpanId === read?.spanId)
  t.match(statement, {
    name: 'SELECT products',
    kind: CLIENT_SPAN,
    traceId: read?.traceId,
    attributes: {
      'db.system.name': 'postgresql',
      'db.operation.name': 'SELECT',
      'db.collection.name': 'products',
    },
  })

  const write = requests.find(({ name }) => name === 'POST /api/v1/products')
  const transaction = spans.find(({ name, traceId }) => name === 'transaction' && traceId === write?.traceId)
  t.equal(transaction?.parentSpanId, write?.spanId, 'also after the body was read')
  const insert = spans.find(({ name }) => name === 'INSERT products')
  t.equal(insert?.parentSpanId, transaction?.spanId)
  t.equal(requests.find(({ name }) => name === 'GET')?.attributes['http.response.status_code'], 404)
  const logged = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'request answered')
  t.same(new Set(logged.map(({ trace_id }) => trace_id)), new Set(requests.map(({ traceId }) => traceId)))
})

t.test('a valid traceparent is continued, an invalid one is ignored', async (t) => {
  const { spans, app, admin } = await traced(t)
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
  await admin.get('/products', { traceparent: `00-${traceId}-00f067aa0ba902b7-01` })
  await admin.get('/orders', { traceparent: `00-${traceId}-00f067aa0ba902b7-00` })
  await admin.get('/users', { traceparent: 'nonsense' })
  await app.close()
  const requests = spans.filter(({ kind }) => kind === SERVER_SPAN)
  t.match(requests[0], { name: 'GET /api/v1/products', traceId, parentSpanId: '00f067aa0ba902b7' })
  t.notOk(
    requests.some(({ name }) => name.endsWith('orders')),
    'the caller did not want it sampled',
  )
  const own = requests.find(({ name }) => name.endsWith('users'))
  t.match(own?.traceId, /^[0-9a-f]{32}$/)
  t.not(own?.traceId, traceId)
})

t.test('spans contain no query, header, body, value or credential', async (t) => {
  const { bodies, app, admin, anybody } = await traced(t)
  const looksLikeKey = `rak_${'k'.repeat(30)}`
  await admin.get('/products?search=canary-query')
  await admin.get(`/users/${looksLikeKey}`, { 'user-agent': 'canary-agent', 'x-canary': 'canary-header' })
  await admin.post('/products', { sku: 'CANARY-SKU', name: 'canary-body', price_amount: 1 })
  await admin.post('/products', { sku: 'CANARY-SKU', name: 'canary-body', price_amount: 1 })
  const signIn = { grant_type: 'password', email: 'canary@example.com', password: 'canary-password' }
  await anybody.post('/tokens', signIn)
  await app.close()
  t.ok(bodies.length > 0)
  t.notMatch(bodies.join(''), new RegExp(`canary|${ADMIN_KEY}|${looksLikeKey}`, 'i'))
})

t.test('a failure is recorded: the 5xx on the request, the SQLSTATE on the statement', async (t) => {
  const { $client } = kept
  const broken = createDatabase({
    ...$client,
    run: async (text, params, options) => {
      if (/from "?products/.test(text)) throw Object.assign(new Error('a row: secret'), { code: '22012' })
      return $client.run(text, params, options)
    },
  })
  const { spans, app, admin } = await traced(t, { LOG_LEVEL: 'silent' }, { database: broken })
  t.equal((await admin.get('/products')).status, 500)
  await app.close()
  const request = spans.find(({ kind }) => kind === SERVER_SPAN)
  t.match(request, { status: 2, attributes: { 'http.response.status_code': 500, 'error.type': '500' } })
  const statement = spans.find(
    ({ name, traceId }) => name === 'SELECT products' && traceId === request?.traceId,
  )
  t.match(statement, { status: 2, attributes: { 'db.response.status_code': '22012' } })
  t.notMatch(JSON.stringify(spans), /secret/)
})

t.test('an unreachable collector delays no request and costs one log line and 2 s at shutdown', async (t) => {
  // It takes connections and says nothing: worse than one that refuses them.
  const silent = createSocketServer()
  t.teardown(() => silent.close())
  const port = await listen(silent)
  const lines: string[] = []
  const logs = { write: (line: string) => void lines.push(line) }
  const settings = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`, LOG_LEVEL: 'warn' }
  const { app, admin } = await testApp(t, settings, { database: kept, logs })
  // More than a batch (512) and than the queue (2048) of spans.
  for (let i = 0; i < 40; i += 1) {
    const replies = await Promise.all(Array.from({ length: 25 }, () => admin.get('/products')))
    for (const { status } of replies) if (status !== 200) t.equal(status, 200)
  }
  const since = getRunningTime()
  await app.close()
  // An export may take 5 s.
  t.ok(getRunningTime() - since < 4_900, `closed within ${Math.round(getRunningTime() - since)} ms`)
  t.ok(lines.length <= 1, lines.join(''))
})

t.test('a failing collector is logged once, and so is its recovery', async (t) => {
  const lines: string[] = []
  const logs = { write: (line: string) => void lines.push(line) }
  const { state, spans, app, admin } = await traced(t, { LOG_LEVEL: 'info' }, { logs })
  state.isRefusing = true
  const getTraceLines = () => lines.map((line) => JSON.parse(line)).filter(({ msg }) => /^traces /.test(msg))
  /** Creates enough spans for a batch, which is sent immediately. */
  const batch = async () => {
    for (let i = 0; i < 30; i += 1)
      await Promise.all(Array.from({ length: 20 }, () => admin.get('/products?limit=1')))
  }
  await batch()
  await batch()
  await waitUntil(() => getTraceLines().length > 0)
  t.match(getTraceLines(), [{ level: 'warn', msg: 'traces cannot be sent and are dropped' }])
  state.isRefusing = false
  await app.close()
  t.match(getTraceLines(), [{ level: 'warn' }, { level: 'info', msg: 'traces are sent again' }])
  t.ok(spans.length > 0)
})
