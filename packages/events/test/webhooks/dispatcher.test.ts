/** The dispatcher: slow and dead endpoints, several processes, crashes, shutdown, and what is removed. */
import t, { type Test } from 'tap'
import type { Param } from '../../../database/src/client/index.ts'
import { APP_SECRET, type Json, recordMessages, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase, keepOpen, SERVER } from '../../../testing/helpers/database.ts'
import { insertEvent, insertLargeEvents, stopEventWork } from '../../../testing/helpers/events.ts'
import { intercept } from '../../../testing/helpers/statements.ts'
import { createDeferred, waitUntil } from '../../../testing/helpers/time.ts'
import {
  createEndpoint,
  openEndpoint as open,
  type Receiver,
  readDeliveries,
  startReceiver,
  verify,
  waitForDeliveries,
} from '../../../testing/helpers/webhooks.ts'
import type { WorkKind } from '../../../work/src/kinds.ts'
import { claimWork, createDueReader } from '../../../work/src/work-store.ts'
import { endDisabled } from '../../src/webhooks/delivery-store.ts'
import { createEndpointSlots } from '../../src/webhooks/endpoint-slots.ts'
import { enabledEndpoints } from '../../src/webhooks/endpoint-store.ts'

/** The kind of deliveries, for statements. */
const kind: WorkKind = {
  ...{
    name: 'delivery',
    groups: enabledEndpoints,
    slots: createEndpointSlots(1),
    timeoutMs: 0,
    leaseMs: 60_000,
  },
  run: async () => ({ status: 'pending' }),
  fail: () => ({ status: 'pending' }),
}
const readDue = createDueReader([kind])
const claim = (database: Store['database'], wanted: Record<string, number>) =>
  claimWork(
    database,
    Object.entries(wanted).map(([id, count]) => ({ kind, id, count })),
  )
const LOCAL = 'http://127.0.0.1:9/'
const NEEDS_SERVER = { skip: !SERVER && 'needs several connections' }
const LATER = `now() + interval '1 hour'`
const EARLIER = `now() - interval '1 hour'`

const database = await createSharedDatabase(t)
/** An app whose dispatcher works, and one that sends nothing. */
const api = await testApp(t, {}, { database })
const { admin } = api
const paused = await testApp(t)
await stopEventWork(paused.app)

type Store = Pick<typeof api, 'database'>
type Endpoint = { id: string; user_id: string; secret: string }

/** Inserts tests of an endpoint that are due, or will be. */
const insertTests = (endpoint: Endpoint, count: number, due = 'now()', store: Store = api) =>
  store.database.run(
    `insert into work (kind, endpoint_id, user_id, event_id, event_type, next_attempt_at)
     select 'delivery', $1, $2, gen_random_uuid(), 'webhook-endpoints.test', ${due} from generate_series(1, $3::int)`,
    [endpoint.id, endpoint.user_id, count],
  )

/** Counts the deliveries of an endpoint by their state. */
const countStates = ({ id }: Endpoint, store: Store = api) =>
  store.database.run(
    `select status, error, attempts, count(*) as count from work where endpoint_id = $1
     group by 1, 2, 3 order by 1`,
    [id],
  )

const openEndpoint = (t: Test, respond?: Receiver['respond'], client = admin) =>
  open(t, client, undefined, respond)

const isDisabled = ({ status }: Json) => status === 'disabled'

/** Returns responses that end when they are released. */
function holdResponses(status = 200) {
  const { promise, resolve } = createDeferred()
  const respond: Receiver['respond'] = (response) => void promise.then(() => response.writeHead(status).end())
  return { respond, release: resolve }
}

t.test('slow endpoints of one owner hold a quarter of the places, and delay no other', async (t) => {
  const { receiver: quick, endpoint: quickEndpoint } = await openEndpoint(t)
  const owner = await api.person('manager')
  const slow = await startReceiver(t)
  slow.respond = () => {}
  for (let i = 0; i < 20; i++) await insertTests(await createEndpoint(owner.bearer, slow.url), 50, EARLIER)
  await waitUntil(() => slow.received.length >= 12)
  await insertTests(quickEndpoint, 100)
  await quick.waitFor(100)
  t.equal(slow.received.length, 12, 'a quarter of 50 requests')
  const [sent] = await database.run(
    'select count(*) as count from work where endpoint_id <> $1 and attempts > 0',
    [quickEndpoint.id],
  )
  t.equal(sent?.count, 12, 'only attempts that were sent count')
  await database.run('delete from webhook_endpoints where user_id = $1', [owner.id])
})

