/** The dispatcher: slow and dead endpoints, several processes, crashes, shutdown, and what is removed. */

import t from 'tap'
import { v7 as uuid } from 'uuid'
import { createDatabase } from '../../drizzle/client/database.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import { claim, endDisabled, pruneDeliveries, readDue } from '../../plugins/webhooks/delivery-store.ts'
import { APP_SECRET, testApp } from '../helpers/app.ts'
import { SERVER, testDatabase } from '../helpers/database.ts'
import { createDeferred } from '../helpers/deferred.ts'
import { insertEvent, insertLargeEvents, stopEventWork } from '../helpers/events.ts'
import { waitUntil } from '../helpers/wait-until.ts'
import { startReceiver, verify } from '../helpers/webhook-receiver.ts'
import { createEndpoint, readDeliveries, waitForDeliveries } from '../helpers/webhooks.ts'

const LEASE_MS = 60_000

const LOCAL = 'http://127.0.0.1:9/'

/** The statements that wait for a lock. */
const SELECT_WAITING = `select 1 from pg_stat_activity
  where datname = current_database() and wait_event_type = 'Lock'`

/** Inserts tests of an endpoint that are due, or will be. */
const insertTests = (
  database: Connection,
  endpoint: { id: string; user_id: string },
  count: number,
  due = 'now()',
) =>
  database.run(
    `insert into webhook_deliveries (endpoint_id, user_id, event_id, event_type, next_attempt_at)
     select $1, $2, gen_random_uuid(), 'webhook-endpoints.test', ${due} from generate_series(1, $3::int)`,
    [endpoint.id, endpoint.user_id, count],
  )

t.test(
  'endpoints of one owner that do not answer hold a quarter of the places, and delay no other',
  async (t) => {
    const api = await testApp(t)
    const owner = await api.person('manager')
    const [slow, quick] = [await startReceiver(t), await startReceiver(t)]
    // Never answers.
    slow.respond = () => {}
    for (let i = 0; i < 20; i++) {
      const endpoint = await createEndpoint(owner.bearer, slow.url)
      await insertTests(api.database, endpoint, 50, `now() - interval '1 hour'`)
    }
    await waitUntil(() => slow.received.length >= 12)
    const quickEndpoint = await createEndpoint(api.admin, quick.url)
    await insertTests(api.database, quickEndpoint, 100)
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
  const api = await testApp(t)
  const [receiver, other] = [await startReceiver(t), await startReceiver(t)]
  receiver.respond = (response) => response.destroy()
  const endpoint = await createEndpoint(api.admin, receiver.url)
  const otherEndpoint = await createEndpoint(api.admin, other.url)
  // It was fast, so that several are claimed for each turn: those after a failed one are given back.
  await api.database.run('update webhook_endpoints set last_duration_ms = 5 where id = $1', [endpoint.id])
  await api.database.transaction(async (tx) => {
    await insertTests(tx, endpoint, 500, `now() - interval '1 hour'`)
    await insertTests(tx, otherEndpoint, 500)
  })
  await other.waitFor(500)
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
  const countSent = `select count(*) as count, max(attempts) as attempts from webhook_deliveries
    where endpoint_id = $1 and status = 'succeeded'`
  await waitUntil(async () => {
    const [sent] = await api.database.run(countSent, [endpoint.id])
    return Number(sent?.count) >= 480
  })
  const [counts] = await api.database.run(countSent, [endpoint.id])
  t.ok(Number(counts?.attempts) <= 2, 'each has the attempts that were sent')
})

t.test(
  'the deliveries that wait for a disabled endpoint end, and a test that runs keeps its result',
  async (t) => {
    const api = await testApp(t)
    const receiver = await startReceiver(t)
    const released = createDeferred()
    receiver.respond = async (response) => {
      await released.promise
      response.end()
    }
    const endpoint = await createEndpoint(api.admin, receiver.url)
    await insertTests(api.database, endpoint, 12_000, `now() + interval '1 hour'`)
    await insertTests(api.database, endpoint, 1)
    await receiver.waitFor(1)
    await api.admin.patch(`/webhook-endpoints/${endpoint.id}`, { status: 'disabled' })
    while ((await endDisabled(api.database)) > 0);
    released.resolve()
    const count = async () =>
      await api.database.run(
        'select status, error, attempts, count(*) as count from webhook_deliveries group by 1, 2, 3 order by 1',
      )
    await waitUntil(async () => (await count()).some(({ status }) => status === 'succeeded'))
    t.strictSame(await count(), [
      { status: 'failed', error: 'the endpoint is disabled', attempts: 0, count: 12_000 },
      { status: 'succeeded', error: null, attempts: 1, count: 1 },
    ])
    t.equal(receiver.received.length, 1)
  },
)

