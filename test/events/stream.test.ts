/** `GET /events` as a stream: its events and cursors, its end, and its limits. */

import { connect } from 'node:net'
import t from 'tap'
import { createDatabase } from '../../drizzle/client/database.ts'
import { assignBatch } from '../../plugins/events/sequencer.ts'
import { ADMIN_KEY, createClient, testApp } from '../helpers/app.ts'
import { openDatabase, SERVER, testDatabase, testDatabaseUrl } from '../helpers/database.ts'
import { openStream } from '../helpers/event-streams.ts'
import {
  clearFeed,
  getPlaces,
  insertEvent,
  insertManyEvents,
  insertOwnedEvent,
  insertPlacedEvent,
  readFeed,
  removeEvents,
} from '../helpers/events.ts'
import { waitUntil } from '../helpers/wait-until.ts'

const headers = { 'x-api-key': ADMIN_KEY }

t.test('a stream has the events after it began, as the version of its address represents them', async (t) => {
  const test = await testApp(t, { COMPRESS: 'true' })
  const { app, admin, base, database } = test
  await insertEvent(database)
  await app.events.assignAll()
  const first = await openStream(t, base, { headers: { ...headers, 'accept-encoding': 'gzip' } })
  const second = await openStream(t, base, { headers, path: '/api/v2/events?fields=type,data' })
  t.equal(first.status, 200)
  t.equal(first.headers.get('content-type'), 'text/event-stream')
  t.equal(first.headers.get('cache-control'), 'no-store, no-transform')
  t.equal(first.headers.get('x-accel-buffering'), 'no')
  t.equal(first.headers.get('content-encoding'), null)
  t.equal(first.headers.get('api-version'), '1')
  t.match(first.headers.get('x-ratelimit-limit'), /^\d+$/)

  const id = await insertPlacedEvent(test, { type: 'products.updated', previous: { stock: 9 } })
  const [event] = await first.waitForEvents(1)
  t.equal(event?.type, 'products.updated')
  t.same(event?.data, (await admin.get(`/events/${id}`)).body.data)
  const [typed] = await second.waitForEvents(1)
  t.same(typed?.data, (await admin.get(`/v2/events/${id}?fields=type,data`)).body.data)
  t.equal(first.events.length, 1, 'earlier events are not sent')
})

t.test('Accept chooses between list and stream', async (t) => {
  const { admin, base } = await testApp(t)
  const isStream = async (accept: string) => {
    const stream = await openStream(t, base, { headers: { ...headers, accept } })
    stream.close()
    return [stream.status, stream.headers.get('content-type')?.split(';')[0]]
  }
  t.same(await isStream('text/event-stream, */*'), [200, 'text/event-stream'])
  t.same(await isStream('text/*'), [200, 'text/event-stream'])
  t.same(await isStream('application/json;q=0.5, text/event-stream'), [200, 'text/event-stream'])
  t.same(await isStream('application/json, text/event-stream;q=0.5'), [200, 'application/json'])
  t.same(await isStream('*/*'), [200, 'application/json'])
  for (const path of ['/products', '/v1/users', '/events/0193a5b0-7b1e-7c3a-9f00-000000000001']) {
    const refused = await admin.get(path, { accept: 'text/event-stream' })
    t.equal(refused.status, 406)
    t.equal(refused.body.error.code, 'NOT_ACCEPTABLE')
  }
  const head = await admin.call('HEAD', '/events', { headers: { accept: 'text/event-stream' } })
  t.equal(head.status, 200)
  t.equal(head.headers.get('content-type'), 'text/event-stream')
})