t.test('a dead endpoint takes few attempts, and its deliveries are sent when it is back', async (t) => {
  const { receiver, endpoint } = await openEndpoint(t, (response) => response.destroy())
  const { receiver: other, endpoint: otherEndpoint } = await openEndpoint(t)
  // It was fast, so that several are claimed for each turn: those after a failed one are given back.
  await database.run('update webhook_endpoints set last_duration_ms = 5 where id = $1', [endpoint.id])
  await insertTests(endpoint, 100, EARLIER)
  await insertTests(otherEndpoint, 100)
  await other.waitFor(100)
  t.ok(receiver.received.length < 20, `${receiver.received.length} attempts`)
  const countAttempts = async () => {
    const [stored] = await database.run(
      `select sum(attempts)::int8 as sum, max(attempts) filter (where status = 'succeeded') as most,
       count(*) filter (where status = 'succeeded') as sent from work where endpoint_id = $1`,
      [endpoint.id],
    )
    return stored ?? {}
  }
  await waitUntil(async () => (await countAttempts()).sum === receiver.received.length)
  receiver.respond = (response) => response.end()
  // The others are due when their delays end.
  await waitUntil(async () => Number((await countAttempts()).sent) >= 80)
  t.ok(Number((await countAttempts()).most) <= 2, 'no delivery has attempts that were not sent')
})

t.test('the deliveries of a disabled endpoint end, and a test that runs keeps its result', async (t) => {
  const { respond, release } = holdResponses()
  const { receiver, endpoint } = await openEndpoint(t, respond)
  // A statement ends 10,000.
  await insertTests(endpoint, 10_010, LATER)
  await insertTests(endpoint, 1)
  await receiver.waitFor(1)
  await admin.patch(`/webhook-endpoints/${endpoint.id}`, { status: 'disabled' })
  while ((await endDisabled(database)) > 0);
  release()
  await waitUntil(async () => (await countStates(endpoint)).some(({ status }) => status === 'succeeded'))
  t.strictSame(await countStates(endpoint), [
    { status: 'failed', error: 'the endpoint is disabled', attempts: 0, count: 10_010 },
    { status: 'succeeded', error: null, attempts: 1, count: 1 },
  ])
  t.equal(receiver.received.length, 1)
  t.equal((await admin.delete(`/webhook-endpoints/${endpoint.id}`)).status, 204)
  t.strictSame(await countStates(endpoint), [], 'they are deleted with the endpoint')
})

t.test('a claim has events of 8 MiB at most, the small ones first; the others stay due', async (t) => {
  const { app, admin, database } = paused
  const [large, small] = [await createEndpoint(admin, LOCAL), await createEndpoint(admin, LOCAL)]
  await insertLargeEvents(database, 12)
  await insertEvent(database)
  await app.events.assignAll()
  await database.run(
    `delete from work as d using events as e where e.id = d.event_id
     and d.endpoint_id = case when e.bytes < 100000 then $1::uuid else $2::uuid end`,
    [large.id, small.id],
  )
  const wanted = { [large.id]: 20, [small.id]: 20 }
  const first = await claim(database, wanted)
  t.ok(first.some(({ group }) => group === small.id))
  const [second, third] = [await claim(database, wanted), await claim(database, wanted)]
  t.same([first.length, second.length, third.length], [9, 4, 0])
  await database.run('delete from webhook_endpoints')
})