t.test('an endpoint with 20,000 deliveries is deleted with them', async (t) => {
  const api = await testApp(t)
  const endpoint = await createEndpoint(api.admin, 'http://127.0.0.1:9/')
  await insertTests(api.database, endpoint, 20_000, `now() + interval '1 hour'`)
  t.equal((await api.admin.delete(`/webhook-endpoints/${endpoint.id}`)).status, 204)
  t.strictSame(await api.database.run('select 1 from webhook_deliveries limit 1'), [])
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
  const counts: number[] = []
  for (let i = 0; i < 3; i += 1) {
    const claimed = await claim(database, wanted, LEASE_MS)
    counts.push(claimed.length)
    if (i === 0) t.ok(claimed.some(({ endpoint_id }) => endpoint_id === small.id))
  }
  t.same(counts, [9, 4, 0])
})

t.test(
  'events get their positions although an endpoint is deleted in between',
  { skip: !SERVER && 'needs several connections' },
  async (t) => {
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
  },
)

t.test('two processes make each attempt once', { skip: !SERVER }, async (t) => {
  const first = await testApp(t)
  await testApp(t, {}, { database: first.database })
  const receiver = await startReceiver(t)
  const endpoint = await createEndpoint(first.admin, receiver.url)
  await insertTests(first.database, endpoint, 2_000)
  await receiver.waitFor(2_000)
  const isPending = `select 1 from webhook_deliveries where status <> 'succeeded' limit 1`
  await waitUntil(async () => (await first.database.run(isPending)).length === 0)
  t.equal(receiver.received.length, 2_000)
  t.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 2_000)
  const [attempts] = await first.database.run('select max(attempts) as most from webhook_deliveries')
  t.equal(attempts?.most, 1)
})

t.test('claims at the same time share the deliveries', { skip: !SERVER }, async (t) => {
  const database = await testDatabase(t)
  const endpoint = { id: uuid(), user_id: uuid() }
  await database.run(
    `insert into users (id, name, email, role, search) values ($1, 'a', 'a@example.com', 'admin', '')`,
    [endpoint.user_id],
  )
  await database.run(
    `insert into webhook_endpoints (id, user_id, url, event_types, api_version, secret_box)
     values ($1, $2, 'https://example.com', '["*"]', 1, 'x')`,
    [endpoint.id, endpoint.user_id],
  )
  await insertTests(database, endpoint, 300)
  const claims = await Promise.all(
    Array.from({ length: 10 }, () => claim(database, { [endpoint.id]: 30 }, LEASE_MS)),
  )
  const ids = claims.flat().map(({ id }) => id)
  t.equal(new Set(ids).size, ids.length)
  t.equal(ids.length, 300, 'rows that another has locked are skipped')
})

t.test('the attempt of a process that died follows when its lease ends', async (t) => {
  const database = await testDatabase(t)
  const api = await testApp(t, {}, { database })
  const receiver = await startReceiver(t)
  const endpoint = await createEndpoint(api.admin, receiver.url)
  // Due later, so that this app does not take it.
  await insertTests(database, endpoint, 1, `now() + interval '1 hour'`)
  // What a process leaves that is killed during the first attempt.
  await database.run(
    `update webhook_deliveries set attempts = 1, next_attempt_at = now() + interval '200 ms'`,
  )
  const [webhook] = await receiver.waitFor(1)
  const [delivery] = await waitForDeliveries(api.admin, endpoint.id, (all) =>
    all.every(({ status }) => status === 'succeeded'),
  )
  t.equal(delivery?.attempts, 2)
  t.equal(webhook?.headers['webhook-id'], delivery?.event_id)
})