t.test('the cursors of lists and streams continue each other, with the same filters only', async (t) => {
  const test = await testApp(t)
  const { app, admin, base, database } = test
  const removed = await clearFeed(test)
  const add = async (type: string) => {
    await insertEvent(database, { type })
    await app.events.assignAll()
  }
  for (const type of ['products.created', 'products.updated', 'products.created']) await add(type)
  const path = '/events?type=products.created'
  const page = await admin.get(`${path}&sort=position&limit=1`)
  const { cursor } = page.body.pagination
  const stream = await openStream(t, base, { headers, path, cursor })
  await stream.waitForEvents(1)
  await add('products.deleted')
  await add('products.created')
  const [third, fifth] = await stream.waitForEvents(2)
  t.same(getPlaces([third?.data, fifth?.data], removed), [3, 5])
  await add('products.created')
  const rest = await readFeed(admin, '&type=products.created', fifth?.id)
  t.same(getPlaces(rest.events, removed), [6])

  const byQuery = await openStream(t, base, { headers, path: `${path}&cursor=${cursor}` })
  const [sameThird] = await byQuery.waitForEvents(1)
  t.same(getPlaces([sameThird?.data], removed), [3])
  const both = await openStream(t, base, { headers, path: `${path}&cursor=${cursor}`, cursor: fifth?.id })
  const [sixth] = await both.waitForEvents(1)
  t.same(
    getPlaces([sixth?.data], removed),
    [6],
    'Last-Event-ID is newer than the query string of a client that reconnects',
  )

  const other = await openStream(t, base, { headers, cursor })
  t.equal(other.status, 400)
  t.equal(other.body.error.code, 'INVALID_CURSOR')
})

t.test('parameters that a stream does not have are 400, and an expired cursor is 410', async (t) => {
  const { app, admin, base, database } = await testApp(t)
  const open = async (query: string, cursor?: string) => {
    const { status, body } = await openStream(t, base, { headers, path: `/events${query}`, cursor })
    return [status, body?.error.code]
  }
  t.same(await open('?limit=5'), [400, 'VALIDATION_ERROR'])
  t.same(await open('?sort=-position'), [400, 'VALIDATION_ERROR'])
  t.same(await open('?sort=position&order=desc'), [400, 'VALIDATION_ERROR'])
  t.same(await open('?type=teapots.*'), [400, 'VALIDATION_ERROR'])
  t.same(await open('?sort=position'), [200, undefined])
  await insertEvent(database)
  await insertEvent(database)
  await app.events.assignAll()
  const page = await admin.get('/events?sort=position&limit=1')
  await removeEvents(database)
  t.same(await open('', page.body.pagination.cursor), [410, 'EVENTS_EXPIRED'])
})

t.test('a stream that begins in the past joins the present without a gap or a repetition', async (t) => {
  const { app, admin, base, database } = await testApp(t)
  // The event of the first admin too.
  await app.events.assignAll()
  const { events: before, cursor } = await readFeed(admin)
  const removed = before.length
  const count = 600
  let inserted = 0
  const add = async () => {
    await insertManyEvents(database, 20)
    inserted += 20
    app.feed?.wake()
  }
  while (inserted < count / 2) await add()
  await app.events.assignAll()
  const streams = []
  while (inserted < count) {
    await add()
    if (inserted % 100 === 0) streams.push(await openStream(t, base, { headers, cursor }))
  }
  for (const stream of streams) {
    await stream.waitForEvents(count)
    t.same(
      stream.events.map(({ data }) => data.position),
      Array.from({ length: count }, (_, i) => removed + i + 1),
    )
  }
})

t.test('the first stream of a process does not make it read the events before its cursor', async (t) => {
  const inner = await testDatabase(t)
  let pages = 0
  const database = createDatabase({
    ...inner.$client,
    run: (text, ...rest) => {
      if (text.includes('total_bytes')) pages += 1
      return inner.$client.run(text, ...rest)
    },
  })
  const { app, base } = await testApp(t, {}, { database })
  await app.events.stop()
  await insertManyEvents(inner, 1_000)
  // As another process does.
  await assignBatch(inner, [])
  await assignBatch(inner, [])
  const stream = await openStream(t, base, { headers })
  const id = await insertPlacedEvent({ app, database: inner })
  const [event] = await stream.waitForEvents(1)
  t.equal(event?.data.id, id)
  t.equal(pages, 1)
})

