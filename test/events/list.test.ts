/** `GET /events` and `GET /events/{id}`: order, cursors, filters, representations and conditional requests. */
import t from 'tap'
import { ADMIN_KEY, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { openStream } from '../helpers/event-streams.ts'
import {
  clearFeed,
  getEvents,
  getPlaces,
  insertEvent,
  insertOwnedEvent,
  insertPlacedEvent,
  readFeed,
  removeEvents,
} from '../helpers/events.ts'

const PRODUCT = '0193a5b0-7b1e-7c3a-9f00-000000000001'

t.test(
  'an event has its place, its resource in the version of the reader, and the former values',
  async (t) => {
    const test = await testApp(t)
    const { admin, adminId } = test
    const removed = await clearFeed(test)
    const id = await insertPlacedEvent(test, {
      type: 'products.updated',
      resource_id: PRODUCT,
      revision: 2,
      previous: { stock: 9, updated_at: '2026-11-22T21:59:37.123456+00:00' },
      actor_id: adminId,
      credential: 'token',
      request_id: 'request-1',
    })
    const first = await admin.get(`/events/${id}`)
    const data = {
      id: PRODUCT,
      sku: 'TEA-1',
      name: 'Tea',
      description: null,
      price_amount: 1999,
      currency: 'USD',
      stock: 8,
      status: 'active',
      created_at: '2026-11-22T21:59:37.123Z',
      updated_at: '2026-11-22T21:59:38.500Z',
    }
    const event = {
      position: removed + 1,
      type: 'products.updated',
      resource_type: 'products',
      resource_id: PRODUCT,
      revision: 2,
      data,
      previous: { stock: 9 },
      actor_id: adminId,
      credential: 'token',
      credential_id: null,
      request_id: 'request-1',
    }
    const { created_at, ...rest } = first.body.data
    t.same(rest, { id, ...event })
    t.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

    const second = await admin.get(`/v2/events/${id}`)
    const { id: _, ...attributes } = data
    t.same(second.body.data, {
      id,
      type: 'events',
      attributes: { ...event, data: { id: PRODUCT, type: 'products', attributes }, created_at },
    })

    const list = await admin.get('/events')
    t.same(getEvents(list)[0], first.body.data)
    t.equal(list.headers.get('cache-control'), 'private, no-cache')
    t.match(list.headers.get('link'), /rel="first"/)
    const narrow = await admin.get(`/events/${id}?fields=type,previous`)
    t.same(narrow.body.data, { id, type: 'products.updated', previous: { stock: 9 } })
  },
)

t.test(
  'the feed is read in both orders, and its cursor is never null in that of the positions',
  async (t) => {
    const test = await testApp(t)
    const { app, admin, database } = test
    const removed = await clearFeed(test)
    const empty = await admin.get('/events?sort=position')
    t.same(empty.body.data, [])
    t.equal(empty.body.pagination.has_more, false)
    t.type(empty.body.pagination.cursor, 'string')
    t.notMatch(empty.headers.get('link'), /rel="next"/)

    for (let i = 0; i < 5; i += 1) await insertEvent(database)
    await app.events.assignAll()
    const followed = await readFeed(admin, '&limit=2', empty.body.pagination.cursor)
    t.same(getPlaces(followed.events, removed), [1, 2, 3, 4, 5])
    await insertEvent(database)
    await app.events.assignAll()
    const more = await readFeed(admin, '', followed.cursor)
    t.same(getPlaces(more.events, removed), [6])

    const newest = await admin.get('/events?limit=4')
    t.same(getPlaces(getEvents(newest), removed), [6, 5, 4, 3])
    const oldest = await admin.get(`/events?limit=4&cursor=${newest.body.pagination.cursor}`)
    t.same(getPlaces(getEvents(oldest), removed), [2, 1])
    t.same(oldest.body.pagination, { cursor: null, has_more: false })
    const otherList = await admin.get(`/events?sort=position&cursor=${newest.body.pagination.cursor}`)
    t.equal(otherList.status, 400)
    t.equal(otherList.body.error.code, 'INVALID_CURSOR')
  },
)

t.test('filters select events by type, resource, actor and time', async (t) => {
  const test = await testApp(t)
  const { app, admin, database, adminId } = test
  const removed = await clearFeed(test)
  await insertEvent(database, {
    type: 'products.created',
    resource_id: PRODUCT,
    created_at: '2026-01-01T00:00:00Z',
  })
  await insertEvent(database, {
    type: 'products.updated',
    resource_id: PRODUCT,
    created_at: '2026-01-02T00:00:00Z',
  })
  await insertEvent(database, {
    type: 'products.deleted',
    actor_id: adminId,
    created_at: '2026-01-03T00:00:00Z',
  })
  await insertOwnedEvent(database, 'orders', adminId, { items: [], status: 'pending' })
  await app.events.assignAll()
  const find = async (query: string) => {
    const page = await admin.get(`/events?sort=position&${query}`)
    return page.status === 200 ? getPlaces(getEvents(page), removed) : page.body.error.details
  }
  t.same(await find('type=products.created'), [1])
  t.same(await find('type=products.*'), [1, 2, 3])
  t.same(await find('type=products.deleted,orders.*'), [3, 4])
  t.same(await find('type=products.deleted,orders.created'), [3, 4])
  t.same(await find('resource_type=orders'), [4])
  t.same(await find('resource_type=orders,products'), [1, 2, 3, 4])
  t.same(await find(`resource_id=${PRODUCT.toUpperCase()}`), [1, 2])
  t.same(await find(`actor_id=${adminId}`), [3])
  t.same(await find('created_after=2026-01-02&created_before=2026-01-03'), [2])
  t.match(await find('type=products.renamed'), [{ field: 'type', code: 'INVALID_VALUE' }])
  t.match(await find('type=teapots.*'), [{ field: 'type', code: 'INVALID_VALUE' }])
  t.match(await find('type=*'), [{ field: 'type', code: 'INVALID_VALUE' }])
  t.match(await find('page=1'), [{ field: 'page', code: 'UNKNOWN_PARAMETER' }])
  t.match(await find('include=actor'), [{ field: 'include', code: 'UNKNOWN_PARAMETER' }])

  const rare = await admin.get('/events?sort=position&type=orders.deleted')
  t.equal(rare.body.data.length, 0)
  await insertOwnedEvent(database, 'orders', adminId, { items: [], status: 'pending' })
  await app.events.assignAll()
  t.equal(await removeEvents(database, removed + 4), removed + 4)
  const next = await admin.get(
    `/events?sort=position&type=orders.deleted&cursor=${rare.body.pagination.cursor}`,
  )
  t.equal(next.status, 200, 'a consumer of rare types is not behind the removed events')
})

t.test('conditional requests and HEAD work as for other resources', async (t) => {
  const test = await testApp(t)
  const { admin } = test
  await clearFeed(test)
  const id = await insertPlacedEvent(test)
  for (const path of ['/events', `/events/${id}`, '/v2/events?sort=position']) {
    const whole = await admin.get(path)
    const etag = whole.headers.get('etag') ?? ''
    t.not(etag, '')
    const unchanged = await admin.get(path, { 'if-none-match': etag })
    t.equal(unchanged.status, 304)
    t.equal(unchanged.headers.get('etag'), etag)
    const head = await admin.call('HEAD', path)
    t.equal(head.status, 200)
    t.equal(head.headers.get('etag'), etag)
    t.equal(head.text, '')
  }
  const lastModified = (await admin.get(`/events/${id}`)).headers.get('last-modified') ?? ''
  // The second after: the date of its own second is no validator before that second is over.
  const since = new Date(Date.parse(lastModified) + 1000).toUTCString()
  const unmodified = await admin.get(`/events/${id}`, { 'if-modified-since': since })
  t.equal(unmodified.status, 304)
  t.equal((await admin.get(`/events/${UNKNOWN_ID}`)).status, 404)
  t.equal((await admin.get('/events/teapot')).status, 404)
  t.equal((await admin.post('/events', {})).status, 405)
  t.equal((await admin.delete(`/events/${id}`)).status, 405)
})

t.test('a page of large events is cut, and its cursor follows the last event', async (t) => {
  const test = await testApp(t)
  const { app, admin, database } = test
  const removed = await clearFeed(test)
  const post = { user_id: UNKNOWN_ID, title: 'T', status: 'published', published_at: null }
  for (let i = 0; i < 30; i += 1) {
    await insertEvent(database, {
      type: 'posts.created',
      owner_id: UNKNOWN_ID,
      columns: { ...post, body: '€'.repeat(100_000) },
    })
  }
  await app.events.assignAll()
  const page = await admin.get('/events?sort=position&limit=30')
  t.equal(page.status, 200)
  t.ok(getEvents(page).length < 30)
  t.ok(getEvents(page).length > 20)
  t.equal(page.body.pagination.has_more, true)
  const { events } = await readFeed(admin, '&limit=30')
  t.same(
    getPlaces(events, removed),
    Array.from({ length: 30 }, (_, i) => i + 1),
  )
})

t.test('a cursor after which events were removed, or that is ahead of the feed, is 410', async (t) => {
  const test = await testApp(t)
  const { app, admin, database } = test
  const removed = await clearFeed(test)
  for (let i = 0; i < 4; i += 1) await insertEvent(database)
  await app.events.assignAll()
  const early = await admin.get('/events?sort=position&limit=1')
  const late = await admin.get('/events?sort=position&limit=2')
  const filters = ['type=products.*', 'resource_type=products', 'created_after=2026-01-01']
  const filtered: [string, string][] = []
  for (const filter of filters) {
    const page = await admin.get(`/events?sort=position&limit=1&${filter}`)
    filtered.push([filter, page.body.pagination.cursor])
  }
  await removeEvents(database, removed + 2)
  const expired = await admin.get(`/events?sort=position&cursor=${early.body.pagination.cursor}`)
  t.equal(expired.status, 410)
  t.equal(expired.body.error.code, 'EVENTS_EXPIRED')
  for (const [filter, cursor] of filtered) {
    const { status, body } = await admin.get(`/events?sort=position&${filter}&cursor=${cursor}`)
    t.strictSame([status, body.error?.code], [410, 'EVENTS_EXPIRED'], filter)
  }
  const current = await admin.get(`/events?sort=position&cursor=${late.body.pagination.cursor}`)
  t.same(getPlaces(getEvents(current), removed), [3, 4])
  const { cursor } = await readFeed(admin)
  await database.run('delete from events where position > $1', [removed + 3])
  await database.run('update event_feed set last_position = $1', [removed + 3])
  const ahead = await admin.get(`/v2/events?sort=position&cursor=${cursor}`)
  t.equal(ahead.status, 410)
  t.equal(ahead.body.error.code, 'EVENTS_EXPIRED')
})

t.test('a cursor at the last event that retention has removed goes on, in lists and streams', async (t) => {
  const test = await testApp(t, { EVENTS_RETENTION_DAYS: '7' })
  const { app, admin, base, database } = test
  await insertPlacedEvent(test, { created_at: '2026-01-01' })
  await database.run(`update events set created_at = '2026-01-01'`)
  const { cursor } = await readFeed(admin)
  for (const isLast of [true, false]) {
    t.equal(await app.events.removeOld(), isLast ? 2 : 0)
    const id = await insertPlacedEvent(test)
    const { events } = await readFeed(admin, '', cursor)
    t.equal(events.at(-1)?.id, id)
    const stream = await openStream(t, base, { headers: { 'x-api-key': ADMIN_KEY }, cursor })
    const streamed = await stream.waitForEvents(events.length)
    t.equal(streamed.at(-1)?.data.id, id)
  }
})

t.test('without EVENTS, the routes do not exist', async (t) => {
  const { app, admin } = await testApp(t, { EVENTS: 'false' })
  t.equal((await admin.get('/events')).status, 404)
  t.equal((await admin.get(`/events/${UNKNOWN_ID}`)).status, 404)
  t.equal((await admin.get('/products', { accept: 'text/event-stream' })).status, 406)
  t.equal(app.feed, undefined)
})
