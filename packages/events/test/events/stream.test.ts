/** `GET /events` as a stream: its events and cursors, its end, and its limits. */
import { once } from 'node:events'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { createDatabase } from '../../../database/src/client/database.ts'
import {
  ADMIN_KEY,
  createClient,
  issueEndingToken,
  type Person,
  testApp,
} from '../../../testing/helpers/app.ts'
import { openDatabase, SERVER, testDatabase, testDatabaseUrl } from '../../../testing/helpers/database.ts'
import {
  clearFeed,
  getPlaces,
  insertEvent,
  insertManyEvents,
  insertOwnedEvent,
  insertPlacedEvent,
  openStream,
  readFeed,
  removeEvents,
} from '../../../testing/helpers/events.ts'
import { intercept } from '../../../testing/helpers/statements.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { assignBatch } from '../../src/events/sequencer.ts'

const headers = { 'x-api-key': ADMIN_KEY }

const shared = await testApp(t, { COMPRESS: 'true' })
const { anybody, app, admin, base, database, person } = shared

/** Opens a stream of the shared app, and closes it after the test: a user has five at most. */
const open = (t: Test, query = '', cursor?: string) =>
  openStream(t, shared, { headers, path: `/events${query}`, cursor })

t.test('a stream has the events after it began, as the version of its address represents them', async (t) => {
  await insertPlacedEvent(shared)
  const first = await openStream(t, shared, { headers: { ...headers, 'accept-encoding': 'gzip' } })
  const second = await openStream(t, shared, { headers, path: '/api/v2/events?fields=type,data' })
  t.equal(first.status, 200)
  t.match(Object.fromEntries(first.headers), {
    ...{ 'content-type': 'text/event-stream', 'cache-control': 'no-store, no-transform' },
    ...{ 'x-accel-buffering': 'no', 'content-encoding': undefined },
    ...{ 'api-version': '1', 'x-ratelimit-limit': /^\d+$/ },
  })
  const id = await insertPlacedEvent(shared, { type: 'products.updated', previous: { stock: 9 } })
  const { data } = (await admin.get(`/events/${id}`)).body
  t.match(await first.waitForEvents(1), [{ type: 'products.updated', data }])
  const [typed] = await second.waitForEvents(1)
  t.same(typed?.data, (await admin.get(`/v2/events/${id}?fields=type,data`)).body.data)
  t.equal(first.events.length, 1, 'earlier events are not sent')
})

t.test('Accept chooses between list and stream', async (t) => {
  const [json, stream] = ['application/json; charset=utf-8', 'text/event-stream']
  for (const [accept, expected] of [
    ['text/event-stream, */*', stream],
    ['text/*', stream],
    ['application/json;q=0.5, text/event-stream', stream],
    ['application/json, text/event-stream;q=0.5', json],
    ['*/*', json],
  ] as const) {
    const opened = await openStream(t, shared, { headers: { ...headers, accept } })
    opened.close()
    t.same([opened.status, opened.headers.get('content-type')], [200, expected], accept)
  }
  const accept = { accept: stream }
  for (const path of ['/products', '/v1/users', '/events/0193a5b0-7b1e-7c3a-9f00-000000000001'])
    t.match(await admin.get(path, accept), { status: 406, body: { error: { code: 'NOT_ACCEPTABLE' } } }, path)
  const head = await admin.call('HEAD', '/events', { headers: accept })
  t.same([head.status, head.headers.get('content-type')], [200, stream])
})

t.test('the cursors of lists and streams continue each other, with the same filters only', async (t) => {
  const removed = await clearFeed(shared)
  const add = (type: string) => insertPlacedEvent(shared, { type })
  for (const type of ['products.created', 'products.updated', 'products.created']) await add(type)
  const query = '?type=products.created'
  const { cursor } = (await admin.get(`/events${query}&sort=position&limit=1`)).body.pagination
  const stream = await open(t, query, cursor)
  await stream.waitForEvents(1)
  await add('products.deleted')
  await add('products.created')
  const [third, fifth] = await stream.waitForEvents(2)
  t.same(getPlaces([third?.data, fifth?.data], removed), [3, 5])
  await add('products.created')
  const rest = await readFeed(admin, '&type=products.created', fifth?.id)
  t.same(getPlaces(rest.events, removed), [6])
  // Last-Event-ID is newer than the query string of a client that reconnects.
  for (const [lastId, place] of [
    [undefined, 3],
    [fifth?.id, 6],
  ] as const) {
    const [event] = await (await open(t, `${query}&cursor=${cursor}`, lastId)).waitForEvents(1)
    t.same(getPlaces([event?.data], removed), [place])
  }
})

