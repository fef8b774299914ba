/** Consumers handle events after their commit, at least once and in the order of positions, with a stored cursor. */
import t, { type Test } from 'tap'
import { type Json, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { insertEvent, insertManyEvents, removeEvents } from '../../../testing/helpers/events.ts'
import { createMailFiles } from '../../../testing/helpers/mails.ts'
import { intercept, overhear } from '../../../testing/helpers/statements.ts'
import { createDeferred, waitUntil } from '../../../testing/helpers/time.ts'
import { readWork } from '../../../testing/helpers/work.ts'
import { type ConsumedEvent, type Consumer, defineConsumer } from '../../src/consumers/definition.ts'
import { assignBatch } from '../../src/events/sequencer.ts'

const database = await createSharedDatabase(t)
type Database = typeof database

const readConsumer = async (name: string, from: Database = database) => {
  return readWork(from, `consumer:${name}`)
}

const readEnd = async (from: Database = database) => {
  const [feed] = await from.run('select last_position from event_feed')
  return Number(feed?.last_position)
}

/** Resolves when a consumer has handled all events, and given its claim back. */
const waitForEnd = (name: string, from: Database = database) =>
  waitUntil(async () => {
    const row = await readConsumer(name, from)
    return row?.position === (await readEnd(from)) && row.claim_id === null
  })

/** Inserts an event of a user, and assigns its position. */
async function addUser(to: Database, name: string): Promise<void> {
  const columns = {
    name,
    email: `${name}@example.com`,
    email_verified: false,
    role: 'member',
    status: 'active',
  }
  await insertEvent(to, { type: 'users.created', columns })
  await assignBatch(to, [])
}

const isBroken = new Set(['b'])
const handled: Record<string, ConsumedEvent[]> = { mails: [], audit: [], retries: [], pages: [] }
const getNames = (name: string) => handled[name]?.map(({ data }) => data.name ?? data.title)
const record = (name: string) => async (event: ConsumedEvent) => void handled[name]?.push(event)

const consumers: Consumer[] = [
  defineConsumer({ name: 'mails', types: ['users.*'], handle: record('mails') }),
  defineConsumer({ name: 'audit', types: ['users.*'], from: 'beginning', handle: record('audit') }),
  defineConsumer({ name: 'pages', types: ['products.created'], handle: record('pages') }),
  defineConsumer({
    name: 'retries',
    types: ['posts.created'],
    async handle(event) {
      if (isBroken.has(String(event.data.title))) throw new Error('no mail server')
      await record('retries')(event)
    },
  }),
  defineConsumer({
    name: 'slow',
    types: ['orders.created'],
    timeout: '1s',
    handle: (_, { signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(0))),
  }),
]

// The event of the first admin has its position before the consumers are registered.
const overheard = overhear(database)
const first = await testApp(t, {}, { database: overheard.database })
await first.app.events.assignAll()
await first.app.close()
const { statements } = overheard.take()
const warnings: Json[] = []
const logs = { write: (line: string) => void warnings.push(JSON.parse(line)) }
const { admin, app } = await testApp(t, { LOG_LEVEL: 'warn' }, { own: { consumers }, database, logs })

t.test('without jobs and consumers, no statement is sent for them', async (t) => {
  t.ok(statements.length > 10)
  t.notMatch(statements.join('\n'), /->> 'position'/)
  t.equal(first.app.jobs, undefined)
})

t.test('a consumer gets the events after its registration, in their order', async (t) => {
  const name = 'Ada'
  const account = { name, email: 'ada@example.com', password: 'correct horse' }
  const { id } = (await admin.post('/users', account)).body.data
  await admin.patch(`/users/${id}`, { name: 'Ada L.' })
  await insertEvent(database, { type: 'api-keys.created' })
  await admin.delete(`/users/${id}`)
  await app.events.assignAll()
  for (const each of ['mails', 'audit']) await waitForEnd(each)
  const { mails = [], audit } = handled
  const positions = mails.map(({ position }) => position)
  t.same(
    positions,
    positions.toSorted((a, b) => a - b),
  )
  const created = { type: 'users.created', resource_type: 'users', resource_id: id, revision: 1 }
  t.match(mails, [
    { ...created, data: { id, name }, previous: null },
    { type: 'users.updated', data: { name: 'Ada L.' }, previous: { name }, credential: 'bootstrap_key' },
    { type: 'users.deleted', data: { id, name: 'Ada L.' }, previous: null },
  ])
  const { body } = await admin.get(`/events/${mails[1]?.id}`)
  t.strictSame(mails[1], body.data, 'the event of the API, with the fields of the resource')
  t.notOk('password_hash' in (mails[0]?.data ?? {}))
  t.equal(audit?.length, 4, 'with the first admin')
})

t.test('an event that cannot be handled is tried again, and those after it wait', async (t) => {
  for (const title of ['a', 'b', 'c'])
    await insertEvent(database, { type: 'posts.created', columns: { title } })
  await app.events.assignAll()
  await waitUntil(async () => (await readConsumer('retries'))?.failures === 2)
  t.same(getNames('retries'), ['a'])
  const end = await readEnd()
  const failed = { position: end - 2, failed_position: end - 1, error: 'Error: no mail server' }
  t.match(await readConsumer('retries'), { ...failed, claim_id: null })
  isBroken.clear()
  await waitForEnd('retries')
  t.same(getNames('retries'), ['a', 'b', 'c'])
  const recovered = { failures: 0, error: null, failed_position: undefined, next_attempt_at: null }
  t.match(await readConsumer('retries'), recovered)
})

t.test('a consumer reads many events in pages', async (t) => {
  await insertManyEvents(database, 250)
  await app.events.assignAll()
  await waitForEnd('pages')
  t.equal(handled.pages?.length, 250)
})

t.test('a cursor that the feed has lost loses no event', async (t) => {
  await waitForEnd('mails')
  // As after a restore of an older backup without this table.
  await database.run(
    `update work set payload = payload || jsonb_build_object('position', (payload -> 'position')::int + 3, 'event_id', gen_random_uuid())
     where kind = 'consumer:mails'`,
  )
  for (const name of ['a', 'b', 'c', 'd']) await addUser(database, name)
  app.feed?.wake()
  await waitForEnd('mails')
  t.same(getNames('mails')?.slice(-4), ['a', 'b', 'c', 'd'])
})

t.test('a handler that takes too long has failed, and the log says so when its time is over', async (t) => {
  await insertEvent(database, { type: 'orders.created', columns: { items: [] } })
  await app.events.assignAll()
  await waitUntil(async () => (await readConsumer('slow'))?.error === 'TimeoutError: took longer than 1 s')
  const { failed_event_id: event_id } = await readConsumer('slow')
  t.match(
    warnings.filter(({ consumer }) => consumer === 'slow'),
    [
      { level: 'warn', event_id, timeout_ms: 1_000, msg: 'an event takes too long' },
      { level: 'error', event_id, msg: 'an event could not be handled' },
    ],
  )
})

/** Starts an app with a consumer that waits at its first event `b`. */
async function startWaiting(t: Test, shared: Database) {
  const [names, lines] = [[] as unknown[], [] as string[]]
  const reached = createDeferred()
  const consumer = defineConsumer({
    name: 'waits',
    types: ['users.created'],
    async handle({ data }, { signal }) {
      if (data.name === 'b' && !names.includes('restart')) {
        reached.resolve()
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      }
      if (data.email !== 'admin@localhost') names.push(data.name)
    },
  })
  const start = async () => {
    const logs = { write: (line: string) => void lines.push(line) }
    return testApp(t, { LOG_LEVEL: 'warn' }, { own: { consumers: [consumer] }, database: shared, logs })
  }
  return { names, lines, reached, start }
}

t.test('a restart goes on after the last event that was handled, and after removed events', async (t) => {
  const shared = await createSharedDatabase(t)
  const { names, lines, reached, start } = await startWaiting(t, shared)
  const before = await start()
  await before.app.events.assignAll()
  await waitForEnd('waits', shared)
  names.length = 0
  for (const name of ['a', 'b', 'c']) await addUser(shared, name)
  before.app.feed?.wake()
  await reached.promise
  await before.app.close()
  t.same(names, ['a'])
  t.match(await readConsumer('waits', shared), { failures: 0, claim_id: null }, 'a shutdown is no failure')
  names.push('restart')
  const after = await start()
  await waitForEnd('waits', shared)
  t.same(names.splice(0), ['a', 'restart', 'b', 'c'])
  await after.app.close()
  t.same(lines, [])

  await addUser(shared, 'removed')
  await removeEvents(shared)
  await addUser(shared, 'kept')
  await start()
  await waitForEnd('waits', shared)
  t.same(names, ['kept'])
  t.match(lines, [/no longer the event of the cursor/])
})

t.test('events that got their positions while a process started are handled', async (t) => {
  const shared = await createSharedDatabase(t)
  const names: unknown[] = []
  const handle = async ({ data }: ConsumedEvent) => void names.push(data.name)
  const late = defineConsumer({ name: 'late', types: ['users.created'], handle })
  let polls = 0
  const slow = intercept(shared, (text, params) => {
    if (/clock_timestamp\(\) - .*"outbox"/.test(text)) polls += 1
    if (!text.startsWith('insert into "work"') || !params.includes('consumer:late')) return undefined
    const before = polls
    // The feed knows its last position before the consumer is registered: it polls again.
    return waitUntil(() => polls >= before + 2)
  })
  const start = () => testApp(t, {}, { own: { consumers: [late] }, database: slow })
  const { app } = await start()
  await waitForEnd('late', shared)
  await app.close()
  await addUser(shared, 'first')
  await start()
  await waitUntil(() => names.includes('first'), 20_000)
  t.same(
    names.filter((name) => name === 'first'),
    ['first'],
    'once',
  )
})

t.test('a consumer does not run again for events that another process has announced', async (t) => {
  const shared = await createSharedDatabase(t)
  const consumers = ['ahead', 'after'].map((name) =>
    defineConsumer({ name, types: ['users.created'], handle: async () => {} }),
  )
  const { database: overheard, take } = overhear(shared)
  const { app } = await testApp(t, {}, { own: { consumers }, database: overheard })
  await app.events.assignAll()
  for (const { name } of consumers) await waitForEnd(name, shared)
  // From now on, this process knows no new position.
  await app.events.stop()
  await addUser(shared, 'unknown')
  await shared.run(`update work set next_attempt_at = now() where kind = 'consumer:ahead'`)
  take()
  app.work.wake()
  await waitForEnd('ahead', shared)
  // The rest of the first one wakes the other one, and would wake the first one again.
  await waitForEnd('after', shared)
  const runs = take().statements.filter((text) => text.includes('total_bytes'))
  t.equal(runs.length, 2)
})

t.test('a project with mistakes in its consumers does not start', async (t) => {
  const handle = async () => {}
  const define = (name: string, ...types: `${string}.*`[]) => defineConsumer({ name, types, handle })
  const needy = { own: { consumers: [define('mails', 'users.*')] } }
  await t.rejects(testApp(t, { EVENTS: 'false' }, needy), {
    message: 'EVENTS is false, but consumers need events: mails (src/own.ts)',
  })
  const unknown = defineConsumer({ name: 'a', types: ['user.created', 'users.created'], handle })
  const wrong = [unknown, define('b', 'events.*')]
  await t.rejects(testApp(t, {}, { own: { consumers: wrong } }), {
    message:
      /Consumer "a": no event has the type "user.created"\nConsumer "b": .*"events.\*"\nThe collections/,
  })
})

t.test('a consumer enqueues a mail to each new user', async (t) => {
  const mails = createMailFiles(t)
  const welcome = defineConsumer({
    name: 'welcome',
    types: ['users.created'],
    async handle({ data: { email } }, { database, mail }) {
      const values = { time: 'now', ip: 'none' }
      await mail?.enqueue(database, { template: 'password-changed', recipient: String(email), values })
    },
  })
  const { admin, database } = await testApp(t, mails.settings, { own: { consumers: [welcome] } })
  const created = await admin.post('/users', { name: 'Zoe', email: 'zoe@example.com', role: 'member' })
  t.equal(created.status, 201)
  t.ok(await mails.waitFor({ to: 'zoe@example.com', subject: /password/ }))
  await waitForEnd('welcome', database)
})
