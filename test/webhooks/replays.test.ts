/** Replays: the events of a time are sent to an endpoint again, in the background, with the same webhook-id. */
import t from 'tap'
import { v7 as uuid } from 'uuid'
import { type Json, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { waitUntil } from '../helpers/wait-until.ts'
import { respondWith, startReceiver } from '../helpers/webhook-receiver.ts'
import { createEndpoint, readDeliveries, waitForDeliveries } from '../helpers/webhooks.ts'

const api = await testApp(t)
const { database } = api
const manager = await api.person('manager')
const other = await api.person('manager')

const DAY_MS = 86_400_000
const ago = (milliseconds: number) => new Date(Date.now() - milliseconds).toISOString()

let count = 0
const createProduct = async (): Promise<string> => {
  count += 1
  const reply = await api.admin.post('/products', { sku: `R-${count}`, name: 'Tea', price_amount: 5 })
  await api.app.events.assignAll()
  const [event] = await database.run('select id from events where resource_id = $1', [reply.body.data.id])
  return String(event?.id)
}

const replay = async (path: string, body: object): Promise<Json> => {
  const reply = await manager.bearer.post(`${path}/replays`, body)
  if (reply.status !== 201) throw new Error(reply.text)
  return reply.body.data
}

const waitForReplay = async (path: string, { id }: Json): Promise<Json> => {
  let data: Json
  await waitUntil(async () => {
    data = (await manager.bearer.get(`${path}/replays/${id}`)).body.data
    return data.completed_at !== null
  })
  return data
}

/** Inserts deliveries that failed at a time. */
const insertFailed = (endpoint: Json, createdAt: string, number: number, type = 'products.created') =>
  database.run(
    `insert into webhook_deliveries (endpoint_id, user_id, event_id, event_type, status, created_at)
     select $1, $2, gen_random_uuid(), $3, 'failed', $4::timestamptz from generate_series(1, $5::int)`,
    [endpoint.id, endpoint.user_id, type, createdAt, number],
  )

t.test('failed deliveries of a time are sent again, with the same webhook-id', async (t) => {
  const receiver = await startReceiver(t)
  receiver.respond = respondWith(500)
  const endpoint = await createEndpoint(manager.bearer, receiver.url)
  const path = `/webhook-endpoints/${endpoint.id}`
  const [failed] = [await createProduct(), await createProduct()]
  await waitForDeliveries(manager.bearer, endpoint.id, (all) => all.every((each) => each.response_status))
  await database.run(
    `update webhook_deliveries set status = 'failed', next_attempt_at = null where endpoint_id = $1 and event_id = $2`,
    [endpoint.id, String(failed)],
  )
  await database.run(
    `update webhook_deliveries set status = 'succeeded', next_attempt_at = null where endpoint_id = $1 and event_id <> $2`,
    [endpoint.id, String(failed)],
  )
  await insertFailed(endpoint, ago(2 * DAY_MS), 1)
  await insertFailed(endpoint, ago(1_000), 1, 'webhook-endpoints.test')
  receiver.respond = respondWith(200)
  receiver.received.length = 0

  const created = await manager.bearer.post(`${path}/replays`, { since: ago(DAY_MS) })
  t.equal(created.status, 201)
  const { id, ...fields } = created.body.data
  t.equal(created.headers.get('location'), `${path}/replays/${id}`)
  t.match(fields, {
    endpoint_id: endpoint.id,
    status: 'failed',
    total: 1,
    sent: 0,
    completed_at: null,
    since: /Z$/,
  })
  t.ok(Math.abs(Date.parse(fields.until) - Date.now()) < 60_000, 'the end is the time of the request')
  t.match(await waitForReplay(path, created.body.data), { total: 1, sent: 1, completed_at: /Z$/ })
  t.strictSame(
    receiver.received.map(({ headers, body }) => [headers['webhook-id'], body.data.id]),
    [[failed, failed]],
  )
  t.strictSame(
    (await manager.bearer.get(`${path}/replays`)).body.data.map((each: Json) => each.id),
    [id],
  )
  await manager.bearer.delete(path)
  t.strictSame(
    await database.run('select 1 from webhook_replays'),
    [],
    'they are deleted with their endpoint',
  )
})

t.test('all events of a time are sent that the endpoint asks for and its owner may read', async (t) => {
  const receiver = await startReceiver(t)
  const event_types = ['products.*', 'sessions.created']
  const endpoint = await createEndpoint(manager.bearer, receiver.url, { event_types, status: 'disabled' })
  const path = `/webhook-endpoints/${endpoint.id}`
  const since = ago(0)
  const missed = [await createProduct(), await createProduct()]
  await api.person('member')
  await api.app.events.assignAll()
  const body = { since, status: 'all' }
  t.equal((await manager.bearer.post(`${path}/replays`, body)).status, 409, 'the endpoint is disabled')
  await manager.bearer.patch(path, { status: 'enabled' })
  const created = await replay(path, body)
  t.equal(created.total, 2, 'no session of another user')
  t.match(await waitForReplay(path, created), { total: 2, sent: 2 })
  const received = receiver.received.map(({ headers }) => headers['webhook-id'])
  t.strictSame(received.sort(), missed.sort())
  const again = await waitForReplay(path, await replay(path, { ...body, until: ago(0) }))
  t.equal(again.sent, 2)
  t.equal(receiver.received.length, 4)
  await manager.bearer.delete(path)
})

t.test('a large replay is sent little by little, so that new events do not wait for all of it', async (t) => {
  const receiver = await startReceiver(t)
  const endpoint = await createEndpoint(manager.bearer, receiver.url)
  const path = `/webhook-endpoints/${endpoint.id}`
  // A fast endpoint, of which many are claimed together.
  await database.run('update webhook_endpoints set last_duration_ms = 5 where id = $1', [endpoint.id])
  // Of the same time, so that they are read together; their events were removed, so none is sent.
  await insertFailed(endpoint, ago(DAY_MS), 1_000)
  await insertFailed(endpoint, ago(DAY_MS / 2), 600)
  await insertFailed(endpoint, ago(DAY_MS / 4), 600)
  const countUnsent = async () => {
    const [row] = await database.run(
      `select count(*) as count from webhook_deliveries where replay_id is not null and status = 'pending' and duration_ms is null`,
    )
    return Number(row?.count)
  }
  const created = await replay(path, { since: ago(2 * DAY_MS) })
  t.equal(created.total, 2_200)
  let most = 0
  await waitUntil(async () => {
    most = Math.max(most, await countUnsent())
    return (await manager.bearer.get(`${path}/replays/${created.id}`)).body.data.completed_at !== null
  })
  t.ok(most < 1_700, `${most} waited`)
  t.match(await waitForReplay(path, created), { total: 2_200, sent: 2_200 })
  await manager.bearer.delete(path)
})

t.test('a replay that fails delays no event and no other replay', async (t) => {
  const receiver = await startReceiver(t)
  const [broken, endpoint] = [
    await createEndpoint(manager.bearer, receiver.url, { event_types: ['orders.created'] }),
    await createEndpoint(manager.bearer, receiver.url),
  ]
  const paths = [broken, endpoint].map(({ id }) => `/webhook-endpoints/${id}`)
  await database.run(
    `alter table webhook_deliveries add constraint broken check (replay_id is null or endpoint_id <> '${broken.id}')`,
  )
  t.teardown(() => database.run('alter table webhook_deliveries drop constraint broken'))
  for (const each of [broken, endpoint]) await insertFailed(each, ago(DAY_MS), 10)
  const [failing, working] = [
    await replay(paths[0] ?? '', { since: ago(2 * DAY_MS) }),
    await replay(paths[1] ?? '', { since: ago(2 * DAY_MS) }),
  ]
  const eventId = await createProduct()
  await waitForDeliveries(manager.bearer, endpoint.id, (deliveries) =>
    deliveries.some(({ event_id, status }) => event_id === eventId && status === 'succeeded'),
  )
  t.match(await waitForReplay(paths[1] ?? '', working), { sent: 10 })
  t.equal((await manager.bearer.get(`${paths[0]}/replays/${failing.id}`)).body.data.completed_at, null)
  for (const path of paths) await manager.bearer.delete(path)
})

t.test('a replay ends when its endpoint is disabled', async (t) => {
  const receiver = await startReceiver(t)
  receiver.respond = respondWith(410)
  const endpoint = await createEndpoint(manager.bearer, receiver.url)
  const path = `/webhook-endpoints/${endpoint.id}`
  const since = ago(0)
  for (let i = 0; i < 3; i++) await createProduct()
  await waitForDeliveries(manager.bearer, endpoint.id, (all) => all.some(({ status }) => status === 'failed'))
  await waitUntil(async () => (await manager.bearer.get(path)).body.data.status === 'disabled')
  await waitForDeliveries(manager.bearer, endpoint.id, (all) =>
    all.every(({ status }) => status === 'failed'),
  )
  const sent = receiver.received.length
  await manager.bearer.patch(path, { status: 'enabled' })
  const created = await replay(path, { since, status: 'all' })
  t.equal(created.total, 3)
  await waitForReplay(path, created)
  t.equal((await manager.bearer.get(path)).body.data.status, 'disabled')
  t.ok(receiver.received.length <= sent + 3)
  const deliveries = await readDeliveries(manager.bearer, endpoint.id)
  t.ok(deliveries.every(({ status }) => status === 'failed'))
  await manager.bearer.delete(path)
})

t.test('the time of a replay is past, and at most 30 days long', async (t) => {
  const endpoint = await createEndpoint(manager.bearer, 'http://127.0.0.1:9/')
  const path = `/webhook-endpoints/${endpoint.id}/replays`
  const cases: [body: object, field: string, code: string][] = [
    [{}, 'since', 'REQUIRED'],
    [{ since: 'yesterday' }, 'since', 'INVALID_FORMAT'],
    [{ since: ago(-60_000) }, 'since', 'OUT_OF_RANGE'],
    [{ since: ago(DAY_MS), until: ago(DAY_MS) }, 'since', 'OUT_OF_RANGE'],
    [{ since: ago(DAY_MS), until: ago(-60_000) }, 'until', 'OUT_OF_RANGE'],
    [{ since: ago(31 * DAY_MS) }, 'since', 'OUT_OF_RANGE'],
    [{ since: ago(DAY_MS), status: 'succeeded' }, 'status', 'INVALID_VALUE'],
    [{ since: ago(DAY_MS), sent: 1 }, 'sent', 'READ_ONLY'],
  ]
  for (const [body, field, code] of cases) {
    const reply = await manager.bearer.post(path, body)
    t.equal(reply.status, 422, JSON.stringify(body))
    t.match(reply.body.error.details, [{ field, code }], JSON.stringify(body))
  }
  const old = { since: ago(60 * DAY_MS), until: ago(31 * DAY_MS), status: 'all' }
  t.equal((await manager.bearer.post(path, old)).status, 201)
  t.equal(
    (await manager.bearer.post(`/v2${path}`, { data: { type: 'replays', attributes: old } })).status,
    201,
  )
  await manager.bearer.delete(`/webhook-endpoints/${endpoint.id}`)
})

t.test('replays belong to the owner of the endpoint, and an endpoint has at most 10 open ones', async (t) => {
  const endpoint = await createEndpoint(manager.bearer, 'http://127.0.0.1:9/')
  const path = `/webhook-endpoints/${endpoint.id}/replays`
  const body = { since: ago(DAY_MS) }
  t.equal((await other.bearer.post(path, body)).status, 403)
  t.equal((await manager.client.post(path, body)).status, 403, 'an API key')
  t.equal((await manager.bearer.post(`/webhook-endpoints/${UNKNOWN_ID}/replays`, body)).status, 404)
  const byAdmin = await api.admin.post(path, body)
  t.equal(byAdmin.status, 201)
  t.equal((await manager.bearer.get(`${path}/${byAdmin.body.data.id}`)).status, 200, 'it is of the owner')
  t.equal((await other.bearer.get(`${path}/${byAdmin.body.data.id}`)).status, 403)
  t.equal((await manager.bearer.delete(`${path}/${byAdmin.body.data.id}`)).status, 405)
  // Not claimed, so they stay open.
  await database.run(
    `with replays as (
       insert into webhook_replays (endpoint_id, user_id, since, until, total, queued)
       select $1, $2, now(), now(), 1, 1 from generate_series(1, 10) returning id
     ) insert into webhook_deliveries (endpoint_id, user_id, event_id, event_type, next_attempt_at, replay_id)
     select $1, $2, $3, 'products.created', now() + interval '1 hour', id from replays`,
    [endpoint.id, endpoint.user_id, uuid()],
  )
  t.equal((await manager.bearer.post(path, body)).status, 409)
  await manager.bearer.delete(`/webhook-endpoints/${endpoint.id}`)
})