t.test('parameters that a stream lacks and other cursors are 400, an expired one is 410', async (t) => {
  for (let i = 0; i < 2; i += 1) await insertPlacedEvent(shared)
  const { cursor } = (await admin.get('/events?sort=position&limit=1')).body.pagination
  await removeEvents(database)
  for (const [query, lastId, status, code] of [
    ['?limit=5', undefined, 400, 'VALIDATION_ERROR'],
    ['?sort=-position', undefined, 400, 'VALIDATION_ERROR'],
    ['?sort=position&order=desc', undefined, 400, 'VALIDATION_ERROR'],
    ['?type=teapots.*', undefined, 400, 'VALIDATION_ERROR'],
    ['?sort=position', undefined, 200, undefined],
    ['?type=products.*', cursor, 400, 'INVALID_CURSOR'],
    ['', cursor, 410, 'EVENTS_EXPIRED'],
  ] as const) {
    const stream = await open(t, query, lastId)
    t.same([stream.status, stream.body?.error.code], [status, code], query)
  }
  const inUrl = await anybody.get(`/events?api_key=${ADMIN_KEY}`, { accept: 'text/event-stream' })
  t.not(inUrl.status, 200, 'credentials come in headers')
})

t.test('a stream that begins in the past joins the present without a gap or a repetition', async (t) => {
  // Those of other tests too.
  await app.events.assignAll()
  const { cursor } = await readFeed(admin)
  const count = 600
  const streams = []
  for (let inserted = 0; inserted < count; inserted += 20) {
    await insertManyEvents(database, 20)
    app.feed?.wake()
    if (inserted === count / 2) await app.events.assignAll()
    if (inserted >= count / 2 && inserted % 100 === 0) streams.push(await open(t, '', cursor))
  }
  await app.events.assignAll()
  const expected = (await readFeed(admin, '&limit=100', cursor)).events.map(({ position }) => position)
  t.equal(expected.length, count)
  for (const stream of streams) {
    const positions = (await stream.waitForEvents(count)).map(({ data }) => data.position)
    t.same(positions, expected)
  }
})

t.test('the first stream of a process does not make it read the events before its cursor', async (t) => {
  const inner = await testDatabase(t)
  let pages = 0
  const database = intercept(inner, (text) => {
    if (text.includes('total_bytes')) pages += 1
  })
  const { app, base } = await testApp(t, {}, { database })
  await app.events.stop()
  await insertManyEvents(inner, 1_000)
  // As another process does.
  await assignBatch(inner, [])
  await assignBatch(inner, [])
  const stream = await openStream(t, { base }, { headers })
  const id = await insertPlacedEvent({ app, database: inner })
  t.match(await stream.waitForEvents(1), [{ data: { id } }])
  t.equal(pages, 1)
})

t.test('a comment has the current position, also without events that the stream selects', async (t) => {
  const query = '?type=orders.*'
  const stream = await open(t, query)
  await waitUntil(() => stream.getCursor() !== '')
  const first = stream.getCursor()
  for (let i = 0; i < 3; i += 1) await insertPlacedEvent(shared)
  const cursor = await stream.waitForComment()
  await removeEvents(database)
  t.equal((await open(t, query, cursor)).status, 200, 'the cursor is after the removed events')
  t.equal((await open(t, query, first)).status, 410, 'the first cursor is where the stream began')
  t.equal(stream.events.length, 0)
})

const withKey = ({ key }: Person) => ({ 'x-api-key': key })
const withToken = ({ token }: Person) => ({ authorization: `Bearer ${token}` })

t.test('a stream ends when its credential does', async (t) => {
  const lasting = await person('member')
  const other = await openStream(t, shared, { headers: withKey(lasting) })
  const runFor = (text: string) => (each: Person) => database.run(`${text} where user_id = $1`, [each.id])
  const patch = (change: object) => (each: Person) => admin.patch(`/users/${each.id}`, change)
  for (const [getHeaders, end] of [
    [withKey, runFor('delete from api_keys')],
    [withKey, runFor(`update api_keys set scopes = '["events:read"]'`)],
    [withToken, ({ bearer, sessionId }: Person) => bearer.delete(`/sessions/${sessionId}`)],
    [withKey, patch({ status: 'inactive' })],
    [withToken, patch({ role: 'manager' })],
  ] as const) {
    const ada = await person('member')
    const stream = await openStream(t, shared, { headers: getHeaders(ada) })
    t.equal(stream.status, 200)
    await end(ada)
    await stream.waitForEnd()
  }
  await insertOwnedEvent(database, 'orders', lasting.id, { items: [] })
  await other.waitForEvents(1)
})

t.test('a change reaches a stream of another process', { skip: !SERVER && 'needs a server' }, async (t) => {
  const { url } = await testDatabaseUrl(t)
  const start = async () => {
    const database = await openDatabase({ url })
    t.teardown(() => database.close())
    return testApp(t, {}, { database })
  }
  const [one, other] = [await start(), await start()]
  const stream = await openStream(t, other, { headers, path: '/events?type=products.*' })
  const product = { sku: 'TEA-1', name: 'Tea', price_amount: 5 }
  const { id } = (await one.admin.post('/products', product)).body.data
  const [event] = await stream.waitForEvents(1)
  t.match(event, { type: 'products.created', data: { data: { id, ...product }, actor_id: one.adminId } })
})