t.test('events get their positions although an endpoint is deleted in between', NEEDS_SERVER, async (t) => {
  const { app, admin, database } = paused
  const [deleted, kept] = [await createEndpoint(admin, LOCAL), await createEndpoint(admin, LOCAL)]
  await insertEvent(database)
  let assigned: Promise<void> = Promise.resolve()
  await database.transaction(async (tx) => {
    await tx.run('delete from webhook_endpoints where id = $1', [deleted.id])
    assigned = app.events.assignAll()
    const waiting = `select 1 from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`
    await waitUntil(async () => (await database.run(waiting)).length > 0)
  })
  await assigned
  t.same(await database.run('select endpoint_id from work'), [{ endpoint_id: kept.id }])
  await database.run('delete from webhook_endpoints')
})

t.test('two processes make each attempt once', NEEDS_SERVER, async (t) => {
  const { receiver, endpoint } = await openEndpoint(t)
  await testApp(t, {}, { database })
  await insertTests(endpoint, 2_000)
  await receiver.waitFor(2_000)
  await waitUntil(async () => (await countStates(endpoint)).every(({ status }) => status === 'succeeded'))
  t.match(await countStates(endpoint), [{ attempts: 1, count: 2_000 }])
  t.equal(receiver.received.length, 2_000)
  t.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 2_000)
})

t.test('a claim counts the attempt and begins a lease, and claims at the same time share', async (t) => {
  const { database } = paused
  const endpoint: Endpoint = await createEndpoint(paused.admin, LOCAL)
  const claimSome = () => claim(database, { [endpoint.id]: 30 })
  await insertTests(endpoint, 300, LATER, paused)
  t.strictSame(await readDue(database, 1_000), [])
  const due = { id: endpoint.id, state: { last_duration_ms: null, is_failing: false } }
  t.match(await readDue(database, 4_000_000), [due])
  t.strictSame(await claimSome(), [])
  await database.run('update work set next_attempt_at = now()')
  const claimed = (await Promise.all(Array.from({ length: 10 }, claimSome))).flat()
  t.equal(new Set(claimed.map(({ id }) => id)).size, 300, 'rows that another has locked are skipped')
  t.equal(claimed.length, 300)
  t.match(await countStates(endpoint, paused), [{ status: 'pending', attempts: 1, count: 300 }])
  t.strictSame(await claimSome(), [])
})

t.test('the attempt of a process that died follows when its lease ends', async (t) => {
  const { receiver, endpoint } = await openEndpoint(t)
  // Due later, so that this app does not take it.
  await insertTests(endpoint, 1, LATER)
  // What a process leaves that is killed during the first attempt.
  await database.run(
    `update work set attempts = 1, next_attempt_at = now() + interval '200 ms' where endpoint_id = $1`,
    [endpoint.id],
  )
  const [webhook] = await receiver.waitFor(1)
  const [delivery] = await waitForDeliveries(admin, endpoint.id, ([first]) => first?.status !== 'pending')
  t.match(delivery, { status: 'succeeded', attempts: 2, event_id: webhook?.headers['webhook-id'] })
})

