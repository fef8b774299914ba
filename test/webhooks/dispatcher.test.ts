/** The dispatcher: slow and dead endpoints, several processes, crashes, shutdown, and what is removed. */
import t, { type Test } from 'tap'
import { createDatabase } from '../../drizzle/client/database.ts'
import { claim, endDisabled, pruneDeliveries } from '../../plugins/webhooks/delivery-store.ts'
import { readDue } from '../../plugins/webhooks/endpoint-store.ts'
import { APP_SECRET, type TestApp, testApp } from '../helpers/app.ts'
import { SERVER, testDatabase } from '../helpers/database.ts'
import { insertEvent, insertLargeEvents, stopEventWork } from '../helpers/events.ts'
import { createDeferred, waitUntil } from '../helpers/time.ts'
import {
  createEndpoint,
  type Receiver,
  readDeliveries,
  startReceiver,
  verify,
  waitForDeliveries,
} from '../helpers/webhooks.ts'

const LEASE_MS = 60_000
const LOCAL = 'http://127.0.0.1:9/'
const NEEDS_SERVER = { skip: !SERVER && 'needs several connections' }

/** The statements that wait for a lock. */
const SELECT_WAITING = `select 1 from pg_stat_activity
  where datname = current_database() and wait_event_type = 'Lock'`

/** Inserts tests of an endpoint that are due, or will be. */
const insertTests = (
  { database }: Pick<TestApp, 'database'>,
  endpoint: { id: string; user_id: string },
  count: number,
  due = 'now()',
) =>
  database.run(
    `insert into webhook_deliveries (endpoint_id, user_id, event_id, event_type, next_attempt_at)
     select $1, $2, gen_random_uuid(), 'webhook-endpoints.test', ${due} from generate_series(1, $3::int)`,
    [endpoint.id, endpoint.user_id, count],
  )

/** Counts deliveries by their state. */
const countStates = ({ database }: Pick<TestApp, 'database'>) =>
  database.run(
    'select status, error, attempts, count(*) as count from webhook_deliveries group by 1, 2, 3 order by 1',
  )

/** Starts an app, and creates an endpoint for a receiver. */
async function openEndpoint(t: Test, respond?: Receiver['respond'], settings = {}, overrides = {}) {
  const api = await testApp(t, settings, overrides)
  const receiver = await startReceiver(t)
  if (respond) receiver.respond = respond
  return { api, receiver, endpoint: await createEndpoint(api.admin, receiver.url) }
}

t.test(
  'endpoints of one owner without answers hold a quarter of the places, and delay no other',
  async (t) => {
    const { api, receiver: quick, endpoint: quickEndpoint } = await openEndpoint(t)
    const owner = await api.person('manager')
    const slow = await startReceiver(t)
    slow.respond = () => {}
    for (let i = 0; i < 20; i++)
      await insertTests(api, await createEndpoint(owner.bearer, slow.url), 50, `now() - interval '1 hour'`)
    await waitUntil(() => slow.received.length >= 12)
    await insertTests(api, quickEndpoint, 100)
    await quick.waitFor(100)
    t.equal(slow.received.length, 12, 'a quarter of 50 requests')
    const [sent] = await api.database.run(
      'select count(*) as count from webhook_deliveries where endpoint_id <> $1 and attempts > 0',
      [quickEndpoint.id],
    )
    t.equal(sent?.count, 12, 'only attempts that were sent count')
    // Its requests end, so that the app can close.
    slow.respond = (response) => response.end()
  },
)

t.test('a dead endpoint takes few attempts, and its deliveries are sent when it is back', async (t) => {
  const { api, receiver, endpoint } = await openEndpoint(t, (response) => response.destroy())
  const other = await startReceiver(t)
  const otherEndpoint = await createEndpoint(api.admin, other.url)
  // It was fast, so that several are claimed for each turn: those after a failed one are given back.
  await api.database.run('update webhook_endpoints set last_duration_ms = 5 where id = $1', [endpoint.id])
  await insertTests(api, endpoint, 100, `now() - interval '1 hour'`)
  await insertTests(api, otherEndpoint, 100)
  await other.waitFor(100)
  t.ok(receiver.received.length < 20, `${receiver.received.length} attempts`)
  await waitUntil(async () => {
    const [stored] = await api.database.run(
      'select sum(attempts)::int8 as attempts from webhook_deliveries where endpoint_id = $1',
      [endpoint.id],
    )
    return stored?.attempts === receiver.received.length
  })
  receiver.respond = (response) => response.end()
  // The others are due when their delays end.
  await waitUntil(async () => {
    const [sent] = await api.database.run(
      `select count(*) as count, max(attempts) as attempts from webhook_deliveries
       where endpoint_id = $1 and status = 'succeeded'`,
      [endpoint.id],
    )
    if (Number(sent?.attempts) > 2) throw new Error('A delivery has attempts that were not sent')
    return Number(sent?.count) >= 80
  })
})