t.test('a commit reaches a stream of the same process without waiting for a poll', async (t) => {
  const { $client } = await testDatabase(t)
  let polls = 0
  // No change is waiting.
  const run: typeof $client.run = async (text, ...rest) => {
    if (!text.includes('as "age" from')) return $client.run(text, ...rest)
    polls += 1
    return []
  }
  const withoutPolls = createDatabase({ ...$client, run })
  const api = await testApp(t, {}, { database: withoutPolls })
  const stream = await openStream(t, api, { headers, path: '/events?type=products.*' })
  await insertEvent(withoutPolls)
  const before = polls
  await waitUntil(() => polls > before + 1)
  t.equal(stream.events.length, 0, 'a poll finds nothing')
  await api.admin.post('/products', { sku: 'TEA', name: 'Tea', price_amount: 5 })
  await stream.waitForEvents(2)
})

t.test('on the wire, an event is its cursor, its type and one line of JSON', async (t) => {
  const aborter = new AbortController()
  const accept = { ...headers, accept: 'text/event-stream' }
  const reply = await fetch(`${base}/events?type=products.*`, { headers: accept, signal: aborter.signal })
  const product = { sku: 'TEA-1', name: 'Tea', description: 'First\nsecond', price_amount: 5 }
  t.equal((await admin.post('/products', product)).status, 201)
  let text = ''
  for await (const chunk of reply.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk
    if (/data: .*\n\n/.test(text)) break
  }
  aborter.abort()
  t.match(text, /^retry: 3000\n:[^\n]*\nid: \S+\n\n/)
  const event = /id: (\S+)\nevent: products\.created\ndata: (\{.*\})\n\n$/.exec(text)
  t.match(JSON.parse(event?.[2] ?? 'null'), { type: 'products.created', data: product })
  const next = await admin.get(`/events?sort=position&type=products.*&cursor=${event?.[1]}`)
  t.same([next.body.data, next.body.pagination.has_more], [[], false], 'the id is the cursor of a list')
})

t.test('a stream outlasts the deadline of answers, and ends in an orderly way at a shutdown', async (t) => {
  const timeouts = { responseTimeoutMs: 1_000, readTimeoutMs: 1_000 }
  const { app, base, database, person } = await testApp(t, { ACCESS_TOKEN_TTL: '3' }, { timeouts })
  const stream = await openStream(t, { app, base }, { headers })
  const authorization = `Bearer ${issueEndingToken({ app }, await person('member'), 'member')}`
  const short = await openStream(t, { app, base }, { headers: { authorization } })
  t.equal(short.status, 200)
  await waitUntil(() => stream.getCursor() !== '')
  await stream.waitForComment()
  await short.waitForEnd()
  const expired = await createClient(base, { authorization }).get('/events')
  t.equal(expired.status, 401, 'the other stream has ended with its access token')
  await insertEvent(database)
  app.feed?.wake()
  await stream.waitForEvents(1)
  await app.close()
  await stream.waitForEnd()
  t.equal(stream.events.length, 1)
})

t.test('a user has five streams, and a process as many as EVENT_STREAMS', async (t) => {
  const { app, admin, base, person } = await testApp(t, { EVENT_STREAMS: '7', USER_CONCURRENCY: '1' })
  const streams = []
  for (let i = 0; i < 5; i += 1) streams.push(await openStream(t, { app, base }, { headers }))
  const sixth = await openStream(t, { app, base }, { headers })
  t.match(sixth, { status: 429, body: { error: { code: 'RATE_LIMIT_EXCEEDED' } } })
  t.match(sixth.headers.get('retry-after'), /^\d+$/)
  t.equal((await admin.get('/events')).status, 200, 'streams do not count as requests at work')
  for (const expected of [200, 200, 503]) {
    const { status } = await openStream(t, { app, base }, { headers: withKey(await person('member')) })
    t.equal(status, expected)
  }
  streams[0]?.close()
  await waitUntil(() => app.events.streams.size === 6)
  t.equal((await openStream(t, { app, base }, { headers })).status, 200)
})

t.test('a client that does not read is disconnected, and delays no other', async (t) => {
  await waitUntil(() => app.events.streams.size === 0)
  const socket = connect(shared.port, '127.0.0.1')
  socket.write(
    `GET /events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nX-API-Key: ${ADMIN_KEY}\r\n\r\n`,
  )
  t.teardown(() => socket.destroy())
  const [head] = await once(socket, 'data')
  t.match(String(head), /^HTTP\/1\.1 200 /)
  // It reads no more.
  socket.pause()
  const reader = await open(t)
  await waitUntil(() => app.events.streams.size === 2)
  const large = { type: 'posts.created', columns: { title: 'T', body: 'x'.repeat(300_000) } }
  let count = 0
  await waitUntil(async () => {
    // One at a time: several at once are more than the reader may leave unread, too.
    await insertEvent(database, large)
    count += 1
    await app.events.assignAll()
    await reader.waitForEvents(count)
    return app.events.streams.size === 1
  })
  t.equal(reader.events.length, count)
})
