/** Deliveries: which events are sent to which endpoint, in which form, and what follows from the response. */
import t, { type Test } from 'tap'
import { type Client, type Json, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import {
  createEndpoint,
  makeDue,
  openEndpoint as open,
  type Receiver,
  readDeliveries,
  respondWith,
  startReceiver,
  verify,
} from '../../../testing/helpers/webhooks.ts'

const api = await testApp(t)
const { admin, app, database } = api
const manager = await api.person('manager')
const other = await api.person('manager')

let count = 0
const createProduct = async (): Promise<string> => {
  count += 1
  const reply = await admin.post('/products', { sku: `W-${count}`, name: 'Zoë 🦊', price_amount: 5 })
  if (reply.status !== 201) throw new Error(reply.text)
  return reply.body.data.id
}

const isSettled = ({ status }: Json) => status !== 'pending'
const getDelay = ({ next_attempt_at, updated_at }: Json) =>
  Date.parse(next_attempt_at) - Date.parse(updated_at)
/** Whether an attempt has ended. */
const isAttempted = ({ duration_ms, error }: Json) => duration_ms !== null || error !== null

/** Returns the id of an event of another owner. */
async function findEvent(type: string, owner: string): Promise<string> {
  const select = 'select id from events where type = $1 and owner_id is distinct from $2 limit 1'
  const [event] = await database.run(select, [type, owner])
  return String(event?.id)
}

/** Starts a receiver, and creates an endpoint of the manager for it. */
async function openEndpoint(t: Test, fields: object = {}, respond?: Receiver['respond']) {
  const opened = await open(t, manager.bearer, fields, respond)
  const { endpoint, path } = opened
  return {
    ...opened,
    sendTest: () => manager.bearer.post(`${path}/deliveries`, { test: true }),
    /** Inserts a delivery that is due, or will be. */
    insert: (eventId: string, { type = 'webhook-endpoints.test', attempts = 0, hours = 0 } = {}) =>
      database.run(
        `insert into work (kind, endpoint_id, user_id, event_id, event_type, attempts, next_attempt_at)
         values ('delivery', $1, $2, $3, $4, $5, now() + $6 * interval '1 hour')`,
        [endpoint.id, endpoint.user_id, eventId, type, attempts, hours],
      ),
  }
}

for (const version of [1, 2])
  t.test(`an event is sent once, signed, as GET /v${version}/events/{id} returns it`, async (t) => {
    const { receiver, endpoint, read, waitFor } = await openEndpoint(t, { api_version: version })
    await admin.patch(`/products/${await createProduct()}`, { name: 'Green tea' })
    const received = await receiver.waitFor(2)
    for (const webhook of received) {
      const { body, headers } = webhook
      t.match(verify(endpoint.secret, webhook), { type: /^products\./ })
      t.throws(() => verify('whsec_AAAA', webhook))
      t.match(headers, { 'content-type': 'application/json; charset=utf-8', 'user-agent': /^resource-api\// })
      t.strictSame(Object.keys(body), ['type', 'timestamp', 'data'])
      const event = await manager.bearer.get(`/v${version}/events/${headers['webhook-id']}`)
      t.strictSame(body.data, event.body.data)
      t.equal(body.timestamp, (body.data.attributes ?? body.data).created_at)
    }
    t.strictSame(received.map(({ body }) => body.type).sort(), ['products.created', 'products.updated'])
    const deliveries = await waitFor((all) => all.every(isSettled))
    const succeeded = {
      ...{ endpoint_id: endpoint.id, status: 'succeeded', attempts: 1, next_attempt_at: null },
      ...{ response_status: 200, response_body: '', error: null, delivered_at: /Z$/ },
    }
    t.match(deliveries, [succeeded, succeeded])
    t.equal(receiver.received.length, 2)
    // The endpoint is updated after its deliveries.
    await waitUntil(async () => typeof (await read()).last_delivered_at === 'string')
  })

t.test('an endpoint receives only the types that it names and events that its owner may read', async (t) => {
  const receiver = await startReceiver(t)
  const create = async (client: Client, type: string, status = 'enabled') => {
    const { id } = await createEndpoint(client, receiver.url, { event_types: [type], status })
    t.teardown(() => admin.delete(`/webhook-endpoints/${id}`))
    return async () => (await readDeliveries(client, id)).map(({ event_type }) => event_type)
  }
  const orders = await create(manager.bearer, 'orders.*')
  const all = await create(manager.bearer, '*')
  const updates = await create(manager.bearer, 'products.updated')
  const ofOther = await create(other.bearer, 'webhook-endpoints.*')
  const ofAdmin = await create(admin, 'webhook-endpoints.created')
  const disabled = await create(manager.bearer, '*', 'disabled')
  const marker = await create(manager.bearer, 'products.created')
  await createProduct()
  await waitUntil(async () => (await marker()).length === 1)
  t.strictSame([await orders(), await updates(), await disabled()], [[], [], []])
  const types = await all()
  t.ok(types.includes('products.created'))
  t.ok(types.includes('webhook-endpoints.created'), 'the events of an own endpoint')
  t.strictSame(await ofOther(), ['webhook-endpoints.created'], 'of the own endpoint alone')
  t.ok((await ofAdmin()).length >= 2, 'an admin reads those of others')
})

t.test('a failed attempt is repeated with the same id, the last one fails, none is an event', async (t) => {
  const respond: Receiver['respond'] = (response) => response.writeHead(500).end('not now')
  const { receiver, endpoint, path, read, waitFor } = await openEndpoint(t, {}, respond)
  await createProduct()
  const [first] = await waitFor((all) => all.some(isAttempted))
  const response = { response_status: 500, response_body: 'not now', error: null }
  t.match(first, { status: 'pending', attempts: 1, ...response })
  const delay = getDelay(first)
  t.ok(delay > 4_400 && delay < 5_600, `${delay} ms`)
  t.type((await read()).failing_since, 'string')

  await database.run('update work set attempts = 10 where endpoint_id = $1', [endpoint.id])
  await makeDue(database, endpoint.id)
  const [last] = await waitFor((all) => all.every(isSettled))
  t.match(last, { status: 'failed', attempts: 11, next_attempt_at: null, delivered_at: null })

  receiver.respond = respondWith(204)
  const again = await manager.bearer.post(`${path}/deliveries`, { event_id: first.event_id })
  t.equal(again.status, 201)
  await waitFor((all) => all.length === 2 && all.every(isSettled))
  // Stored after the delivery.
  await waitUntil(async () => (await read()).failing_since === null)
  t.match(await read(), { last_delivered_at: /Z$/, updated_at: endpoint.updated_at })
  const ids = receiver.received.map(({ headers }) => headers['webhook-id'])
  t.strictSame(ids, [first.event_id, first.event_id, first.event_id])
  await app.events.assignAll()
  const { data } = (await admin.get(`/events?resource_id=${endpoint.id}`)).body
  t.match(data, [{ type: 'webhook-endpoints.created' }])
  t.equal(data.length, 1)
})

t.test('410 disables the endpoint with an event of the system, and other events are not sent', async (t) => {
  const { endpoint, path, read, sendTest, waitFor } = await openEndpoint(t, {}, respondWith(410))
  await sendTest()
  await waitFor((all) => all.every(isSettled))
  await waitUntil(async () => (await read()).status === 'disabled')
  t.type((await read()).failing_since, 'string')
  t.equal((await read()).disabled_reason, 'The endpoint answered 410 Gone')
  t.equal((await sendTest()).status, 409)
  await createProduct()
  await app.events.assignAll()
  t.match((await admin.get(`/events?resource_id=${endpoint.id}`)).body.data[0], {
    type: 'webhook-endpoints.updated',
    credential: 'system',
    actor_id: null,
    previous: { status: 'enabled', disabled_reason: null },
    data: { status: 'disabled' },
  })
  t.equal((await readDeliveries(admin, endpoint.id)).length, 1)
  const enabled = await manager.bearer.patch(path, { status: 'enabled' })
  t.match(enabled.body.data, { status: 'enabled', disabled_reason: null, failing_since: null })
})

for (const [name, failingHours, attempts, isDisabled] of [
  ['is not disabled by the first failure after a quiet time', 121, 0, false],
  ['is not disabled by the last attempt of a delivery before 5 days have passed', 119, 10, false],
  ['is disabled by the last attempt of a delivery after 5 days', 121, 10, true],
] as const)
  t.test(`an endpoint ${name}`, async (t) => {
    const { receiver, endpoint, read, insert, waitFor } = await openEndpoint(t, {}, respondWith(503))
    await database.run(
      `update webhook_endpoints set failing_since = now() - $2 * interval '1 hour', last_delivered_at = now() - interval '1 year'
       where id = $1`,
      [endpoint.id, failingHours],
    )
    await insert(UNKNOWN_ID, { attempts })
    await insert(other.id, { hours: 1 })
    const all = await waitFor((all) => (isDisabled ? all.every(isSettled) : all.some(isAttempted)))
    const isEnded = all.some(({ error }) => error === 'the endpoint is disabled')
    t.equal(isEnded, isDisabled)
    const reason = isDisabled ? /^All attempts of a delivery failed, and none/ : null
    t.match(await read(), { status: isDisabled ? 'disabled' : 'enabled', disabled_reason: reason })
    t.equal(receiver.received.length, 1)
  })

t.test('Retry-After of a 503 is waited for if it is longer than the delay', async (t) => {
  const respond: Receiver['respond'] = (response) => response.writeHead(503, { 'retry-after': '3600' }).end()
  const { sendTest, waitFor } = await openEndpoint(t, {}, respond)
  await sendTest()
  const [delivery] = await waitFor((all) => all.every(isAttempted))
  const delay = getDelay(delivery)
  t.ok(delay > 3_590_000 && delay < 3_610_000, `${delay} ms`)
})

t.test('what the owner may no longer read, or was removed, is not sent', async (t) => {
  const { receiver, endpoint, insert, waitFor } = await openEndpoint(t, { event_types: ['orders.created'] })
  const owner = await api.person('manager')
  await database.run('update webhook_endpoints set user_id = $1 where id = $2', [owner.id, endpoint.id])
  await createProduct()
  await app.events.assignAll()
  const product = await findEvent('products.created', owner.id)
  const session = await findEvent('sessions.created', owner.id)
  const seen = new Set<string>()
  for (const [role, status, eventId, error] of [
    ['member', 'active', product, 'the owner of the endpoint may no longer have webhooks'],
    ['manager', 'suspended', product, 'the owner of the endpoint is not active'],
    ['manager', 'active', session, 'the owner of the endpoint may not read the event'],
    ['manager', 'active', UNKNOWN_ID, 'the event was removed'],
  ] as const) {
    await database.run('update users set role = $1, status = $2 where id = $3', [role, status, owner.id])
    await insert(eventId, { type: 'orders.created' })
    const all = await waitFor((each) => each.length > seen.size && each.every(isSettled))
    const added = all.filter(({ id }) => !seen.has(id))
    t.match(added, [{ status: 'failed', error, attempts: 0 }])
    for (const { id } of added) seen.add(id)
  }
  t.equal(receiver.received.length, 0)
})

t.test('an owner who is no manager any more, or not active, gets no deliveries', async (t) => {
  const owner = await api.person('manager')
  const marker = await openEndpoint(t)
  const endpoint = await createEndpoint(owner.bearer, marker.receiver.url)
  t.teardown(() => admin.delete(`/webhook-endpoints/${endpoint.id}`))
  for (const [change, expected] of [
    [{ role: 'member' }, 0],
    [{ role: 'manager', status: 'suspended' }, 0],
    // Those of the time before are not made up for.
    [{ status: 'active' }, 1],
  ] as const) {
    t.equal((await admin.patch(`/users/${owner.id}`, change)).status, 200)
    await createProduct()
    await app.events.assignAll()
    t.equal((await readDeliveries(admin, endpoint.id)).length, expected)
  }
  await marker.waitFor((all) => all.length === 3)
})

t.test('both secrets sign during a rotation, and a further one drops the oldest', async (t) => {
  const { receiver, endpoint, path, sendTest } = await openEndpoint(t)
  const secrets = [endpoint.secret]
  const rotate = async () => secrets.push((await manager.bearer.post(`${path}/secrets`, {})).body.data.secret)
  const expire = () => database.run('update webhook_endpoints set previous_secret_expires_at = now()')
  for (const [change, expected] of [
    [rotate, [true, true]],
    [rotate, [false, true, true]],
    [expire, [false, false, true]],
  ] as const) {
    await change()
    receiver.received.length = 0
    await sendTest()
    const [webhook] = await receiver.waitFor(1)
    if (!webhook) throw new Error('nothing was received')
    const isSigned = secrets.map((secret) => {
      try {
        return Boolean(verify(secret, webhook))
      } catch {
        return false
      }
    })
    t.strictSame(isSigned, expected)
  }
})

t.test('a test has the endpoint as its data, in the version of the endpoint', async (t) => {
  const { receiver, endpoint, path, sendTest } = await openEndpoint(t, { api_version: 2 })
  const { status, body, headers } = await sendTest()
  const type = 'webhook-endpoints.test'
  t.match([status, body.data], [201, { event_type: type, status: 'pending', attempts: 0 }])
  t.equal(headers.get('location'), `${path}/deliveries/${body.data.id}`)
  const [webhook] = await receiver.waitFor(1)
  const data = { id: endpoint.id, type: 'webhook-endpoints', attributes: { secret: null } }
  const attributes = { type, resource_id: endpoint.id, previous: null, data }
  t.match(webhook?.body, { type, data: { id: body.data.event_id, attributes } })
  t.notMatch(webhook?.text, /secret_box|whsec/)
})

t.test('a delivery names an event that the owner may read, or a test', async (t) => {
  const { endpoint, path: endpointPath } = await openEndpoint(t)
  const path = `${endpointPath}/deliveries`
  await app.events.assignAll()
  const session = await findEvent('sessions.created', manager.id)
  for (const body of [
    {},
    { test: false },
    { event_id: UNKNOWN_ID, test: true },
    { event_id: 'x' },
    { event_id: session },
    { event_type: 'products.created' },
  ])
    t.equal((await manager.bearer.post(path, body)).status, 422, JSON.stringify(body))
  const unknown = await manager.bearer.post(path, { event_id: UNKNOWN_ID })
  t.match([unknown.status, unknown.body.error.details], [422, [{ field: 'event_id', code: 'NOT_FOUND' }]])
  const inVersion2 = { data: { type: 'deliveries', attributes: { test: true } } }
  t.equal((await manager.bearer.post(`/v2${path}`, inVersion2)).status, 201)
  const headers = { 'idempotency-key': 'delivery-1' }
  for (const _ of [1, 2]) t.equal((await manager.bearer.post(path, { test: true }, headers)).status, 201)
  t.equal((await readDeliveries(manager.bearer, endpoint.id)).length, 2, 'a repeated request sends none')

  t.strictSame((await other.bearer.get(path)).body.data, [])
  t.strictSame((await manager.bearer.get(`${path}?status=failed`)).body.data, [])
  const [{ id } = { id: '' }] = await readDeliveries(manager.bearer, endpoint.id)
  t.equal((await manager.bearer.get(`${path}/${id}`)).body.data.id, id)
  const body = { test: true }
  for (const [client, method, address, expected] of [
    [other.bearer, 'GET', `${path}/${id}`, 403],
    [manager.bearer, 'DELETE', `${path}/${id}`, 405],
    [other.bearer, 'POST', path, 403],
    [admin, 'POST', path, 201],
    [manager.bearer, 'POST', `/webhook-endpoints/${UNKNOWN_ID}/deliveries`, 404],
  ] as const) {
    const { status } = await client.call(method, address, method === 'POST' ? { body } : {})
    t.equal(status, expected, `${method} ${address}`)
  }
})