t.test('the deliveries of a disabled endpoint end, and a test that runs keeps its result', async (t) => {
  const released = createDeferred()
  const { api, receiver, endpoint } = await openEndpoint(
    t,
    (response) => void released.promise.then(() => response.end()),
  )
  // A statement ends 10,000.
  await insertTests(api, endpoint, 10_010, `now() + interval '1 hour'`)
  await insertTests(api, endpoint, 1)
  await receiver.waitFor(1)
  await api.admin.patch(`/webhook-endpoints/${endpoint.id}`, { status: 'disabled' })
  while ((await endDisabled(api.database)) > 0);
  released.resolve()
  await waitUntil(async () => (await countStates(api)).some(({ status }) => status === 'succeeded'))
  t.strictSame(await countStates(api), [
    { status: 'failed', error: 'the endpoint is disabled', attempts: 0, count: 10_010 },
    { status: 'succeeded', error: null, attempts: 1, count: 1 },
  ])
  t.equal(receiver.received.length, 1)
  await insertTests(api, endpoint, 10, `now() + interval '1 hour'`)
  t.equal((await api.admin.delete(`/webhook-endpoints/${endpoint.id}`)).status, 204)
  t.strictSame(await countStates(api), [], 'they are deleted with the endpoint')
})

t.test('a claim has events of 8 MiB at most, the small ones first; the others stay due', async (t) => {
  const { app, admin, database } = await testApp(t)
  const [large, small] = [await createEndpoint(admin, LOCAL), await createEndpoint(admin, LOCAL)]
  await stopEventWork(app)
  await database.run('delete from webhook_deliveries')
  await insertLargeEvents(database, 12)
  await insertEvent(database)
  await app.events.assignAll()
  await database.run(
    `delete from webhook_deliveries as d using events as e where e.id = d.event_id
     and d.endpoint_id = case when e.bytes < 100000 then $1::uuid else $2::uuid end`,
    [large.id, small.id],
  )
  const wanted = { [large.id]: 20, [small.id]: 20 }
  const first = await claim(database, wanted, LEASE_MS)
  t.ok(first.some(({ endpoint_id }) => endpoint_id === small.id))
  const [second, third] = [await claim(database, wanted, LEASE_MS), await claim(database, wanted, LEASE_MS)]
  t.same([first.length, second.length, third.length], [9, 4, 0])
})

t.test('events get their positions although an endpoint is deleted in between', NEEDS_SERVER, async (t) => {
  const { app, admin, database } = await testApp(t)
  const [deleted, kept] = [await createEndpoint(admin, LOCAL), await createEndpoint(admin, LOCAL)]
  await stopEventWork(app)
  await insertEvent(database)
  let assigned: Promise<void> = Promise.resolve()
  await database.transaction(async (tx) => {
    await tx.run('delete from webhook_endpoints where id = $1', [deleted.id])
    assigned = app.events.assignAll()
    await waitUntil(async () => (await database.run(SELECT_WAITING)).length > 0)
  })
  await assigned
  t.same(await database.run('select endpoint_id from webhook_deliveries'), [{ endpoint_id: kept.id }])
})

t.test('two processes make each attempt once', NEEDS_SERVER, async (t) => {
  const { api, receiver, endpoint } = await openEndpoint(t)
  await testApp(t, {}, { database: api.database })
  await insertTests(api, endpoint, 2_000)
  await receiver.waitFor(2_000)
  await waitUntil(async () => (await countStates(api)).every(({ status }) => status === 'succeeded'))
  t.match(await countStates(api), [{ attempts: 1, count: 2_000 }])
  t.equal(receiver.received.length, 2_000)
  t.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 2_000)
})

t.test('a claim counts the attempt and begins a lease, and claims at the same time share', async (t) => {
  const api = await testApp(t)
  const endpoint = await createEndpoint(api.admin, LOCAL)
  await stopEventWork(api.app)
  const claimSome = () => claim(api.database, { [endpoint.id]: 30 }, LEASE_MS)
  await insertTests(api, endpoint, 300, `now() + interval '1 hour'`)
  t.strictSame(await readDue(api.database, { withinMs: 1_000 }), [])
  const due = { id: endpoint.id, last_duration_ms: null, is_failing: false }
  t.match(await readDue(api.database, { withinMs: 4_000_000 }), [due])
  t.strictSame(await claimSome(), [])
  await api.database.run('update webhook_deliveries set next_attempt_at = now()')
  const claimed = (await Promise.all(Array.from({ length: 10 }, claimSome))).flat()
  t.equal(new Set(claimed.map(({ id }) => id)).size, 300, 'rows that another has locked are skipped')
  t.equal(claimed.length, 300)
  t.match(await countStates(api), [{ status: 'pending', attempts: 1, count: 300 }])
  t.strictSame(await claimSome(), [])
})

