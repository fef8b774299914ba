/** Replays: the events of a time are sent to an endpoint again, in the background, with the same webhook-id. */
import t, { type Test } from 'tap'
import { type Json, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { openEndpoint as open, respondWith } from '../../../testing/helpers/webhooks.ts'

const api = await testApp(t)
const { database } = api
const manager = await api.person('manager')
const other = await api.person('manager')

const DAY_MS = 86_400_000
const ago = (milliseconds: number) => new Date(Date.now() - milliseconds).toISOString()

let count = 0
/** Creates a product, and returns the id of its event. */
const createProduct = async (): Promise<string> => {
  count += 1
  const reply = await api.admin.post('/products', { sku: `R-${count}`, name: 'Tea', price_amount: 5 })
  await api.app.events.assignAll()
  const [event] = await database.run('select id from events where resource_id = $1', [reply.body.data.id])
  return String(event?.id)
}

/** Starts a receiver, and creates an endpoint of the manager for it. */
async function openEndpoint(t: Test, fields: object = {}) {
  const opened = await open(t, manager.bearer, fields)
  const { endpoint, path } = opened
  const readReplay = async ({ id }: Json) => (await manager.bearer.get(`${path}/replays/${id}`)).body.data
  return {
    ...opened,
    post: (body: object) => manager.bearer.post(`${path}/replays`, body),
    readReplay,
    async waitForReplay(replay: Json, condition = async () => true): Promise<Json> {
      await waitUntil(async () => (await condition()) && (await readReplay(replay)).completed_at !== null)
      return readReplay(replay)
    },
    /** Inserts deliveries that failed at a time. */
    insertFailed: (age: number, number: number, type = 'products.created') =>
      database.run(
        `insert into work (kind, endpoint_id, user_id, event_id, event_type, status, next_attempt_at, created_at)
         select 'delivery', $1, $2, gen_random_uuid(), $3, 'failed', null, $4::timestamptz from generate_series(1, $5::int)`,
        [endpoint.id, endpoint.user_id, type, ago(age), number],
      ),
  }
}

t.test('failed deliveries of a time are sent again, with the same webhook-id', async (t) => {
  const { receiver, endpoint, path, post, waitForReplay, waitFor, insertFailed } = await openEndpoint(t)
  receiver.respond = respondWith(500)
  const [failed] = [await createProduct(), await createProduct()]
  await waitFor((all) => all.every((each) => each.response_status))
  await database.run(
    `update work set next_attempt_at = null,
       status = case when event_id = $2 then 'failed' else 'succeeded' end where endpoint_id = $1`,
    [endpoint.id, failed],
  )
  await insertFailed(2 * DAY_MS, 1)
  await insertFailed(1_000, 1, 'webhook-endpoints.test')
  receiver.respond = respondWith(200)
  receiver.received.length = 0

  const { status, body, headers } = await post({ since: ago(DAY_MS) })
  const { id, until } = body.data
  const counts = { total: 1, sent: 0, since: /Z$/, completed_at: null }
  t.match([status, body.data], [201, { endpoint_id: endpoint.id, status: 'failed', ...counts }])
  t.equal(headers.get('location'), `${path}/replays/${id}`)
  t.ok(Math.abs(Date.parse(until) - Date.now()) < 60_000, 'the end is the time of the request')
  t.match(await waitForReplay(body.data), { total: 1, sent: 1, completed_at: /Z$/ })
  const sent = receiver.received.map(({ headers, body }) => [headers['webhook-id'], body.data.id])
  t.strictSame(sent, [[failed, failed]])
  const listed = (await manager.bearer.get(`${path}/replays`)).body.data
  t.match(listed, [{ id }])
  t.equal(listed.length, 1)
  await manager.bearer.delete(path)
  t.strictSame(await database.run('select 1 from webhook_replays'), [], 'they end with their endpoint')
})

t.test('all events of a time are sent that the endpoint asks for and its owner may read', async (t) => {
  const event_types = ['products.*', 'sessions.created']
  const { receiver, path, post, waitForReplay } = await openEndpoint(t, { event_types, status: 'disabled' })
  const body = { since: ago(0), status: 'all' }
  const missed = [await createProduct(), await createProduct()]
  await api.person('member')
  await api.app.events.assignAll()
  t.equal((await post(body)).status, 409, 'the endpoint is disabled')
  await manager.bearer.patch(path, { status: 'enabled' })
  const created = (await post(body)).body.data
  t.equal(created.total, 2, 'no session of another user')
  t.match(await waitForReplay(created), { total: 2, sent: 2 })
  const received = receiver.received.map(({ headers }) => headers['webhook-id'])
  t.strictSame(received.sort(), missed.sort())
  const again = await waitForReplay((await post({ ...body, until: ago(0) })).body.data)
  t.equal(again.sent, 2)
  t.equal(receiver.received.length, 4)
})

t.test('a large replay is sent little by little, so that new events do not wait for all of it', async (t) => {
  const { endpoint, post, waitForReplay, insertFailed } = await openEndpoint(t)
  // A fast endpoint, of which many are claimed together.
  await database.run('update webhook_endpoints set last_duration_ms = 5 where id = $1', [endpoint.id])
  // Of the same time, so that they are read together; their events were removed, so none is sent.
  await insertFailed(DAY_MS, 1_000)
  await insertFailed(DAY_MS / 2, 600)
  await insertFailed(DAY_MS / 4, 600)
  const created = (await post({ since: ago(2 * DAY_MS) })).body.data
  t.equal(created.total, 2_200)
  let most = 0
  const replayed = await waitForReplay(created, async () => {
    const [unsent] = await database.run(
      `select count(*) as count from work
       where replay_id is not null and status = 'pending' and duration_ms is null`,
    )
    most = Math.max(most, Number(unsent?.count))
    return true
  })
  t.ok(most < 1_700, `${most} waited`)
  t.match(replayed, { total: 2_200, sent: 2_200 })
})

t.test('a replay that fails delays no event and no other replay', async (t) => {
  const broken = await openEndpoint(t, { event_types: ['orders.created'] })
  const working = await openEndpoint(t)
  await database.run(
    `alter table work add constraint broken
     check (replay_id is null or endpoint_id <> '${broken.endpoint.id}')`,
  )
  t.teardown(() => database.run('alter table work drop constraint broken'))
  const start = async ({ insertFailed, post }: typeof broken) => {
    await insertFailed(DAY_MS, 10)
    return (await post({ since: ago(2 * DAY_MS) })).body.data
  }
  const [failing, created] = [await start(broken), await start(working)]
  const eventId = await createProduct()
  const isSent = ({ event_id, status }: Json) => event_id === eventId && status === 'succeeded'
  await working.waitFor((all) => all.some(isSent))
  t.match(await working.waitForReplay(created), { sent: 10 })
  t.equal((await broken.readReplay(failing)).completed_at, null)
})

t.test('a replay ends when its endpoint is disabled', async (t) => {
  const { receiver, read, post, waitForReplay, waitFor } = await openEndpoint(t)
  const since = ago(0)
  for (let i = 0; i < 3; i++) await createProduct()
  await waitFor((all) => all.length === 3 && all.every(({ status }) => status === 'succeeded'))
  receiver.respond = respondWith(410)
  const created = (await post({ since, status: 'all' })).body.data
  t.equal(created.total, 3)
  await waitForReplay(created)
  t.equal((await read()).status, 'disabled')
  await waitFor((all) => all.slice(3).every(({ status }) => status === 'failed'))
  t.ok(receiver.received.length <= 6)
})

t.test('the time of a replay is past, and at most 30 days long', async (t) => {
  const { path, post } = await openEndpoint(t)
  for (const [body, field, code] of [
    [{}, 'since', 'REQUIRED'],
    [{ since: 'yesterday' }, 'since', 'INVALID_FORMAT'],
    [{ since: ago(-60_000) }, 'since', 'OUT_OF_RANGE'],
    [{ since: ago(DAY_MS), until: ago(DAY_MS) }, 'since', 'OUT_OF_RANGE'],
    [{ since: ago(DAY_MS), until: ago(-60_000) }, 'until', 'OUT_OF_RANGE'],
    [{ since: ago(30 * DAY_MS + 60_000) }, 'since', 'OUT_OF_RANGE'],
    [{ since: ago(DAY_MS), status: 'succeeded' }, 'status', 'INVALID_VALUE'],
    [{ since: ago(DAY_MS), sent: 1 }, 'sent', 'READ_ONLY'],
  ] as const) {
    const reply = await post(body)
    t.match([reply.status, reply.body.error.details], [422, [{ field, code }]], JSON.stringify(body))
  }
  const until = ago(31 * DAY_MS)
  const since = new Date(Date.parse(until) - 30 * DAY_MS).toISOString()
  const attributes = { since, until, status: 'all' }
  t.equal((await post(attributes)).status, 201)
  const inVersion2 = { data: { type: 'replays', attributes } }
  t.equal((await manager.bearer.post(`/v2${path}/replays`, inVersion2)).status, 201)
})

t.test('replays are removed after 30 days', async (t) => {
  const { endpoint, path } = await openEndpoint(t)
  const [old = '', recent = ''] = [31, 29].map((days) => {
    const time = (Date.now() - days * DAY_MS).toString(16).padStart(12, '0')
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`
  })
  await database.run(
    `insert into webhook_replays (id, endpoint_id, user_id, since, until, total, completed_at)
     select id, $3, $4, now(), now(), 0, now() from unnest(array[$1::uuid, $2::uuid]) as id`,
    [old, recent, endpoint.id, endpoint.user_id],
  )
  await api.app.webhooks.maintain()
  const { data } = (await manager.bearer.get(`${path}/replays`)).body
  t.same(
    data.map(({ id }: Json) => id),
    [recent],
  )
})

t.test('replays belong to the owner of the endpoint, and an endpoint has at most 10 open ones', async (t) => {
  const { endpoint, path: endpointPath, post } = await openEndpoint(t)
  const path = `${endpointPath}/replays`
  const body = { since: ago(DAY_MS) }
  const { data } = (await api.admin.post(path, body)).body
  for (const [client, method, address, expected] of [
    [other.bearer, 'POST', path, 403],
    [other.bearer, 'GET', `${path}/${data.id}`, 403],
    [manager.client, 'POST', path, 403],
    [manager.bearer, 'GET', `${path}/${data.id}`, 200],
    [manager.bearer, 'DELETE', `${path}/${data.id}`, 405],
    [manager.bearer, 'POST', `/webhook-endpoints/${UNKNOWN_ID}/replays`, 404],
  ] as const) {
    const { status } = await client.call(method, address, method === 'POST' ? { body } : {})
    t.equal(status, expected, `${method} ${address}`)
  }
  // Not claimed, so they stay open.
  await database.run(
    `with replays as (
       insert into webhook_replays (endpoint_id, user_id, since, until, total, queued)
       select $1, $2, now(), now(), 1, 1 from generate_series(1, 10) returning id
     ) insert into work (kind, endpoint_id, user_id, event_id, event_type, next_attempt_at, replay_id)
     select 'delivery', $1, $2, $3, 'products.created', now() + interval '1 hour', id from replays`,
    [endpoint.id, endpoint.user_id, UNKNOWN_ID],
  )
  t.equal((await post(body)).status, 409)
})
