/** Metrics are served only as configured, and their number of series is limited. */
import { channel } from 'node:diagnostics_channel'
import { connect, createServer } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { createDatabase } from '../../../database/src/client/database.ts'
import { DatabaseUnavailable } from '../../../database/src/client/errors.ts'
import { ADMIN_KEY, testApp } from '../../../testing/helpers/app.ts'
import { keepOpen, type Owner, testDatabase } from '../../../testing/helpers/database.ts'
import { stopEventWork } from '../../../testing/helpers/events.ts'
import { parseExposition, sumSamples } from '../../../testing/helpers/exposition.ts'
import { listen as listenOnFreePort, sendRaw } from '../../../testing/helpers/network.ts'
import { resourcesWithNotes } from '../../../testing/helpers/notes.ts'
import { createDeferred, waitUntil } from '../../../testing/helpers/time.ts'
import { readConfig } from '../../src/config/read-config.ts'
import { listen } from '../../src/process/listen.ts'

const TOKEN = 'metrics-token-metrics-token'
const bearer = { authorization: `Bearer ${TOKEN}` }
const METRICS = { METRICS_TOKEN: TOKEN, METRICS_PORT: '0' }

const database = await testDatabase(t)
const kept = keepOpen(database)

/** An app whose metrics can be read on both ports. */
async function watched(
  t: Owner & Pick<Test, 'equal'>,
  settings: Record<string, string> = METRICS,
  parts = {},
) {
  const app = await testApp(t, settings, { database: kept, ...parts })
  const own = await app.app.listenMetrics()
  const read = async () => {
    const { status, text } = await app.anybody.get('/metrics', bearer)
    t.equal(status, 200)
    return parseExposition(text)
  }
  return { ...app, own: own ?? '', read }
}

const shared = await watched(t, METRICS, { resources: resourcesWithNotes })

/** Returns a function that reads the metrics of the shared app, and returns one that says by how much a sum has grown. */
async function startCounting() {
  const before = await shared.read()
  return async () => {
    const after = await shared.read()
    const count = (name: string, labels = {}) =>
      sumSamples(after, name, labels) - sumSamples(before, name, labels)
    return { after, count }
  }
}

t.test('without METRICS_PORT and METRICS_TOKEN there are no metrics', async (t) => {
  const { anybody, own } = await watched(t, {})
  t.equal(own, '')
  t.match(await anybody.get('/metrics'), { status: 404, body: { error: { code: 'RESOURCE_NOT_FOUND' } } })
})