t.test('the attempt of a process that died follows when its lease ends', async (t) => {
  const { api, receiver, endpoint } = await openEndpoint(t)
  // Due later, so that this app does not take it.
  await insertTests(api, endpoint, 1, `now() + interval '1 hour'`)
  // What a process leaves that is killed during the first attempt.
  await api.database.run(
    `update webhook_deliveries set attempts = 1, next_attempt_at = now() + interval '200 ms'`,
  )
  const [webhook] = await receiver.waitFor(1)
  const [delivery] = await waitForDeliveries(api.admin, endpoint.id, ([first]) => first?.status !== 'pending')
  t.match(delivery, { status: 'succeeded', attempts: 2, event_id: webhook?.headers['webhook-id'] })
})

t.test('a shutdown waits for running attempts, and begins no others', async (t) => {
  const released = createDeferred()
  const { api, receiver, endpoint } = await openEndpoint(
    t,
    (response) => void released.promise.then(() => response.end()),
  )
  await insertTests(api, endpoint, 50)
  await receiver.waitFor(1)
  const { database } = api
  let stored: unknown
  // Runs after the dispatcher has stopped, and before the database closes.
  const { close } = database
  database.close = async () => {
    database.close = close
    stored = await countStates(api)
    await database.close()
  }
  const closing = api.app.close()
  // By then the dispatcher begins no attempts: the app has paused its work.
  await waitUntil(() => !api.app.server.listening)
  released.resolve()
  await closing
  t.match(stored, [
    { status: 'pending', attempts: 0, count: 49 },
    { status: 'succeeded', attempts: 1, count: 1 },
  ])
})

t.test('deliveries are removed after 30 days', async (t) => {
  const { admin, database } = await testApp(t)
  const endpoint = await createEndpoint(admin, LOCAL)
  const [old, recent] = [31, 29].map((days) => {
    const time = (Date.now() - days * 86_400_000).toString(16).padStart(12, '0')
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`
  })
  await database.run(
    `insert into webhook_deliveries (id, endpoint_id, user_id, event_id, event_type, status)
     select id, $3, $4, id, 'webhook-endpoints.test', 'failed' from unnest(array[$1::uuid, $2::uuid]) as id`,
    [old ?? '', recent ?? '', endpoint.id, endpoint.user_id],
  )
  await pruneDeliveries(database, () => true)
  const kept = await readDeliveries(admin, endpoint.id)
  t.strictSame(
    kept.map(({ id }) => id),
    [recent],
  )
})

t.test(
  'after a change of APP_SECRET, the former one decrypts until secrets are encrypted again',
  async (t) => {
    const opened = await testDatabase(t)
    const overrides = { database: createDatabase({ ...opened.$client, close: async () => {} }) }
    const { api, receiver, endpoint } = await openEndpoint(t, undefined, {}, overrides)
    await api.app.close()
    const APP_SECRET_PREVIOUS = APP_SECRET
    for (const settings of [{ APP_SECRET_PREVIOUS }, {}]) {
      const { app } = await testApp(
        t,
        { APP_SECRET: 'another-secret-another-secret-another', ...settings },
        overrides,
      )
      receiver.received.length = 0
      await insertTests(api, endpoint, 1)
      const [webhook] = await receiver.waitFor(1)
      t.ok(webhook && verify(endpoint.secret, webhook))
      await app.webhooks.maintain()
      await app.close()
    }
  },
)

t.test('a secret that cannot be decrypted sends nothing, and the delivery is tried again', async (t) => {
  const { api, receiver, endpoint } = await openEndpoint(t)
  await api.database.run(`update webhook_endpoints set secret_box = 'v1.00000000.AAAA'`)
  await insertTests(api, endpoint, 1)
  const [delivery] = await waitForDeliveries(api.admin, endpoint.id, (all) => all.every(({ error }) => error))
  const error = 'the secret of the endpoint cannot be decrypted'
  t.match(delivery, { status: 'pending', attempts: 0, error })
  t.equal(receiver.received.length, 0)
})
