/** Webhook endpoints: who may have them, their fields, and their secrets. */

import t from 'tap'
import { createDatabase } from '../../drizzle/client/database.ts'
import { versions } from '../../plugins/versioning/index.ts'
import { type Client, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { waitUntil } from '../helpers/wait-until.ts'

const api = await testApp(t)
const manager = await api.person('manager')
const other = await api.person('manager')

const VALID = { url: 'https://example.com/hook', event_types: ['products.*'] }

const create = async (client: Client, body: object = {}) => {
  const reply = await client.post('/webhook-endpoints', { ...VALID, ...body })
  if (reply.status !== 201) throw new Error(reply.text)
  return reply.body.data
}

const readBoxes = async (id: string) => {
  const [row] = await api.database.run('select * from webhook_endpoints where id = $1', [id])
  return row ?? {}
}

t.test('an endpoint has defaults, and its secret is in the response to the creation alone', async (t) => {
  const reply = await manager.bearer.post('/webhook-endpoints', VALID)
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
  const read = await manager.bearer.get(`/webhook-endpoints/${id}`)
  t.equal(read.body.data.secret, null)
  const changed = await manager.bearer.patch(`/webhook-endpoints/${id}`, { description: 'x' })
  t.equal(changed.body.data.secret, null)
  const listed = await manager.bearer.get('/webhook-endpoints')
  t.ok(listed.body.data.every((each: { secret: unknown }) => each.secret === null))
})

t.test('secrets are stored encrypted', async (t) => {
  const { id, secret } = await create(manager.bearer)
  const row = await readBoxes(id)
  t.match(row.secret_box, /^v1\.[0-9a-f]{8}\./)
  t.notOk(JSON.stringify(row).includes(secret.slice('whsec_'.length)))
})

t.test('a replayed creation has no secret', async (t) => {
  const headers = { 'idempotency-key': 'endpoint-1' }
  const first = await manager.bearer.post('/webhook-endpoints', VALID, headers)
  const second = await manager.bearer.post('/webhook-endpoints', VALID, headers)
  t.equal(second.headers.get('idempotency-replayed'), 'true')
  t.equal(second.body.data.id, first.body.data.id)
  t.equal(second.body.data.secret, null)
})

t.test('managers have their own endpoints, admins see all, and members have none', async (t) => {
  const { id } = await create(manager.bearer)
  const member = await api.person('member')
  const path = `/webhook-endpoints/${id}`
  t.equal((await member.bearer.get('/webhook-endpoints')).status, 403)
  t.equal((await member.bearer.post('/webhook-endpoints', VALID)).status, 403)
  t.equal((await other.bearer.get(path)).status, 403)
  t.equal((await other.bearer.patch(path, { description: 'x' })).status, 403)
  t.equal((await other.bearer.post(`${path}/secrets`, {})).status, 403)
  t.strictSame((await other.bearer.get('/webhook-endpoints')).body.data, [])
  t.equal((await api.admin.get(path)).status, 200)
  t.equal((await api.admin.delete(path)).status, 204)
})

t.test('API keys are refused, except that of the bootstrap admin', async (t) => {
  for (const path of ['/webhook-endpoints', `/webhook-endpoints/${UNKNOWN_ID}/deliveries`]) {
    t.equal((await manager.client.get(path)).status, 403, path)
  }
  t.equal((await api.admin.get('/webhook-endpoints')).status, 200)
})

t.test('URLs that must not be reached are refused with 422', async (t) => {
  const urls = [
    'ftp://example.com',
    'example.com/hook',
    'https://user:secret@example.com/',
    'https://@example.com/',
    'https://example.com/#part',
    'http://169.254.169.254/latest',
    'https://10.0.0.1/',
    'https://[::ffff:10.0.0.1]/',
    `https://example.com/${'x'.repeat(2_048)}`,
  ]
  for (const url of urls) {
    const reply = await manager.bearer.post('/webhook-endpoints', { ...VALID, url })
    t.equal(reply.status, 422, url)
    t.equal(reply.body.error.details[0].field, 'url')
  }
  const { id } = await create(manager.bearer)
  t.equal((await manager.bearer.patch(`/webhook-endpoints/${id}`, { url: urls[5] })).status, 422)
})

t.test('types of events are those of the registered collections, each once', async (t) => {
  for (const event_types of [
    [],
    ['posts'],
    ['unknown.*'],
    ['deliveries.created'],
    ['*', '*'],
    ['orders.*', ''],
  ]) {
    const reply = await manager.bearer.post('/webhook-endpoints', { ...VALID, event_types })
    t.equal(reply.status, 422, JSON.stringify(event_types))
  }
  for (const event_types of [['*'], ['orders.created', 'sessions.*', 'webhook-endpoints.updated']]) {
    t.equal((await manager.bearer.post('/webhook-endpoints', { ...VALID, event_types })).status, 201)
  }
})

t.test('an unknown version and read-only fields are refused', async (t) => {
  for (const body of [
    { api_version: 3 },
    { api_version: 0 },
    { secret: 'x' },
    { disabled_reason: 'x' },
    { user_id: other.id },
  ]) {
    t.equal((await manager.bearer.post('/webhook-endpoints', { ...VALID, ...body })).status, 422)
  }
  t.equal((await create(manager.bearer, { api_version: 2 })).api_version, 2)
})

t.test('a version that is retired is refused, and its endpoints can be changed otherwise', async (t) => {
  const [first, second] = versions
  if (!first || !second) throw new Error('there are two versions')
  const sunset = new Date(Date.now() + 3_600_000)
  const deprecated = { since: new Date(0), sunset, successor: 2 }
  const retiring = await testApp(t, {}, { versions: [{ ...first, deprecated }, second] })
  const post = (api_version: number) =>
    retiring.admin.post('/v2/webhook-endpoints', { ...VALID, api_version })
  const { id } = (await post(1)).body.data
  sunset.setTime(0)
  const refused = await post(1)
  t.equal(refused.status, 422)
  t.match(refused.body.error.errors, [{ field: 'api_version', code: 'INVALID_VALUE' }])
  t.equal((await post(2)).status, 201)
  t.equal((await retiring.admin.patch(`/v2/webhook-endpoints/${id}`, { description: 'x' })).status, 200)
})

t.test('an endpoint has 1 to 50 types and up to 500 characters of description', async (t) => {
  const kinds = ['created', 'updated', 'deleted']
  const collections = [
    'users',
    'user-profiles',
    'products',
    'orders',
    'sessions',
    'api-keys',
    'webhook-endpoints',
  ]
  const all = collections.flatMap((name) => [`${name}.*`, ...kinds.map((kind) => `${name}.${kind}`)])
  t.ok(all.length < 50)
  const kept = await create(manager.bearer, { event_types: all, description: 'x'.repeat(500) })
  t.strictSame(kept.event_types, all)
  t.equal(kept.description.length, 500)
  const many = Array.from({ length: 51 }, (_, i) => all[i % all.length])
  const reply = await manager.bearer.post('/webhook-endpoints', {
    url: 'x',
    event_types: many,
    description: 'x'.repeat(501),
    status: 'paused',
    api_version: '1',
  })
  t.equal(reply.status, 422)
  t.strictSame(
    [
      ...new Set(reply.body.error.details.map(({ field }: { field: string }) => field.split(/[.[]/)[0])),
    ].sort(),
    ['api_version', 'description', 'event_types', 'status', 'url'],
  )
  const missing = await manager.bearer.post('/webhook-endpoints', {})
  t.strictSame(missing.body.error.details.map(({ field }: { field: string }) => field).sort(), [
    'event_types',
    'url',
  ])
  for (const field of ['failing_since', 'last_delivered_at'])
    t.equal(
      (await manager.bearer.patch(`/webhook-endpoints/${kept.id}`, { [field]: null })).status,
      422,
      field,
    )
  const disabled = await create(manager.bearer, { status: 'disabled', description: null })
  t.match(disabled, { status: 'disabled', disabled_reason: null, description: null })
})

t.test('the version of an endpoint is the default version, unless it is given', async (t) => {
  const second = await testApp(t, { DEFAULT_API_VERSION: '2' })
  const reply = await second.admin.post('/v1/webhook-endpoints', VALID)
  t.equal(reply.body.data.api_version, 2)
})

t.test('an endpoint that is enabled again has no reason, and its failures begin again', async (t) => {
  const { id } = await create(manager.bearer)
  await api.database.run(
    `update webhook_endpoints set status = 'disabled', disabled_reason = 'gone', failing_since = now() where id = $1`,
    [id],
  )
  const { data } = (await manager.bearer.patch(`/webhook-endpoints/${id}`, { status: 'enabled' })).body
  t.match(data, { status: 'enabled', disabled_reason: null, failing_since: null })
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

t.test(
  'a rotation shows the new secret once, keeps the former one for 24 hours, and is an event',
  async (t) => {
    const { id, secret } = await create(manager.bearer)
    const path = `/webhook-endpoints/${id}/secrets`
    const before = await readBoxes(id)
    const empty = await manager.bearer.call('POST', path)
    t.equal(empty.status, 201)
    t.equal(empty.body.data.id, id)
    t.equal(empty.headers.get('location'), `/webhook-endpoints/${id}`)
    t.match(empty.body.data.secret, /^whsec_/)
    t.not(empty.body.data.secret, secret)
    const after = await readBoxes(id)
    t.equal(after.previous_secret_box, before.secret_box)
    const lasts = Date.parse(String(after.previous_secret_expires_at)) - Date.now()
    t.ok(lasts > 86_000_000 && lasts <= 86_400_000)
    const second = await manager.bearer.post(path, {})
    t.equal(second.status, 201)
    t.equal((await readBoxes(id)).previous_secret_box, after.secret_box)
    const read = await manager.bearer.get(`/webhook-endpoints/${id}`)
    t.equal(read.headers.get('etag'), second.headers.get('etag'))
    await api.app.events.assignAll()
    const events = await api.database.run(
      `select type, previous from events where resource_id = $1 order by position`,
      [id],
    )
    t.strictSame(events, [
      { type: 'webhook-endpoints.created', previous: null },
      { type: 'webhook-endpoints.updated', previous: {} },
      { type: 'webhook-endpoints.updated', previous: {} },
    ])
  },
)

t.test('a rotation is idempotent, and its replayed response has no secret', async (t) => {
  const { id } = await create(manager.bearer)
  const path = `/webhook-endpoints/${id}/secrets`
  const headers = { 'idempotency-key': 'rotation-1' }
  t.match((await manager.bearer.call('POST', path, { headers })).body.data.secret, /^whsec_/)
  const box = (await readBoxes(id)).secret_box
  const replayed = await manager.bearer.post(path, {}, headers)
  t.equal(replayed.status, 201)
  t.equal(replayed.headers.get('idempotency-replayed'), 'true')
  t.equal(replayed.body.data.secret, null)
  t.equal((await readBoxes(id)).secret_box, box)
})

t.test('a rotation honors preconditions: one with a stale tag is 412 and changes nothing', async (t) => {
  const { id } = await create(manager.bearer)
  const path = `/webhook-endpoints/${id}`
  const tag = (await manager.bearer.get(path)).headers.get('etag') ?? ''
  const rotate = (headers: Record<string, string>) => manager.bearer.post(`${path}/secrets`, {}, headers)
  t.equal((await rotate({ 'if-match': tag })).status, 201)
  const { secret_box: box } = await readBoxes(id)
  const stale: Record<string, string>[] = [
    { 'if-match': tag },
    { 'if-match': tag, 'idempotency-key': 'rotation-2' },
    { 'if-none-match': '*' },
    { 'if-unmodified-since': 'Sat, 21 Nov 2020 09:30:00 GMT' },
  ]
  for (const headers of stale) {
    const reply = await rotate(headers)
    t.equal(reply.status, 412, JSON.stringify(headers))
    t.equal(reply.headers.get('etag'), (await manager.bearer.get(path)).headers.get('etag'))
  }
  t.equal((await readBoxes(id)).secret_box, box)
})

t.test('a rotation refuses fields, parameters and unknown endpoints', async (t) => {
  const { id } = await create(manager.bearer)
  t.equal((await manager.bearer.post(`/webhook-endpoints/${id}/secrets`, { secret: 'x' })).status, 422)
  t.equal((await manager.bearer.post(`/webhook-endpoints/${id}/secrets`, [])).status, 400)
  t.equal((await manager.bearer.post(`/webhook-endpoints/${id}/secrets?a=1`, {})).status, 400)
  t.equal((await manager.bearer.post(`/webhook-endpoints/${UNKNOWN_ID}/secrets`, {})).status, 404)
  t.equal((await manager.bearer.get(`/webhook-endpoints/${id}/secrets`)).status, 405)
})

t.test('no event has a secret', async (t) => {
  await api.app.events.assignAll()
  const rows = await api.database.run(
    `select columns, previous from events where resource_type = 'webhook-endpoints'`,
  )
  t.ok(rows.length > 0)
  t.notMatch(JSON.stringify(rows), /secret|whsec_/)
})

t.test('without events there are no endpoints, rotations and deliveries', async (t) => {
  const without = await testApp(t, { EVENTS: 'false' })
  const path = `/webhook-endpoints/${UNKNOWN_ID}`
  for (const [method, address] of [
    ['GET', '/webhook-endpoints'],
    ['POST', '/webhook-endpoints'],
    ['GET', path],
    ['PATCH', path],
    ['DELETE', path],
    ['POST', `${path}/secrets`],
    ['GET', `${path}/deliveries`],
    ['POST', `${path}/deliveries`],
    ['GET', `${path}/deliveries/${UNKNOWN_ID}`],
  ] as const) {
    for (const version of ['', '/v1', '/v2']) {
      const { status } = await without.admin.call(method, `${version}${address}`)
      t.equal(status, 404, `${method} ${version}${address}`)
    }
  }
  for (const version of [1, 2]) {
    const { body } = await without.anybody.get(`/openapi/v${version}.json`)
    t.strictSame(Object.keys(body.webhooks ?? {}), [])
    t.notMatch(Object.keys(body.paths).join(), /webhook|events/)
  }
  const scopes = ['events:read']
  const refused = await without.admin.post('/api-keys', { name: 'Feed', scopes })
  t.equal(refused.status, 422, 'nor a scope of theirs')
})

t.test('without events nothing runs in the background', async (t) => {
  const FEED = /outbox|event_feed|webhook_/
  const count = async (EVENTS: string) => {
    const database = await testDatabase(t)
    let statements = 0
    const recorded = createDatabase({
      ...database.$client,
      run(text, ...rest) {
        if (FEED.test(text)) statements += 1
        return database.$client.run(text, ...rest)
      },
    })
    await testApp(t, { EVENTS }, { database: recorded })
    return () => statements
  }
  const [without, running] = [await count('false'), await count('true')]
  // Several rounds of the feed and of the dispatcher, in the same time.
  await waitUntil(() => running() >= 6)
  t.equal(without(), 1, 'one at the start, which ends the cursors')
})

t.test('in production http is refused', async (t) => {
  const production = await testApp(t, { NODE_ENV: 'production', INSECURE_HTTP: 'true' })
  const post = (url: string) => production.admin.post('/webhook-endpoints', { ...VALID, url })
  t.equal((await post('http://example.com/')).status, 422)
  t.equal((await post('https://127.0.0.1/')).status, 422)
  t.equal((await post('https://example.com/')).status, 201)
})