t.test('a claim counts the attempt, and begins a lease in which the delivery is not due', async (t) => {
  const api = await testApp(t)
  const endpoint = await createEndpoint(api.admin, 'http://127.0.0.1:9/')
  await insertTests(api.database, endpoint, 1, `now() + interval '1 hour'`)
  t.strictSame(await readDue(api.database, { withinMs: 1_000 }), [])
  t.match(await readDue(api.database, { withinMs: 4_000_000 }), [
    { id: endpoint.id, last_duration_ms: null, is_failing: false },
  ])
  t.strictSame(await claim(api.database, { [endpoint.id]: 1 }, LEASE_MS), [])
  const [row] = await api.database.run(
    `select attempts, revision from webhook_deliveries where endpoint_id = $1`,
    [endpoint.id],
  )
  t.strictSame(row, { attempts: 0, revision: 1 })
})

t.test('a shutdown waits for running attempts, and begins no others', async (t) => {
  const api = await testApp(t)
  const receiver = await startReceiver(t)
  const released = createDeferred()
  receiver.respond = async (response) => {
    await released.promise
    response.end()
  }
  const endpoint = await createEndpoint(api.admin, receiver.url)
  await insertTests(api.database, endpoint, 50)
  await receiver.waitFor(1)
  const { database } = api
  const rows = () =>
    database.run(
      'select status, attempts, count(*) as count from webhook_deliveries group by status, attempts order by status',
    )
  let stored: unknown
  // Runs after the dispatcher has stopped, and before the database closes.
  const { close } = database
  database.close = async () => {
    database.close = close
    stored = await rows()
    await database.close()
  }
  const closing = api.app.close()
  released.resolve()
  await closing
  t.strictSame(stored, [
    { status: 'pending', attempts: 0, count: 49 },
    { status: 'succeeded', attempts: 1, count: 1 },
  ])
})

t.test('deliveries are removed after 30 days', async (t) => {
  const api = await testApp(t)
  const endpoint = await createEndpoint(api.admin, 'http://127.0.0.1:9/')
  const insert = (id: string) =>
    api.database.run(
      `insert into webhook_deliveries (id, endpoint_id, user_id, event_id, event_type, status)
       values ($1, $2, $3, $1, 'webhook-endpoints.test', 'failed')`,
      [id, endpoint.id, endpoint.user_id],
    )
  const makeId = (days: number) => {
    const time = (Date.now() - days * 86_400_000).toString(16).padStart(12, '0')
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`
  }
  const recent = makeId(29)
  await insert(makeId(31))
  await insert(recent)
  await pruneDeliveries(api.database, () => true)
  t.strictSame(
    (await readDeliveries(api.admin, endpoint.id)).map(({ id }) => id),
    [recent],
  )
})

t.test(
  'after a change of APP_SECRET, the former one decrypts until secrets are encrypted again',
  async (t) => {
    const database = await testDatabase(t)
    const receiver = await startReceiver(t)
    const open = createDatabase({ ...database.$client, close: async () => {} })
    const before = await testApp(t, {}, { database: open })
    const endpoint = await createEndpoint(before.admin, receiver.url)
    await before.app.close()
    const newSecret = 'another-secret-another-secret-another'
    const during = await testApp(
      t,
      { APP_SECRET: newSecret, APP_SECRET_PREVIOUS: APP_SECRET },
      { database: open },
    )
    await insertTests(database, endpoint, 1)
    const [webhook] = await receiver.waitFor(1)
    t.ok(webhook && verify(endpoint.secret, webhook))
    await during.app.webhooks.maintain()
    await during.app.close()
    await testApp(t, { APP_SECRET: newSecret }, { database: open })
    await insertTests(database, endpoint, 1)
    const [, second] = await receiver.waitFor(2)
    t.ok(second && verify(endpoint.secret, second))
  },
)

t.test('a secret that cannot be decrypted sends nothing, and the delivery is tried again', async (t) => {
  const api = await testApp(t)
  const receiver = await startReceiver(t)
  const endpoint = await createEndpoint(api.admin, receiver.url)
  await api.database.run(`update webhook_endpoints set secret_box = 'v1.00000000.AAAA'`)
  await insertTests(api.database, endpoint, 1)
  const [delivery] = await waitForDeliveries(api.admin, endpoint.id, (all) => all.every(({ error }) => error))
  t.match(delivery, {
    status: 'pending',
    attempts: 0,
    error: 'the secret of the endpoint cannot be decrypted',
  })
  t.equal(receiver.received.length, 0)
})
