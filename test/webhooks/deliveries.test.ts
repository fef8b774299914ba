/** Deliveries: which events are sent to which endpoint, in which form, and what follows from the response. */
import t from 'tap'
import { type Client, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { waitUntil } from '../helpers/wait-until.ts'
import { respondWith, startReceiver, verify } from '../helpers/webhook-receiver.ts'
import { createEndpoint, makeDue, readDeliveries, waitForDeliveries } from '../helpers/webhooks.ts'

const api = await testApp(t)
const { database } = api
const manager = await api.person('manager')
const other = await api.person('manager')

let count = 0
const createProduct = async (): Promise<string> => {
  count += 1
  const reply = await api.admin.post('/products', { sku: `W-${count}`, name: 'Tea', price_amount: 5 })
  if (reply.status !== 201) throw new Error(reply.text)
  return reply.body.data.id
}

const isSettled = ({ status }: { status: string }) => status !== 'pending'
/** Whether an attempt of each has ended. */
const isAttempted = ({ duration_ms, error }: { duration_ms: unknown; error: unknown }) =>
  duration_ms !== null || error !== null

t.test('an event is sent once, signed, as GET /events/{id} returns it, in each version', async (t) => {
  for (const version of [1, 2]) {
    const receiver = await startReceiver(t)
    const endpoint = await createEndpoint(manager.bearer, receiver.url, { api_version: version })
    const id = await createProduct()
    await api.admin.patch(`/products/${id}`, { name: 'Green tea' })
    const received = await receiver.waitFor(2)
    for (const webhook of received) {
      t.match(verify(endpoint.secret, webhook), { type: /^products\./ })
      t.throws(() => verify('whsec_AAAA', webhook))
      const { body, headers } = webhook
      t.match(headers, { 'content-type': 'application/json; charset=utf-8', 'user-agent': /^resource-api\// })
      t.strictSame(Object.keys(body), ['type', 'timestamp', 'data'])
      const event = await manager.bearer.get(`/v${version}/events/${headers['webhook-id']}`)
      t.strictSame(body.data, event.body.data)
      t.equal(body.timestamp, (body.data.attributes ?? body.data).created_at)
    }
    t.strictSame(received.map(({ body }) => body.type).sort(), ['products.created', 'products.updated'])
    const deliveries = await waitForDeliveries(manager.bearer, endpoint.id, (all) => all.every(isSettled))
    t.equal(deliveries.length, 2)
    t.match(deliveries[0], {
      endpoint_id: endpoint.id,
      status: 'succeeded',
      attempts: 1,
      next_attempt_at: null,
      response_status: 200,
      response_body: '',
      error: null,
      delivered_at: /Z$/,
    })
    t.equal(receiver.received.length, 2)
    // The endpoint is updated after its deliveries.
    await waitUntil(async () => {
      const { body } = await manager.bearer.get(`/webhook-endpoints/${endpoint.id}`)
      return typeof body.data.last_delivered_at === 'string'
    })
    t.equal((await manager.bearer.delete(`/webhook-endpoints/${endpoint.id}`)).status, 204)
  }
})

t.test('an endpoint receives only the types that it names and events that its owner may read', async (t) => {
  const receiver = await startReceiver(t)
  const created = ['orders.*', '*', 'products.updated'].map((type) =>
    createEndpoint(manager.bearer, receiver.url, { event_types: [type] }),
  )
  const foreign = createEndpoint(other.bearer, receiver.url, {
    event_types: ['sessions.*', 'webhook-endpoints.*'],
  })
  const admin = createEndpoint(api.admin, receiver.url, { event_types: ['webhook-endpoints.created'] })
  const [orders, all, updates, others, admins] = await Promise.all([...created, foreign, admin])
  // A manager reads no sessions and endpoints of others; an admin does.
  const mine = await createEndpoint(manager.bearer, receiver.url, { status: 'disabled' })
  const id = await createProduct()
  const marker = await createEndpoint(manager.bearer, receiver.url)
  await createProduct()
  await waitForDeliveries(manager.bearer, marker.id, (list) => list.length === 1)
  const types = async (client: Client, endpoint: { id: string }) =>
    (await readDeliveries(client, endpoint.id)).map(({ event_type }) => event_type)
  t.strictSame(await types(manager.bearer, orders), [])
  t.strictSame(await types(manager.bearer, updates), [])
  t.strictSame(await types(manager.bearer, mine), [])
  const ofAll = await types(manager.bearer, all)
  t.ok(ofAll.includes('products.created'))
  t.ok(ofAll.includes('webhook-endpoints.created'), 'the events of an own endpoint')
  t.strictSame(
    (await types(other.bearer, others)).filter((type) => type.startsWith('webhook-endpoints')).length,
    1,
    'of the own endpoint alone',
  )
  t.ok((await types(api.admin, admins)).length >= 2)
  t.ok(id)
  for (const endpoint of [orders, all, updates, mine, marker])
    await manager.bearer.delete(`/webhook-endpoints/${endpoint.id}`)
  await other.bearer.delete(`/webhook-endpoints/${others.id}`)
  await api.admin.delete(`/webhook-endpoints/${admins.id}`)
})

t.test(
  'a failed attempt is repeated after its delay, with the same id, and the last one fails',
  async (t) => {
    const receiver = await startReceiver(t)
    receiver.respond = (response) => response.writeHead(500).end('not now')
    const endpoint = await createEndpoint(manager.bearer, receiver.url)
    await createProduct()
    const [first] = await waitForDeliveries(manager.bearer, endpoint.id, (all) => all.some(isAttempted))
    t.match(first, {
      status: 'pending',
      attempts: 1,
      response_status: 500,
      response_body: 'not now',
      error: null,
    })
    const delay = Date.parse(first.next_attempt_at) - Date.parse(first.updated_at)
    t.ok(delay > 4_400 && delay < 5_600, `${delay} ms`)
    const failing = await manager.bearer.get(`/webhook-endpoints/${endpoint.id}`)
    t.type(failing.body.data.failing_since, 'string')
    t.equal(failing.headers.get('etag')?.split('-')[0], '"1', 'no new revision')

    await database.run('update webhook_deliveries set attempts = 10 where endpoint_id = $1', [endpoint.id])
    await makeDue(database, endpoint.id)
    const [last] = await waitForDeliveries(manager.bearer, endpoint.id, (all) => all.every(isSettled))
    t.match(last, { status: 'failed', attempts: 11, next_attempt_at: null, delivered_at: null })
    const ids = receiver.received.map(({ headers }) => headers['webhook-id'])
    t.strictSame(ids, [first.event_id, first.event_id])

    receiver.respond = respondWith(204)
    const again = await manager.bearer.post(`/webhook-endpoints/${endpoint.id}/deliveries`, {
      event_id: first.event_id,
    })
    t.equal(again.status, 201)
    await waitForDeliveries(manager.bearer, endpoint.id, (all) => all.length === 2 && all.every(isSettled))
    // Stored after the delivery.
    await waitUntil(async () => {
      const recovered = await manager.bearer.get(`/webhook-endpoints/${endpoint.id}`)
      return recovered.body.data.failing_since === null
    })
    t.equal(receiver.received.at(-1)?.headers['webhook-id'], first.event_id)
    await manager.bearer.delete(`/webhook-endpoints/${endpoint.id}`)
  },
)

t.test('redirects are not followed', async (t) => {
  const [receiver, target] = [await startReceiver(t), await startReceiver(t)]
  receiver.respond = (response) => response.writeHead(307, { location: target.url }).end()
  const endpoint = await createEndpoint(manager.bearer, receiver.url)
  await manager.bearer.post(`/webhook-endpoints/${endpoint.id}/deliveries`, { test: true })
  const [delivery] = await waitForDeliveries(manager.bearer, endpoint.id, (all) => all.every(isAttempted))
  t.match(delivery, { status: 'pending', response_status: 307 })
  t.equal(target.received.length, 0)
  await manager.bearer.delete(`/webhook-endpoints/${endpoint.id}`)
})

t.test(
  '410 disables the endpoint with an event of the system, and other deliveries are not sent',
  async (t) => {
    const receiver = await startReceiver(t)
    receiver.respond = respondWith(410)
    const endpoint = await createEndpoint(manager.bearer, receiver.url)
    const path = `/webhook-endpoints/${endpoint.id}`
    await manager.bearer.post(`${path}/deliveries`, { test: true })
    await waitForDeliveries(manager.bearer, endpoint.id, (all) => all.every(isSettled))
    const disabled = await (async () => {
      for (;;) {
        const { data } = (await manager.bearer.get(path)).body
        if (data.status === 'disabled') return data
      }
    })()
    t.equal(disabled.disabled_reason, 'The endpoint answered 410 Gone')
    t.equal((await manager.bearer.post(`${path}/deliveries`, { test: true })).status, 409)
    await api.app.events.assignAll()
    const [event] = await database.run(
      `select credential, actor_id, previous, columns ->> 'status' as status from events
     where resource_id = $1 and type = 'webhook-endpoints.updated'`,
      [endpoint.id],
    )
    t.strictSame(event, {
      credential: 'system',
      actor_id: null,
      previous: { status: 'enabled', disabled_reason: null },
      status: 'disabled',
    })
    await createProduct()
    t.equal((await readDeliveries(manager.bearer, endpoint.id)).length, 1)
    const enabled = await manager.bearer.patch(path, { status: 'enabled' })
    t.match(enabled.body.data, { status: 'enabled', disabled_reason: null })
    await manager.bearer.delete(path)
  },
)

t.test(
  'an endpoint is disabled when a delivery has used all attempts and none succeeded for 5 days',
  async (t) => {
    const receiver = await startReceiver(t)
    receiver.respond = respondWith(503)
    const cases = [
      { failing: 121, attempts: 0, isDisabled: false, why: 'the first failure after a quiet time' },
      { failing: 119, attempts: 10, isDisabled: false, why: 'the last attempt, before 5 days have passed' },
      { failing: 121, attempts: 10, isDisabled: true, why: 'the last attempt, after 5 days' },
    ]
    for (const { failing, attempts, isDisabled, why } of cases) {
      const endpoint = await createEndpoint(manager.bearer, receiver.url)
      const path = `/webhook-endpoints/${endpoint.id}`
      await database.run(
        `update webhook_endpoints set failing_since = now() - $2 * interval '1 hour', last_delivered_at = now() - interval '1 year'
       where id = $1`,
        [endpoint.id, failing],
      )
      await database.run(
        `insert into webhook_deliveries (endpoint_id, user_id, event_id, event_type, attempts, next_attempt_at)
       values ($1, $2, gen_random_uuid(), 'webhook-endpoints.test', $3, now()),
         ($1, $2, gen_random_uuid(), 'webhook-endpoints.test', 0, now() + interval '1 hour')`,
        [endpoint.id, endpoint.user_id, attempts],
      )
      await waitForDeliveries(manager.bearer, endpoint.id, (all) => all.some(isAttempted))
      if (isDisabled) await waitForDeliveries(manager.bearer, endpoint.id, (all) => all.every(isSettled))
      t.match(
        (await manager.bearer.get(path)).body.data,
        isDisabled
          ? { status: 'disabled', disabled_reason: /^All attempts of a delivery failed, and none/ }
          : { status: 'enabled', disabled_reason: null },
        why,
      )
      if (isDisabled) {
        const deliveries = await readDeliveries(manager.bearer, endpoint.id)
        t.ok(
          deliveries.some(({ status, error }) => status === 'failed' && error === 'the endpoint is disabled'),
        )
      }
      await manager.bearer.delete(path)
    }
    t.equal(receiver.received.length, cases.length)
  },
)

t.test('Retry-After of a 503 is waited for if it is longer than the delay', async (t) => {
  const receiver = await startReceiver(t)
  receiver.respond = (response) => response.writeHead(503, { 'retry-after': '3600' }).end()
  const endpoint = await createEndpoint(manager.bearer, receiver.url)
  await manager.bearer.post(`/webhook-endpoints/${endpoint.id}/deliveries`, { test: true })
  const [delivery] = await waitForDeliveries(manager.bearer, endpoint.id, (all) => all.every(isAttempted))
  const delay = Date.parse(delivery?.next_attempt_at) - Date.parse(delivery?.updated_at)
  t.ok(delay > 3_590_000 && delay < 3_610_000, `${delay} ms`)
  await manager.bearer.delete(`/webhook-endpoints/${endpoint.id}`)
})

t.test('an event that the owner may no longer read is not sent', async (t) => {
  const receiver = await startReceiver(t)
  const owner = await api.person('manager')
  const endpoint = await createEndpoint(owner.bearer, receiver.url, { event_types: ['orders.created'] })
  const changes = [
    { set: `role = 'member'`, error: 'the owner of the endpoint may no longer have webhooks' },
    { set: `status = 'suspended', role = 'manager'`, error: 'the owner of the endpoint is not active' },
  ]
  for (const { set, error } of changes) {
    await api.app.events.assignAll()
    await database.run(`update users set ${set} where id = $1`, [owner.id])
    await api.app.events.assignAll()
    const [event] = await database.run(`select id from events where type = 'products.created' limit 1`)
    await database.run(
      `insert into webhook_deliveries (endpoint_id, user_id, event_id, event_type, next_attempt_at)
       values ($1, $2, $3, 'products.created', now())`,
      [endpoint.id, owner.id, String(event?.id)],
    )
    const deliveries = await waitForDeliveries(api.admin, endpoint.id, (all) => all.every(isSettled))
    t.match(deliveries.at(-1), { status: 'failed', error, attempts: 0 })
  }
  await createProduct()
  await api.app.events.assignAll()
  await database.run(`update users set status = 'active' where id = $1`, [owner.id])
  await api.app.events.assignAll()
  await database.run(
    `insert into webhook_deliveries (endpoint_id, user_id, event_id, event_type, next_attempt_at)
     select $1, $2, id, type, now() from events where type = 'sessions.created' and owner_id <> $2 limit 1`,
    [endpoint.id, owner.id],
  )
  await database.run(
    `insert into webhook_deliveries (endpoint_id, user_id, event_id, event_type, next_attempt_at)
     values ($1, $2, $3, 'orders.created', now())`,
    [endpoint.id, owner.id, UNKNOWN_ID],
  )
  const deliveries = await waitForDeliveries(api.admin, endpoint.id, (all) => all.every(isSettled))
  // Both may have been created in the same millisecond.
  t.ok(deliveries.slice(-2).some((each) => each.error === 'the event was removed'))
  t.equal(receiver.received.length, 0)
})

t.test('an owner who is no manager any more, or not active, gets no deliveries', async (t) => {
  const receiver = await startReceiver(t)
  const owner = await api.person('manager')
  const endpoint = await createEndpoint(owner.bearer, receiver.url)
  const marker = await createEndpoint(manager.bearer, receiver.url)
  const createAfter = async (change: object) => {
    t.equal((await api.admin.patch(`/users/${owner.id}`, change)).status, 200)
    await createProduct()
    await api.app.events.assignAll()
  }
  await createAfter({ role: 'member' })
  await createAfter({ role: 'manager', status: 'suspended' })
  t.strictSame(await readDeliveries(api.admin, endpoint.id), [])
  t.equal((await readDeliveries(manager.bearer, marker.id)).length, 2)
  await createAfter({ status: 'active' })
  t.equal(
    (await readDeliveries(api.admin, endpoint.id)).length,
    1,
    'those of the time before are not made up for',
  )
  await waitForDeliveries(manager.bearer, marker.id, (all) => all.every(isSettled))
  for (const { id } of [endpoint, marker]) await api.admin.delete(`/webhook-endpoints/${id}`)
})

t.test('last_delivered_at and failing_since change without an event', async (t) => {
  const receiver = await startReceiver(t)
  receiver.respond = respondWith(500)
  const endpoint = await createEndpoint(manager.bearer, receiver.url)
  const path = `/webhook-endpoints/${endpoint.id}`
  const hasValue = async (field: string) => (await manager.bearer.get(path)).body.data[field] !== null
  await manager.bearer.post(`${path}/deliveries`, { test: true })
  await waitUntil(() => hasValue('failing_since'))
  receiver.respond = respondWith(200)
  await makeDue(database, endpoint.id)
  await waitUntil(() => hasValue('last_delivered_at'))
  t.match((await manager.bearer.get(path)).body.data, {
    failing_since: null,
    updated_at: endpoint.updated_at,
  })
  await api.app.events.assignAll()
  const events = (await api.admin.get(`/events?resource_id=${endpoint.id}`)).body.data
  t.strictSame(
    events.map(({ type }: { type: string }) => type),
    ['webhook-endpoints.created'],
  )
  await manager.bearer.delete(path)
})

t.test('a further rotation drops the oldest secret', async (t) => {
  const receiver = await startReceiver(t)
  const endpoint = await createEndpoint(manager.bearer, receiver.url)
  const path = `/webhook-endpoints/${endpoint.id}`
  const rotate = async () => (await manager.bearer.post(`${path}/secrets`, {})).body.data.secret
  const [second, third] = [await rotate(), await rotate()]
  await manager.bearer.post(`${path}/deliveries`, { test: true })
  const [webhook] = await receiver.waitFor(1)
  if (!webhook) throw new Error('nothing was received')
  t.ok(verify(third, webhook))
  t.ok(verify(second, webhook))
  t.throws(() => verify(endpoint.secret, webhook))
  t.equal(String(webhook.headers['webhook-signature']).split(' ').length, 2)
  await manager.bearer.delete(path)
})

t.test('what was missed is sent again, from the events since a time', async (t) => {
  const receiver = await startReceiver(t)
  await createProduct()
  const endpoint = await createEndpoint(manager.bearer, receiver.url, { status: 'disabled' })
  const path = `/webhook-endpoints/${endpoint.id}`
  const missed = [await createProduct(), await createProduct()]
  await api.app.events.assignAll()
  await manager.bearer.patch(path, { status: 'enabled' })
  const query = `sort=position&type=products.*&created_after=${endpoint.created_at}`
  const events = (await manager.bearer.get(`/events?${query}`)).body.data
  t.strictSame(
    events.map(({ resource_id }: { resource_id: string }) => resource_id),
    missed,
  )
  for (const { id } of events) {
    for (const headers of [{ 'idempotency-key': `replay-${id}` }, { 'idempotency-key': `replay-${id}` }])
      t.equal((await manager.bearer.post(`${path}/deliveries`, { event_id: id }, headers)).status, 201)
  }
  await waitForDeliveries(manager.bearer, endpoint.id, (all) => all.length === 2 && all.every(isSettled))
  const received = receiver.received.map(({ headers }) => String(headers['webhook-id']))
  t.strictSame(received.sort(), events.map(({ id }: { id: string }) => id).sort())
  await manager.bearer.delete(path)
})

t.test('during a rotation both secrets sign', async (t) => {
  const receiver = await startReceiver(t)
  const endpoint = await createEndpoint(manager.bearer, receiver.url)
  const path = `/webhook-endpoints/${endpoint.id}`
  const { secret } = (await manager.bearer.post(`${path}/secrets`, {})).body.data
  await manager.bearer.post(`${path}/deliveries`, { test: true })
  const [during] = await receiver.waitFor(1)
  if (!during) throw new Error('nothing was received')
  t.ok(verify(secret, during))
  t.ok(verify(endpoint.secret, during))
  await database.run(`update webhook_endpoints set previous_secret_expires_at = now() where id = $1`, [
    endpoint.id,
  ])
  await manager.bearer.post(`${path}/deliveries`, { test: true })
  const [, after] = await receiver.waitFor(2)
  if (!after) throw new Error('nothing was received')
  t.ok(verify(secret, after))
  t.throws(() => verify(endpoint.secret, after))
  await manager.bearer.delete(path)
})

t.test('a test has the endpoint as its data, in the version of the endpoint', async (t) => {
  const receiver = await startReceiver(t)
  const endpoint = await createEndpoint(manager.bearer, receiver.url, { api_version: 2 })
  const path = `/webhook-endpoints/${endpoint.id}`
  const created = await manager.bearer.post(`${path}/deliveries`, { test: true })
  t.equal(created.status, 201)
  t.match(created.body.data, { event_type: 'webhook-endpoints.test', status: 'pending', attempts: 0 })
  t.equal(created.headers.get('location'), `${path}/deliveries/${created.body.data.id}`)
  const [webhook] = await receiver.waitFor(1)
  if (!webhook) throw new Error('nothing was received')
  const { data, type } = webhook.body
  t.equal(type, 'webhook-endpoints.test')
  t.equal(data.id, created.body.data.event_id)
  t.match(data.attributes, { type: 'webhook-endpoints.test', resource_id: endpoint.id, previous: null })
  t.match(data.attributes.data, { id: endpoint.id, type: 'webhook-endpoints', attributes: { secret: null } })
  t.notMatch(webhook.text, /secret_box|whsec/)
  await manager.bearer.delete(path)
})

t.test('a delivery names an event that the owner may read, or a test', async (t) => {
  const receiver = await startReceiver(t)
  const endpoint = await createEndpoint(manager.bearer, receiver.url)
  const path = `/webhook-endpoints/${endpoint.id}/deliveries`
  await api.app.events.assignAll()
  const [session] = await database.run(
    `select id from events where type = 'sessions.created' and owner_id <> $1 limit 1`,
    [manager.id],
  )
  const bodies = [
    {},
    { test: false },
    { event_id: UNKNOWN_ID },
    { event_id: UNKNOWN_ID, test: true },
    { event_id: 'x' },
    { event_id: session?.id },
    { event_type: 'products.created' },
  ]
  for (const body of bodies)
    t.equal((await manager.bearer.post(path, body)).status, 422, JSON.stringify(body))
  const { details } = (await manager.bearer.post(path, { event_id: UNKNOWN_ID })).body.error
  t.match(details, [{ field: 'event_id', code: 'NOT_FOUND' }])
  t.equal(
    (await manager.bearer.post(`/v2${path}`, { data: { type: 'deliveries', attributes: { test: true } } }))
      .status,
    201,
  )
  t.equal((await other.bearer.post(path, { test: true })).status, 403)
  t.equal((await api.admin.post(path, { test: true })).status, 201)
  t.equal(
    (await manager.bearer.post(`/webhook-endpoints/${UNKNOWN_ID}/deliveries`, { test: true })).status,
    404,
  )
  t.strictSame((await other.bearer.get(path)).body.data, [])
  const [first] = await readDeliveries(manager.bearer, endpoint.id)
  t.equal((await manager.bearer.get(`${path}/${first?.id}`)).body.data.id, first?.id)
  t.equal((await other.bearer.get(`${path}/${first?.id}`)).status, 403)
  t.equal((await manager.bearer.delete(`${path}/${first?.id}`)).status, 405)
  t.equal((await manager.bearer.get(`${path}?status=failed`)).body.data.length, 0)
  await manager.bearer.delete(`/webhook-endpoints/${endpoint.id}`)
})

t.test('a repeated request for a delivery sends it once', async (t) => {
  const receiver = await startReceiver(t)
  const endpoint = await createEndpoint(manager.bearer, receiver.url)
  const path = `/webhook-endpoints/${endpoint.id}/deliveries`
  const headers = { 'idempotency-key': 'delivery-1' }
  const first = await manager.bearer.post(path, { test: true }, headers)
  const second = await manager.bearer.post(path, { test: true }, headers)
  t.equal(first.body.data.id, second.body.data.id)
  t.equal((await readDeliveries(manager.bearer, endpoint.id)).length, 1)
  await manager.bearer.delete(`/webhook-endpoints/${endpoint.id}`)
})