t.test('a comment has the current position, also without events that the stream selects', async (t) => {
  const { app, base, database } = await testApp(t)
  const path = '/events?type=orders.*'
  const stream = await openStream(t, base, { headers, path })
  await waitUntil(() => stream.getCursor() !== '')
  const first = stream.getCursor()
  for (let i = 0; i < 3; i += 1) await insertEvent(database)
  await app.events.assignAll()
  const cursor = await stream.waitForComment()
  await removeEvents(database)
  const next = await openStream(t, base, { headers, path, cursor })
  t.equal(next.status, 200, 'the cursor is after the removed events')
  const expired = await openStream(t, base, { headers, path, cursor: first })
  t.equal(expired.status, 410, 'the first cursor is that of the position at which the stream began')
  t.equal(stream.events.length, 0)
})

t.test('a stream ends when its credential does', async (t) => {
  const { admin, base, database, person } = await testApp(t)
  const revoked = await person('member')
  const signedOut = await person('member')
  const inactive = await person('member')
  const promoted = await person('member')
  const narrowed = await person('member', ['events:read', 'orders:read'])
  const lasting = await person('member')
  const withKey = ({ key }: { key: string }) => openStream(t, base, { headers: { 'x-api-key': key } })
  const withToken = ({ token }: { token: string }) =>
    openStream(t, base, { headers: { authorization: `Bearer ${token}` } })
  const streams = [
    await withKey(revoked),
    await withToken(signedOut),
    await withKey(inactive),
    await withToken(promoted),
    await withKey(narrowed),
  ]
  const other = await withKey(lasting)
  await database.run('delete from api_keys where user_id = $1', [revoked.id])
  t.equal((await signedOut.bearer.delete(`/sessions/${signedOut.sessionId}`)).status, 204)
  t.equal((await admin.patch(`/users/${inactive.id}`, { status: 'inactive' })).status, 200)
  t.equal((await admin.patch(`/users/${promoted.id}`, { role: 'manager' })).status, 200)
  await database.run(`update api_keys set scopes = '["events:read"]' where user_id = $1`, [narrowed.id])
  for (const stream of streams) await stream.waitForEnd()
  await insertOwnedEvent(database, 'orders', lasting.id, { items: [] })
  await other.waitForEvents(1)
})

t.test('a change reaches a stream of another process', { skip: !SERVER && 'needs a server' }, async (t) => {
  const { url } = await testDatabaseUrl(t)
  const open = async () => {
    const database = await openDatabase({ url })
    t.teardown(() => database.close())
    return testApp(t, {}, { database })
  }
  const [one, other] = [await open(), await open()]
  const stream = await openStream(t, other.base, { headers, path: '/events?type=products.*' })
  const product = { sku: 'TEA-1', name: 'Tea', price_amount: 5 }
  const { id } = (await one.admin.post('/products', product)).body.data
  const [event] = await stream.waitForEvents(1)
  t.match(event, { type: 'products.created', data: { data: { id, ...product }, actor_id: one.adminId } })
})

t.test('a commit reaches a stream of the same process without waiting for a poll', async (t) => {
  const { admin, base } = await testApp(t)
  const stream = await openStream(t, base, { headers, path: '/events?type=products.*' })
  await waitUntil(() => stream.getCursor() !== '')
  const delays: number[] = []
  for (let i = 1; i <= 10; i += 1) {
    await admin.post('/products', { sku: `TEA-${i}`, name: 'Tea', price_amount: 5 })
    const committed = performance.now()
    await stream.waitForEvents(i)
    delays.push(performance.now() - committed)
  }
  // A poll runs every 500 ms. The fastest of ten, since other processes may keep the machine busy.
  t.ok(Math.min(...delays) < 100, `${delays.map(Math.round)} ms`)
})

t.test('on the wire, an event is its cursor, its type and one line of JSON', async (t) => {
  const { admin, base } = await testApp(t)
  const aborter = new AbortController()
  const reply = await fetch(`${base}/events?type=products.*`, {
    headers: { ...headers, accept: 'text/event-stream' },
    signal: aborter.signal,
  })
  const product = { sku: 'TEA-1', name: 'Tea', description: 'First\nsecond', price_amount: 5 }
  await admin.post('/products', product)
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
  t.match(next.body, { data: [], pagination: { has_more: false } }, 'the id is the cursor of a list')
  const inUrl = await fetch(`${base}/events?api_key=${ADMIN_KEY}`, {
    headers: { accept: 'text/event-stream' },
  })
  t.not(inUrl.status, 200, 'credentials come in headers')
  await inUrl.text()
})