t.test('deliveries are removed after 30 days', async (t) => {
  const { endpoint } = await openEndpoint(t)
  const [old = '', recent = ''] = [31, 29].map((days) => {
    const time = (Date.now() - days * 86_400_000).toString(16).padStart(12, '0')
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`
  })
  await database.run(
    `insert into work (id, kind, endpoint_id, user_id, event_id, event_type, status, next_attempt_at)
     select id, 'delivery', $3, $4, id, 'webhook-endpoints.test', 'failed', null from unnest(array[$1::uuid, $2::uuid]) as id`,
    [old, recent, endpoint.id, endpoint.user_id],
  )
  await api.app.work.prune()
  t.match(await readDeliveries(admin, endpoint.id), [{ id: recent }])
  t.equal((await readDeliveries(admin, endpoint.id)).length, 1)
})

t.test('a secret that cannot be decrypted sends nothing, and the delivery is tried again', async (t) => {
  const { receiver, endpoint } = await openEndpoint(t)
  await database.run(`update webhook_endpoints set secret_box = 'v1.00000000.AAAA' where id = $1`, [
    endpoint.id,
  ])
  await insertTests(endpoint, 1)
  const [delivery] = await waitForDeliveries(admin, endpoint.id, (all) => all.every(({ error }) => error))
  const error = 'the secret of the endpoint cannot be decrypted'
  t.match(delivery, { status: 'pending', attempts: 0, error })
  t.equal(receiver.received.length, 0)
})

t.test('what cannot be stored about one endpoint concerns no other, and work goes on', async (t) => {
  const shared = await createSharedDatabase(t)
  const attempts = recordMessages(t, 'resource-api:webhooks:attempt')
  const [saving, lines] = [createDeferred(), [] as string[]]
  let isHeld = false
  const failing = new Set([/"failing_since" = case/, /"disabled_reason" = /])
  const ids: Param[] = []
  const database = intercept(shared, (text, params) => {
    if (/delete from "work" using r/.test(text)) {
      isHeld = true
      return saving.promise
    }
    // The first statement of each kind fails.
    for (const pattern of failing)
      if (pattern.test(text) && ids.some((id) => params.includes(id))) {
        failing.delete(pattern)
        return Promise.reject(new Error('broken'))
      }
    return undefined
  })
  const logs = { write: (line: string) => void lines.push(line) }
  const store = await testApp(t, { LOG_LEVEL: 'warn' }, { database, logs })
  t.teardown(() => saving.resolve())
  const { respond, release } = holdResponses(410)
  const quick = await openEndpoint(t, undefined, store.admin)
  const gone = await Promise.all([1, 2].map(() => openEndpoint(t, respond, store.admin)))
  ids.push(...gone.map(({ endpoint }) => endpoint.id))
  for (const { endpoint } of gone) await insertTests(endpoint, 1, 'now()', store)
  await Promise.all(gone.map(({ receiver }) => receiver.waitFor(1)))
  // The results of both are stored together, after that of another one.
  await insertTests(quick.endpoint, 1, 'now()', store)
  await waitUntil(() => isHeld && attempts.length === 1)
  release()
  await waitUntil(() => attempts.length === 3)
  saving.resolve()
  await waitUntil(async () => (await Promise.all(gone.map(({ read }) => read()))).some(isDisabled))
  const states = await Promise.all(gone.map(({ read }) => read()))
  t.match(
    states.toSorted((a, b) => Number(isDisabled(a)) - Number(isDisabled(b))),
    [
      { status: 'enabled', failing_since: null },
      { status: 'disabled', failing_since: String },
    ],
  )
  await insertTests(quick.endpoint, 1, 'now()', store)
  await quick.waitFor((all) => all.length === 2 && all.every(({ status }) => status === 'succeeded'))
  const [first, second, disabling, ...others] = lines.map((line) => JSON.parse(line).msg)
  t.same(new Set([first, second]), new Set(['the state of an endpoint could not be stored']))
  t.equal(disabling, 'a webhook endpoint was disabled')
  t.same(others, [])
})

t.test('a shutdown waits for running attempts, and begins no others', async (t) => {
  const { respond, release } = holdResponses()
  const { receiver, endpoint } = await openEndpoint(t, respond)
  await insertTests(endpoint, 50)
  await receiver.waitFor(1)
  const closing = api.app.close()
  // By then the dispatcher begins no attempts: the app has paused its work.
  await waitUntil(() => !api.app.server.listening)
  release()
  await closing
  t.match(await countStates(endpoint), [
    { status: 'pending', attempts: 0, count: 49 },
    { status: 'succeeded', attempts: 1, count: 1 },
  ])
})

t.test(
  'after a change of APP_SECRET, the former one decrypts until secrets are encrypted again',
  async (t) => {
    const store = { database: keepOpen(paused.database) }
    const { receiver, endpoint } = await openEndpoint(t, undefined, paused.admin)
    await paused.app.work.pause()
    for (const previous of [{ APP_SECRET_PREVIOUS: APP_SECRET }, {}] as Json[]) {
      const { app } = await testApp(
        t,
        { APP_SECRET: 'another-secret-another-secret-another', ...previous },
        store,
      )
      receiver.received.length = 0
      await insertTests(endpoint, 1, 'now()', store)
      const [webhook] = await receiver.waitFor(1)
      t.ok(webhook && verify(endpoint.secret, webhook))
      await app.webhooks.maintain()
      await app.close()
    }
  },
)
