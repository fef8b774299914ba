/** Webhook endpoints: who may have them, their fields, and their secrets. */
import t from 'tap'
import type { Database } from '../../../database/src/client/index.ts'
import { type Client, type Json, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { readChanges } from '../../../testing/helpers/events.ts'
import { versions } from '../../../testing/helpers/shop.ts'
import { intercept } from '../../../testing/helpers/statements.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { createEndpoint } from '../../../testing/helpers/webhooks.ts'

/** Counts the statements of the feed, of deliveries and of replays. */
function countStatements(opened: Database) {
  let count = 0
  const database = intercept(opened, (text) => {
    // The worker looks for rows of all kinds by one statement, which names endpoints.
    if (/outbox|event_feed|webhook_/.test(text) && !text.includes('due_in_ms')) count += 1
  })
  return { database, getCount: () => count }
}

const running = countStatements(await testDatabase(t))
const api = await testApp(t, {}, { database: running.database })
const manager = await api.person('manager')
const other = await api.person('manager')

const VALID = { url: 'https://example.com/hook', event_types: ['products.*'] }

const create = (client: Client, body: object = {}) => createEndpoint(client, VALID.url, body)
const kept = await create(manager.bearer)

const readRow = async (id: string) => {
  const [row] = await api.database.run('select * from webhook_endpoints where id = $1', [id])
  return row ?? {}
}

t.test('an endpoint has defaults, and its secret is in the response to the creation alone', async (t) => {
  const headers = { 'idempotency-key': 'endpoint-1' }
  const reply = await manager.bearer.post('/webhook-endpoints', VALID, headers)
  t.equal(reply.status, 201)
  const { id, secret, created_at: _, updated_at: __, ...fields } = reply.body.data
  t.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
  t.strictSame(fields, {
    ...VALID,
    user_id: manager.id,
    description: null,
    api_version: 1,
    status: 'enabled',
    disabled_reason: null,
    failing_since: null,
    last_delivered_at: null,
  })
  const replayed = await manager.bearer.post('/webhook-endpoints', VALID, headers)
  t.equal(replayed.headers.get('idempotency-replayed'), 'true')
  const read = await manager.bearer.get(`/webhook-endpoints/${id}`)
  const changed = await manager.bearer.patch(`/webhook-endpoints/${id}`, { description: 'x' })
  for (const { body } of [replayed, read, changed]) t.match(body.data, { id, secret: null })
  const listed = await manager.bearer.get('/webhook-endpoints')
  t.ok(listed.body.data.every((each: Json) => each.secret === null))
  const row = await readRow(id)
  t.match(row.secret_box, /^v1\.[0-9a-f]{8}\./)
  t.notOk(JSON.stringify(row).includes(secret.slice('whsec_'.length)), 'it is stored encrypted')
})

t.test('managers have their own endpoints, admins see all, members and API keys have none', async (t) => {
  const { id } = await create(manager.bearer)
  const member = await api.person('member')
  const path = `/webhook-endpoints/${id}`
  for (const [client, method, address, body] of [
    [member.bearer, 'GET', '/webhook-endpoints'],
    [member.bearer, 'POST', '/webhook-endpoints', VALID],
    [manager.client, 'GET', '/webhook-endpoints'],
    [manager.client, 'GET', `${path}/deliveries`],
    [other.bearer, 'GET', path],
    [other.bearer, 'PATCH', path, { description: 'x' }],
    [other.bearer, 'POST', `${path}/secrets`, {}],
  ] as const)
    t.equal((await client.call(method, address, { body })).status, 403, `${method} ${address}`)
  t.strictSame((await other.bearer.get('/webhook-endpoints')).body.data, [])
  t.equal((await api.admin.get(path)).status, 200, 'the key of the bootstrap admin')
  t.equal((await api.admin.delete(path)).status, 204)
})

const COLLECTIONS = 'users user-profiles products orders sessions api-keys webhook-endpoints'.split(' ')
const TYPES = COLLECTIONS.flatMap((name) => ['*', 'created', 'updated'].map((kind) => `${name}.${kind}`))

const MANY = Array.from({ length: 51 }, (_, i) => TYPES[i % TYPES.length])
const LONG = `https://example.com/${'x'.repeat(2_048)}`
const REFUSED: Readonly<Record<string, readonly unknown[]>> = {
  // addresses.test.ts has all URLs.
  url: ['ftp://example.com', 'https://user:secret@example.com/', 'https://10.0.0.1/', LONG],
  // Deliveries have no events.
  event_types: [[], ['posts'], ['unknown.*'], ['deliveries.created'], ['*', '*'], MANY],
  description: ['x'.repeat(501)],
  status: ['paused'],
  api_version: [3, '1'],
  user_id: [other.id],
  ...{ secret: ['x'], disabled_reason: ['x'], failing_since: [null], last_delivered_at: [null] },
}

t.test('fields of endpoints have limits, in creations and changes', async (t) => {
  for (const [field, values] of Object.entries(REFUSED))
    for (const value of values)
      for (const reply of [
        await manager.bearer.post('/webhook-endpoints', { ...VALID, [field]: value }),
        await manager.bearer.patch(`/webhook-endpoints/${kept.id}`, { [field]: value }),
      ]) {
        t.equal(reply.status, 422, `${field}: ${value}`)
        t.match(reply.body.error.details[0].field, new RegExp(`^${field}`))
      }
})

t.test('an endpoint has up to 50 types and 500 characters of description', async (t) => {
  const fields = { event_types: TYPES, description: 'x'.repeat(500), api_version: 2, status: 'disabled' }
  t.match(await create(manager.bearer, fields), { ...fields, disabled_reason: null })
  t.strictSame((await create(manager.bearer, { event_types: ['*'] })).event_types, ['*'])
  const missing = await manager.bearer.post('/webhook-endpoints', {})
  t.strictSame(missing.body.error.details.map(({ field }: Json) => field).sort(), ['event_types', 'url'])
})

t.test('a version that is retired is refused, and its endpoints can be changed otherwise', async (t) => {
  const [first, second] = versions
  if (!first || !second) throw new Error('there are two versions')
  const sunset = new Date(Date.now() + 3_600_000)
  const deprecated = { since: new Date(0), sunset, successor: 2 }
  const settings = { DEFAULT_API_VERSION: '2' }
  const { admin } = await testApp(t, settings, { versions: [{ ...first, deprecated }, second] })
  const post = (body: object) => admin.post('/v2/webhook-endpoints', { ...VALID, ...body })
  const { id } = (await post({ api_version: 1 })).body.data
  sunset.setTime(0)
  const refused = await post({ api_version: 1 })
  t.equal(refused.status, 422)
  t.match(refused.body.error.errors, [{ field: 'api_version', code: 'INVALID_VALUE' }])
  const { status, body } = await post({})
  t.match([status, body.data.attributes.api_version], [201, 2], 'the default is the default version')
  t.equal((await admin.patch(`/v2/webhook-endpoints/${id}`, { description: 'x' })).status, 200)
})

t.test('a user has at most 100 endpoints', async (t) => {
  const owner = await api.person('manager')
  await api.database.run(
    `insert into webhook_endpoints (id, user_id, url, event_types, api_version, secret_box)
     select gen_random_uuid(), $1, 'https://example.com', '["*"]', 1, 'x' from generate_series(1, 99)`,
    [owner.id],
  )
  const replies = await Promise.all([1, 2].map(() => owner.bearer.post('/webhook-endpoints', VALID)))
  t.strictSame(replies.map(({ status }) => status).sort(), [201, 409])
})

t.test('a rotation shows the new secret once, keeps the former one for 24 h, and is an event', async (t) => {
  const { id, secret } = await create(manager.bearer)
  const path = `/webhook-endpoints/${id}/secrets`
  const headers = { 'idempotency-key': 'rotation-1' }
  const before = await readRow(id)
  const empty = await manager.bearer.call('POST', path, { headers })
  t.match([empty.status, empty.body.data], [201, { id, secret: /^whsec_/ }])
  t.not(empty.body.data.secret, secret)
  t.equal(empty.headers.get('location'), `/webhook-endpoints/${id}`)
  const after = await readRow(id)
  t.equal(after.previous_secret_box, before.secret_box)
  const lasts = Date.parse(String(after.previous_secret_expires_at)) - Date.now()
  t.ok(lasts > 86_000_000 && lasts <= 86_400_000)
  const replayed = await manager.bearer.post(path, {}, headers)
  t.match([replayed.status, replayed.body.data.secret], [201, null])
  t.equal(replayed.headers.get('idempotency-replayed'), 'true')
  t.strictSame(await readRow(id), after)

  const second = await manager.bearer.post(path, {})
  t.equal(second.status, 201)
  t.equal((await readRow(id)).previous_secret_box, after.secret_box)
  const read = await manager.bearer.get(`/webhook-endpoints/${id}`)
  t.equal(read.headers.get('etag'), second.headers.get('etag'))
  const events = await readChanges(api.database, id)
  t.same(
    events.map(({ type, previous }) => ({ type, previous })),
    [
      { type: 'webhook-endpoints.created', previous: null },
      { type: 'webhook-endpoints.updated', previous: {} },
      { type: 'webhook-endpoints.updated', previous: {} },
    ],
  )
  t.notMatch(JSON.stringify(events), /secret|whsec_/)
})

t.test('a rotation honors preconditions: one with a stale tag is 412 and changes nothing', async (t) => {
  const { id } = await create(manager.bearer)
  const path = `/webhook-endpoints/${id}`
  const tag = (await manager.bearer.get(path)).headers.get('etag') ?? ''
  const rotate = (headers: Record<string, string>) => manager.bearer.post(`${path}/secrets`, {}, headers)
  const first = await rotate({ 'if-match': tag })
  t.equal(first.status, 201)
  const { secret_box: box } = await readRow(id)
  for (const headers of [
    { 'if-match': tag },
    { 'if-match': tag, 'idempotency-key': 'rotation-2' },
    { 'if-none-match': '*' },
    { 'if-unmodified-since': 'Sat, 21 Nov 2020 09:30:00 GMT' },
  ] as Record<string, string>[]) {
    const reply = await rotate(headers)
    t.same(
      [reply.status, reply.headers.get('etag')],
      [412, first.headers.get('etag')],
      JSON.stringify(headers),
    )
  }
  t.equal((await readRow(id)).secret_box, box)
})

t.test('a rotation refuses fields, parameters and unknown endpoints', async (t) => {
  const path = `/webhook-endpoints/${kept.id}/secrets`
  for (const [address, body, expected] of [
    [path, { secret: 'x' }, 422],
    [path, [], 400],
    [`${path}?a=1`, {}, 400],
    [`/webhook-endpoints/${UNKNOWN_ID}/secrets`, {}, 404],
  ] as const)
    t.equal((await manager.bearer.post(address, body)).status, expected)
  t.equal((await manager.bearer.get(path)).status, 405)
})

t.test('without events there are no routes of theirs, no rows, and no background work', async (t) => {
  const counted = countStatements(await testDatabase(t))
  const without = await testApp(t, { EVENTS: 'false' }, { database: counted.database })
  t.equal(counted.getCount(), 1, 'one at the start, which ends the cursors')
  const start = running.getCount()
  const path = `/webhook-endpoints/${UNKNOWN_ID}`
  for (const [method, address] of [
    ['GET', '/events'],
    ['GET', `/events/${UNKNOWN_ID}`],
    ['GET', '/webhook-endpoints'],
    ['POST', '/webhook-endpoints'],
    ['PATCH', path],
    ['POST', `${path}/secrets`],
    ['GET', `${path}/deliveries`],
    ['GET', `${path}/replays`],
  ] as const)
    for (const version of ['', '/v1', '/v2'])
      t.equal((await without.admin.call(method, `${version}${address}`)).status, 404, `${method} ${address}`)
  t.equal((await without.admin.get('/products', { accept: 'text/event-stream' })).status, 406)
  t.equal(without.app.feed, undefined)
  const product = { sku: 'TEA', name: 'Tea', price_amount: 500 }
  const { id } = (await without.admin.post('/products', product)).body.data
  await without.admin.patch(`/products/${id}`, { stock: 4 })
  await without.admin.delete(`/products/${id}`)
  for (const version of [1, 2]) {
    const { body } = await without.anybody.get(`/openapi/v${version}.json`)
    t.notMatch(Object.keys({ ...body.webhooks, ...body.paths }).join(), /webhook|events|updated/)
  }
  const refused = await without.admin.post('/api-keys', { name: 'Feed', scopes: ['events:read'] })
  t.equal(refused.status, 422, 'nor a scope of theirs')
  // Several rounds of the feed and of the dispatcher, in the same time.
  await waitUntil(() => running.getCount() >= start + 6)
  t.equal(counted.getCount(), 1, 'no change was recorded, and no work looked for')
  t.strictSame(await readChanges(counted.database), [])
})

t.test('in production http is refused', async (t) => {
  const production = await testApp(t, { NODE_ENV: 'production', INSECURE_HTTP: 'true' })
  const post = (url: string) => production.admin.post('/webhook-endpoints', { ...VALID, url })
  t.equal((await post('http://example.com/')).status, 422)
  t.equal((await post('https://127.0.0.1/')).status, 422)
  t.equal((await post('https://example.com/')).status, 201)
})