t.test('a shutdown ends the streams in an orderly way', async (t) => {
  const { app, base } = await testApp(t)
  const stream = await openStream(t, base, { headers })
  await app.close()
  await stream.waitForEnd()
  t.pass()
})

t.test('a user has five streams, and a process as many as EVENT_STREAMS', async (t) => {
  const { app, admin, base, person } = await testApp(t, { EVENT_STREAMS: '7', USER_CONCURRENCY: '1' })
  const streams = []
  for (let i = 0; i < 5; i += 1) streams.push(await openStream(t, base, { headers }))
  const sixth = await openStream(t, base, { headers })
  t.equal(sixth.status, 429)
  t.equal(sixth.body.error.code, 'RATE_LIMIT_EXCEEDED')
  t.match(sixth.headers.get('retry-after'), /^\d+$/)
  t.equal((await admin.get('/events')).status, 200, 'streams do not count as requests at work')

  const others = [await person('member'), await person('member'), await person('member')]
  const statuses = []
  for (const { key } of others) {
    const { status } = await openStream(t, base, { headers: { 'x-api-key': key } })
    statuses.push(status)
  }
  t.same(statuses, [200, 200, 503])
  streams[0]?.close()
  await waitUntil(() => app.events.streams.size === 6)
  t.equal((await openStream(t, base, { headers })).status, 200)
})

t.test('a client that does not read is disconnected, and delays no other', async (t) => {
  const { app, base, database, port } = await testApp(t)
  // That of the first admin.
  await app.events.assignAll()
  const socket = connect(port, '127.0.0.1')
  socket.write(
    `GET /events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nX-API-Key: ${ADMIN_KEY}\r\n\r\n`,
  )
  // Reads nothing: without a listener, the socket stays paused.
  t.teardown(() => socket.destroy())
  const reader = await openStream(t, base, { headers })
  await waitUntil(() => app.events.streams.size === 2)
  const body = 'x'.repeat(100_000)
  let count = 0
  await waitUntil(async () => {
    for (let i = 0; i < 5; i += 1) {
      await insertEvent(database, { type: 'posts.created', columns: { title: 'T', body } })
    }
    count += 5
    await app.events.assignAll()
    await reader.waitForEvents(count)
    return app.events.streams.size === 1
  })
  t.equal(reader.events.length, count)
})

t.test('a stream that a client reads slowly gets all earlier events', async (t) => {
  const { app, admin, base, database } = await testApp(t)
  // That of the first admin.
  await app.events.assignAll()
  const { cursor } = await readFeed(admin)
  const body = 'x'.repeat(100_000)
  for (let i = 0; i < 40; i += 1) {
    await insertEvent(database, { type: 'posts.created', columns: { title: 'T', body } })
  }
  await app.events.assignAll()
  const stream = await openStream(t, base, { headers, cursor })
  await stream.waitForEvents(40)
  t.equal(stream.events.length, 40)
})

t.test('a stream outlasts the deadline of answers', async (t) => {
  const timeouts = { responseTimeoutMs: 1_000, readTimeoutMs: 1_000 }
  const { app, base, database } = await testApp(t, {}, { timeouts })
  const stream = await openStream(t, base, { headers })
  await waitUntil(() => stream.getCursor() !== '')
  await stream.waitForComment()
  await insertEvent(database)
  app.feed?.wake()
  await stream.waitForEvents(1)
  t.pass()
})

t.test('an access token that expires ends the stream', async (t) => {
  const { app, base, person } = await testApp(t, { ACCESS_TOKEN_TTL: '1' })
  const { id, sessionId } = await person('member')
  const token = app.accessTokens.issue({ userId: id, role: 'member', sessionId }).text
  const stream = await openStream(t, base, { headers: { authorization: `Bearer ${token}` } })
  t.equal(stream.status, 200)
  await stream.waitForEnd()
  t.equal((await createClient(base, { authorization: `Bearer ${token}` }).get('/events')).status, 401)
})
