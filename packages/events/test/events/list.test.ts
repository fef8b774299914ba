/** `GET /events` and `GET /events/{id}`: order, cursors, filters, representations and conditional requests. */
import t from 'tap'
import { ADMIN_KEY, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import {
  clearFeed,
  getEvents,
  getPlaces,
  insertEvent,
  insertLargeEvents,
  insertOwnedEvent,
  insertPlacedEvent,
  openStream,
  readFeed,
  removeEvents,
} from '../../../testing/helpers/events.ts'

const PRODUCT = '0193a5b0-7b1e-7c3a-9f00-000000000001'

const test = await testApp(t, { EVENTS_RETENTION_DAYS: '7' })
const { app, admin, adminId, base, database } = test

const getPage = (query = '', limit = 100) => admin.get(`/events?sort=position&limit=${limit}${query}`)
const EXPIRED = { status: 410, body: { error: { code: 'EVENTS_EXPIRED' } } }

t.test('an event has its place, its resource as the version represents it, and former values', async (t) => {
  const removed = await clearFeed(test)
  const id = await insertPlacedEvent(test, {
    ...{ type: 'products.updated', resource_id: PRODUCT, revision: 2 },
    previous: { stock: 9, updated_at: '2026-11-22T21:59:37.123456+00:00' },
    ...{ actor_id: adminId, credential: 'token', request_id: 'request-1' },
  })
  const first = await admin.get(`/events/${id}`)
  const attributes = {
    ...{ sku: 'TEA-1', name: 'Tea', description: null, price_amount: 1999, currency: 'USD' },
    ...{ stock: 8, status: 'active' },
    ...{ created_at: '2026-11-22T21:59:37.123Z', updated_at: '2026-11-22T21:59:38.500Z' },
  }
  const event = {
    ...{ position: removed + 1, type: 'products.updated', resource_type: 'products' },
    ...{ resource_id: PRODUCT, revision: 2, previous: { stock: 9 } },
    ...{ actor_id: adminId, credential: 'token', credential_id: null, request_id: 'request-1' },
  }
  const { created_at, ...rest } = first.body.data
  t.same(rest, { id, ...event, data: { id: PRODUCT, ...attributes } })
  t.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  t.same((await admin.get(`/v2/events/${id}`)).body.data, {
    id,
    type: 'events',
    attributes: { ...event, data: { id: PRODUCT, type: 'products', attributes }, created_at },
  })
  const list = await admin.get('/events')
  t.same(getEvents(list), [first.body.data])
  t.equal(list.headers.get('cache-control'), 'private, no-cache')
  t.match(list.headers.get('link'), /rel="first"/)
  const narrow = await admin.get(`/events/${id}?fields=type,previous`)
  t.same(narrow.body.data, { id, type: 'products.updated', previous: { stock: 9 } })
})

t.test('the feed is read in both orders, and by positions its cursor is never null', async (t) => {
  const removed = await clearFeed(test)
  const empty = await getPage()
  t.same(empty.body.data, [])
  t.match(empty.body.pagination, { has_more: false, cursor: String })
  t.notMatch(empty.headers.get('link'), /rel="next"/)
  const add = async (count: number) => {
    for (let i = 0; i < count; i += 1) await insertEvent(database)
    await app.events.assignAll()
  }
  await add(5)
  const followed = await readFeed(admin, '&limit=2', empty.body.pagination.cursor)
  t.same(getPlaces(followed.events, removed), [1, 2, 3, 4, 5])
  await add(1)
  t.same(getPlaces((await readFeed(admin, '', followed.cursor)).events, removed), [6])
  const newest = await admin.get('/events?limit=4')
  t.same(getPlaces(getEvents(newest), removed), [6, 5, 4, 3])
  const { cursor } = newest.body.pagination
  const oldest = await admin.get(`/events?limit=4&cursor=${cursor}`)
  t.same(getPlaces(getEvents(oldest), removed), [2, 1])
  t.same(oldest.body.pagination, { cursor: null, has_more: false })
  t.match(await getPage(`&cursor=${cursor}`), { status: 400, body: { error: { code: 'INVALID_CURSOR' } } })
})

t.test('filters select events by type, resource, actor and time', async (t) => {
  const removed = await clearFeed(test)
  const addOrder = () => insertOwnedEvent(database, 'orders', adminId, { items: [], status: 'pending' })
  for (const values of [
    { type: 'products.created', resource_id: PRODUCT, created_at: '2026-01-01T00:00:00Z' },
    { type: 'products.updated', resource_id: PRODUCT, created_at: '2026-01-02T00:00:00Z' },
    { type: 'products.deleted', actor_id: adminId, created_at: '2026-01-03T00:00:00Z' },
  ])
    await insertEvent(database, values)
  await addOrder()
  await app.events.assignAll()
  for (const [query, expected] of [
    ['type=products.created', [1]],
    ['type=products.*', [1, 2, 3]],
    ['type=products.deleted,orders.*', [3, 4]],
    ['type=products.deleted,orders.created', [3, 4]],
    ['resource_type=orders', [4]],
    ['resource_type=orders,products', [1, 2, 3, 4]],
    [`resource_id=${PRODUCT.toUpperCase()}`, [1, 2]],
    [`actor_id=${adminId}`, [3]],
    ['created_after=2026-01-02&created_before=2026-01-03', [2]],
  ] as const)
    t.same(getPlaces(getEvents(await getPage(`&${query}`)), removed), expected, query)
  for (const [query, code] of [
    ['type=products.renamed', 'INVALID_VALUE'],
    ['type=teapots.*', 'INVALID_VALUE'],
    ['type=*', 'INVALID_VALUE'],
    ['page=1', 'UNKNOWN_PARAMETER'],
    ['include=actor', 'UNKNOWN_PARAMETER'],
  ] as const) {
    const { body } = await getPage(`&${query}`)
    t.match(body.error.details, [{ field: query.split('=')[0], code }], query)
  }
  const rare = await getPage('&type=orders.deleted')
  t.same(rare.body.data, [])
  await addOrder()
  await app.events.assignAll()
  await removeEvents(database, removed + 4)
  const next = await getPage(`&type=orders.deleted&cursor=${rare.body.pagination.cursor}`)
  t.equal(next.status, 200, 'a consumer of rare types is not behind the removed events')
})

t.test('conditional requests and HEAD work as for other resources', async (t) => {
  const id = await insertPlacedEvent(test)
  for (const path of ['/events', `/events/${id}`, '/v2/events?sort=position']) {
    const etag = (await admin.get(path)).headers.get('etag') ?? ''
    t.not(etag, '')
    const kept = await admin.get(path, { 'if-none-match': etag })
    t.same([kept.status, kept.headers.get('etag'), kept.text], [304, etag, ''])
    const head = await admin.call('HEAD', path)
    t.same([head.status, head.headers.get('etag'), head.text], [200, etag, ''])
  }
  const lastModified = (await admin.get(`/events/${id}`)).headers.get('last-modified') ?? ''
  // The second after: the date of its own second is no validator before that second is over.
  const since = new Date(Date.parse(lastModified) + 1000).toUTCString()
  t.equal((await admin.get(`/events/${id}`, { 'if-modified-since': since })).status, 304)
  for (const [method, path, expected] of [
    ['GET', `/events/${UNKNOWN_ID}`, 404],
    ['GET', '/events/teapot', 404],
    ['POST', '/events', 405],
    ['DELETE', `/events/${id}`, 405],
  ] as const)
    t.equal((await admin.call(method, path)).status, expected, `${method} ${path}`)
})

t.test('a page of large events is cut, and its cursor follows the last event', async (t) => {
  const removed = await clearFeed(test)
  await insertLargeEvents(database, 10)
  await app.events.assignAll()
  const page = await getPage()
  t.same([page.body.data.length, page.body.pagination.has_more], [9, true])
  const { events } = await readFeed(admin, '&limit=30')
  t.same(getPlaces(events, removed), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
})

t.test('a cursor after which events were removed, or that is ahead of the feed, is 410', async (t) => {
  const removed = await clearFeed(test)
  for (let i = 0; i < 4; i += 1) await insertEvent(database)
  await app.events.assignAll()
  const getCursor = async (query: string, limit: number): Promise<string> =>
    (await getPage(query, limit)).body.pagination.cursor
  const late = await getCursor('', 2)
  const early: string[] = []
  for (const filter of ['', '&type=products.*', '&resource_type=products', '&created_after=2026-01-01'])
    early.push(`${filter}&cursor=${await getCursor(filter, 1)}`)
  await removeEvents(database, removed + 2)
  for (const query of early) t.match(await getPage(query), EXPIRED, query)
  const rest = await getPage(`&cursor=${late}`)
  t.same(getPlaces(getEvents(rest), removed), [3, 4])
  const { cursor } = rest.body.pagination
  await database.run('delete from events where position > $1', [removed + 3])
  await database.run('update event_feed set last_position = $1', [removed + 3])
  t.match(await admin.get(`/v2/events?sort=position&cursor=${cursor}`), EXPIRED)
})

t.test('a cursor at the last event that retention has removed goes on, in lists and streams', async (t) => {
  await insertPlacedEvent(test, { created_at: '2026-01-01' })
  await database.run(`update events set created_at = '2026-01-01'`)
  const { cursor } = await readFeed(admin)
  t.ok((await app.events.removeOld()) > 0)
  for (const count of [1, 2]) {
    const id = await insertPlacedEvent(test)
    const { events } = await readFeed(admin, '', cursor)
    t.equal(events.at(-1)?.id, id)
    const stream = await openStream(t, { base }, { headers: { 'x-api-key': ADMIN_KEY }, cursor })
    t.equal((await stream.waitForEvents(count)).at(-1)?.data.id, id)
    t.equal(await app.events.removeOld(), 0)
  }
})