t.test('on the main port metrics need the token', async (t) => {
  const { anybody, admin } = shared
  for (const authorization of ['', `Bearer ${TOKEN}x`, `Bearer ${TOKEN.slice(1)}`, `Basic ${TOKEN}`, TOKEN]) {
    const { status, text, headers } = await anybody.get('/metrics', { authorization })
    t.equal(status, 401, authorization)
    t.equal(headers.get('www-authenticate'), 'Bearer realm="metrics"')
    t.notMatch(text, TOKEN)
  }
  t.equal((await admin.get('/metrics')).status, 401, 'an API key is not accepted')
  const { status, text, headers } = await anybody.get('/metrics', bearer)
  t.equal(status, 200)
  t.equal(headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
  t.equal(headers.get('cache-control'), 'no-store')
  t.ok(parseExposition(text).has('http_requests_total'))
  t.equal((await anybody.call('HEAD', '/metrics', { headers: bearer })).status, 200)
  const posted = await anybody.post('/metrics', {}, bearer)
  t.same([posted.status, posted.headers.get('allow')], [405, 'GET, HEAD, OPTIONS'])
})

t.test('METRICS_PORT serves metrics alone, without a token, while the service runs', async (t) => {
  const { app, anybody, own } = await watched(t, { METRICS_PORT: '0', HOST: '0.0.0.0' })
  t.equal(new URL(own).hostname, '127.0.0.1', 'METRICS_HOST is by default this machine only')
  t.equal((await anybody.get('/metrics', bearer)).status, 404)
  const reply = await fetch(`${own}/metrics`)
  t.ok(parseExposition(await reply.text()).has('http_requests_total'))
  for (const [method, path, status, code] of [
    ['GET', '/', 404, 'RESOURCE_NOT_FOUND'],
    ['GET', '/api/v1/users', 404, 'RESOURCE_NOT_FOUND'],
    ['POST', '/metrics', 405, 'METHOD_NOT_ALLOWED'],
  ] as const) {
    const reply = await fetch(`${own}${path}`, { method })
    t.equal(reply.status, status, path)
    t.match(await reply.json(), { error: { code, request_id: reply.headers.get('x-request-id') } })
    t.equal(reply.headers.get('x-content-type-options'), 'nosniff')
    t.equal(reply.headers.get('link'), null, 'it has no documentation page')
  }
  const { replies, closed } = await sendRaw(Number(new URL(own).port), 'garbage\r\n\r\n')
  t.match(replies, [{ status: 400, headers: { 'content-type': /json/, link: undefined } }])
  t.ok(closed)
  await app.close()
  await t.rejects(fetch(`${own}/metrics`))
})

t.test('a metrics port in use, or a host of another machine, is named with its setting', async (t) => {
  const other = createServer()
  t.teardown(() => other.close())
  const port = await listenOnFreePort(other)
  for (const [settings, message] of [
    [{ METRICS_PORT: String(port) }, /^Port \d+ on 127\.0\.0\.1 is in use.*set METRICS_PORT\.$/],
    [{ METRICS_PORT: '0', METRICS_HOST: '192.0.2.1' }, /^METRICS_HOST 192.0.2.1 is not an address of this/],
  ] as [Record<string, string>, RegExp][]) {
    const { app } = await testApp(t, settings, { database: kept })
    await t.rejects(listen(app, readConfig({ ...settings, NODE_ENV: 'test', PORT: '0' })), { message })
  }
})

/** Base units and suffixes by Prometheus' rules for names: https://prometheus.io/docs/practices/naming/ */
const UNITS = /_(?:milliseconds|ms|minutes|hours|kilobytes|kb|mb|percent)(?:_|$)/

t.test('each metric has a valid name, help, type and samples', async (t) => {
  const { admin, read } = shared
  await admin.get('/products')
  const families = await read()
  for (const { name, help, type, samples } of families.values()) {
    t.match(
      name,
      /^(?:http|database|rate_limit|idempotency|overload|contention|authentication|resource_api|process|nodejs|events?|webhook|mails?|jobs?|consumers?|work)_[a-z0-9_]+$/,
    )
    t.match(help, /^[A-Z].{5,}/, name)
    t.match(type, /^(?:counter|gauge|histogram)$/, name)
    t.equal(type === 'counter', name.endsWith('_total'), `${name}: only counters end in _total`)
    t.notMatch(name, UNITS, name)
    if (type === 'histogram') {
      t.match(name, /_(?:seconds|bytes)$/)
      for (const { name: sample } of samples) t.match(sample, /_(?:bucket|sum|count)$/)
    } else for (const sample of samples) t.equal(sample.name, name)
  }
  const names = `http_requests_total http_request_duration_seconds http_requests_in_flight http_connections
    http_connections_dropped_total http_malformed_requests_total database_up database_pool_size
    database_pool_in_use database_pool_waiting database_pool_wait_seconds database_retries_total
    rate_limit_refused_total rate_limit_store_up idempotency_requests_total idempotency_keys_pruned_total
    overload_refused_total overload_unread_responses_total authentication_failures_total
    nodejs_eventloop_lag_p99_seconds nodejs_heap_size_used_bytes nodejs_gc_duration_seconds
    process_resident_memory_bytes`
  for (const name of names.split(/\s+/)) t.ok(families.has(name), name)
})

t.test('OpenMetrics is served to clients that prefer it', async (t) => {
  const { anybody, read } = shared
  await anybody.get('/livez')
  const accept = 'application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2'
  const { text, headers } = await anybody.get('/metrics', { ...bearer, accept })
  t.equal(headers.get('content-type'), 'application/openmetrics-text; version=1.0.0; charset=utf-8')
  t.ok(text.endsWith('\n# EOF\n'))
  t.notMatch(text, /\n\n/)
  t.match(text, /^# TYPE http_requests counter\nhttp_requests_total\{/m)
  t.notMatch(text, /^# (?:HELP|TYPE) \w+_total /m)
  t.ok((await read()).has('http_requests_total'), 'and the other format is as before')
})

t.test('requests are counted by route, not by path', async (t) => {
  const { admin, anybody, port } = shared
  const readGrowth = await startCounting()
  const { body } = await admin.post('/api/v1/products', { sku: `M-${port}`, name: 'Metric', price_amount: 1 })
  await admin.get(`/products/${body.data.id}`)
  await admin.get(`/v2/products/${body.data.id}`)
  await anybody.get('/api/v1/orders')
  await admin.get('/api/v1/nothing/at/all')
  await admin.delete('/api/v1/products')
  await admin.get(`/products?search=${'a'.repeat(9_000)}`)
  await sendRaw(port, 'garbage\r\n\r\n')
  await sendRaw(port, 'GET /%zz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  const { after, count } = await readGrowth()
  for (const labels of [
    { method: 'POST', route: '/products', version: '1', status: '201' },
    { method: 'GET', route: '/products/:id', version: '1', status: '200' },
    { method: 'GET', route: '/products/:id', version: '2', status: '200' },
    { route: '/orders', status: '401' },
    { route: 'none', version: 'none', status: '404' },
    { method: 'DELETE', route: '/products', status: '405' },
    { route: '/products', status: '414' },
  ])
    t.equal(count('http_requests_total', labels), 1, JSON.stringify(labels))
  t.equal(count('http_malformed_requests_total', { status: '400' }), 2)
  const duration = { method: 'GET', route: '/products/:id', version: '1' }
  t.equal(count('http_request_duration_seconds_count', duration), 1)
  t.ok(count('http_request_duration_seconds_sum', duration) > 0)
  t.equal(sumSamples(after, 'http_requests_in_flight'), 1, 'this one')
  t.ok(sumSamples(after, 'http_connections') >= 1)
})

t.test('a request of a disconnected client is counted as such and is no longer in flight', async (t) => {
  const { admin, port, read } = shared
  // From now on the key is known.
  t.equal((await admin.get('/users/me')).status, 200)
  const socket = connect(port, '127.0.0.1')
  const head = `POST /api/v1/products HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\n`
  socket.write(`${head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{`)
  const inFlight = async () => sumSamples(await read(), 'http_requests_in_flight')
  await waitUntil(async () => (await inFlight()) === 2)
  socket.destroy()
  await waitUntil(async () => (await inFlight()) === 1)
  t.equal(sumSamples(await read(), 'http_requests_total', { method: 'POST', status: 'aborted' }), 1)
})

t.test('random paths, methods and ids create no new series', async (t) => {
  const { admin, port, read } = shared
  const random = () => Math.random().toString(36).slice(2)
  const methods = 'GET POST PUT PATCH DELETE OPTIONS PROPFIND REPORT TRACE SEARCH'.split(' ')
  const listSeries = async () =>
    [...(await read()).values()].flatMap(({ name, samples }) =>
      samples.flatMap((each) =>
        name.startsWith('nodejs_gc') ? [] : each.name + JSON.stringify(each.labels),
      ),
    )
  const sendRandom = async (count: number) => {
    for (let i = 0; i < count; i += 1) {
      const [a, b] = [random(), random()]
      const paths = [a, `api/v1/${a}/${b}`, `api/v9/${a}`, `api/v1/products/${a}`, `users/${a}/notes/${b}`]
      const target = `/${paths[(i >> 1) % 5]}?${a}=${b}`
      const headers = `Host: ${a}.example\r\nX-Request-Id: ${a}${b}\r\nX-API-Key: ${b}\r\nConnection: close`
      await sendRaw(port, `${methods[i % 10]} ${target} HTTP/1.1\r\n${headers}\r\n\r\n`)
    }
    await admin.get('/products')
  }
  await sendRandom(100)
  await listSeries()
  const known = new Set(await listSeries())
  await sendRandom(200)
  t.same(
    (await listSeries()).filter((each) => !known.has(each)),
    [],
  )
  t.ok(known.size < 2_000, `${known.size} series`)
})

t.test('messages of other plugins are counted with few labels', async (t) => {
  const readGrowth = await startCounting()
  const publish = (event: string, message: object = {}) => channel(`resource-api:${event}`).publish(message)
  publish('limits:refused', { window: 'sustained' })
  publish('limits:refused', { window: 'sustained' })
  for (let i = 0; i < 200; i += 1) publish('limits:refused', { window: `user-${i}` })
  publish('limits:refused', { window: 'a "quoted"\nsecret' })
  publish('limits:store', { state: 'own' })
  publish('idempotency:replayed')
  publish('idempotency:mismatch')
  publish('idempotency:in-progress')
  publish('idempotency:pruned', { count: 7 })
  publish('database:retry', { code: '40001' })
  publish('overload:refused', { reason: 'event-loop' })
  publish('overload:unread', { reason: 'time' })
  const { after, count } = await readGrowth()
  for (const [expected, name, labels] of [
    [2, 'rate_limit_refused_total', { window: 'sustained' }],
    [203, 'rate_limit_refused_total'],
    [1, 'idempotency_requests_total', { outcome: 'replayed' }],
    [1, 'idempotency_requests_total', { outcome: 'mismatch' }],
    [1, 'idempotency_requests_total', { outcome: 'in_progress' }],
    [7, 'idempotency_keys_pruned_total'],
    [1, 'database_retries_total', { code: '40001' }],
    [1, 'overload_refused_total', { reason: 'event-loop' }],
    [1, 'overload_unread_responses_total', { reason: 'time' }],
  ] as const)
    t.equal(count(name, labels), expected, name)
  t.ok((after.get('rate_limit_refused_total')?.samples.length ?? 99) <= 21)
  t.equal(sumSamples(after, 'rate_limit_store_up'), 0)
  publish('limits:store', { state: 'shared' })
  t.equal(sumSamples(await shared.read(), 'rate_limit_store_up'), 1)
})

t.test('429 replies, replays, mismatches and refused credentials of real requests are counted', async (t) => {
  const { admin, anybody, read } = await watched(t, { ...METRICS, RATE_LIMIT: '4' })
  const key = { 'idempotency-key': 'metrics-test' }
  const tea = { sku: 'METRICS-1', name: 'Tea', price_amount: 1 }
  for (const [status, body] of [
    [201, tea],
    [201, tea],
    [422, { ...tea, price_amount: 2 }],
  ] as const)
    t.equal((await admin.post('/products', body, key)).status, status)
  t.equal((await admin.get('/products')).status, 200)
  t.equal((await admin.get('/products')).status, 429)
  await anybody.get('/products')
  await anybody.get('/products', { 'x-api-key': 'wrong' })
  await anybody.get('/products', { authorization: 'Bearer wrong' })
  await anybody.post('/tokens', { grant_type: 'password', email: 'a@example.com', password: 'wrong-wrong' })
  await anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token: 'wrong' })
  const families = await read()
  t.equal(sumSamples(families, 'rate_limit_refused_total', { window: 'sustained' }), 1)
  for (const outcome of ['replayed', 'mismatch'])
    t.equal(sumSamples(families, 'idempotency_requests_total', { outcome }), 1, outcome)
  for (const kind of ['none', 'key', 'token', 'password', 'refresh_token'])
    t.equal(sumSamples(families, 'authentication_failures_total', { kind }), 1, kind)
})

t.test('the size of the connection pool, its use, waiting requests and waits are shown', async (t) => {
  const { read, app } = shared
  await stopEventWork(app)
  const size = sumSamples(await read(), 'database_pool_size')
  t.ok(size >= 1)

  /** Holds all connections, lets a statement wait for one, and returns the figures then and afterwards. */
  const observe = async () => {
    const waits = sumSamples(await read(), 'database_pool_wait_seconds_count')
    const toFigures = (families: Awaited<ReturnType<typeof read>>) => ({
      inUse: sumSamples(families, 'database_pool_in_use'),
      waiting: sumSamples(families, 'database_pool_waiting'),
      waits: sumSamples(families, 'database_pool_wait_seconds_count') - waits,
    })
    const { promise: held, resolve: release } = createDeferred()
    // The embedded database lends its one connection for a part of each turn of the loop: a new one begins.
    await turn()
    await turn()
    const holding = Array.from({ length: size }, () => app.database.transaction(() => held))
    const waiting = app.database.run('select 1')
    const busy = toFigures(await read())
    release()
    await Promise.all([...holding, waiting])
    return { busy, idle: toFigures(await read()) }
  }
  const expected = {
    busy: { inUse: size, waiting: 1, waits: 0 },
    idle: { inUse: 0, waiting: 0, waits: 1 },
  }
  let observed = await observe()
  // Work in the background, such as that of mails, may have used a connection at the same time.
  for (let left = 10; left > 0 && !isDeepStrictEqual(observed, expected); left--) observed = await observe()
  t.same(observed, expected)
})

t.test('database_up is measured when metrics are read', async (t) => {
  let isUp = true
  const ping = async () => {
    if (!isUp) throw new DatabaseUnavailable('away')
  }
  const { read } = await watched(t, METRICS, { database: createDatabase({ ...kept.$client, ping }) })
  t.equal(sumSamples(await read(), 'database_up'), 1)
  isUp = false
  t.equal(sumSamples(await read(), 'database_up'), 0)
})

t.test('a closed app has no channel subscriptions', async (t) => {
  await shared.app.close()
  t.equal(channel('resource-api:limits:refused').hasSubscribers, false)
  t.equal(channel('resource-api:database:wait').hasSubscribers, false)
})
