/** Consumers handle events after their commit, at least once and in the order of positions, with a stored cursor. */
import t, { type Test } from 'tap'
import { type ConsumedEvent, type Consumer, defineConsumer } from '../../plugins/consumers/definition.ts'
import { type TestApp, testApp } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { insertEvent, insertManyEvents, removeEvents } from '../helpers/events.ts'
import { createDeferred, waitUntil } from '../helpers/time.ts'

type Database = TestApp['database']

const readConsumer = async (database: Database, name = 'mails') => {
  const [row] = await database.run('select * from event_consumers where name = $1', [name])
  return row
}

const readEnd = async (database: Database) => {
  const [feed] = await database.run('select last_position from event_feed')
  return Number(feed?.last_position)
}

/** Resolves when a consumer has handled all events, and given its claim back. */
const waitForEnd = (database: Database, name?: string) =>
  waitUntil(async () => {
    const row = await readConsumer(database, name)
    return row?.position === (await readEnd(database)) && row.claim_id === null
  })

/** A consumer that records the revisions and the positions of users. */
function createRecorder(settings: Partial<Pick<Consumer, 'name' | 'from'>> = {}) {
  const handled: ConsumedEvent[] = []
  const consumer = defineConsumer({
    name: 'mails',
    types: ['users.*'],
    ...settings,
    handle: async (event) => handled.push(event),
  })
  return { handled, consumer }
}

const addUser = (database: Database, name: string) =>
  insertEvent(database, {
    type: 'users.created',
    columns: {
      name,
      email: `${name}@example.com`,
      email_verified: false,
      role: 'member',
      status: 'active',
      created_at: '2026-11-22T21:59:37.123456+00:00',
      updated_at: '2026-11-22T21:59:38.5+00:00',
    },
  })

const getNames = (handled: readonly ConsumedEvent[]) => handled.map(({ data }) => data.name)

const start = async (t: Test, consumers: readonly Consumer[], database?: Database) =>
  testApp(t, {}, { own: { consumers }, ...(database && { database }) })

/** Returns a database whose feed has the event of the first admin. Apps that close leave it open. */
async function createStarted(t: Test) {
  const database = await createSharedDatabase(t)
  const { app } = await start(t, [], database)
  await app.events.assignAll()
  await app.close()
  return database
}

t.test('a consumer gets the events after its registration, in their order', async (t) => {
  const database = await createStarted(t)
  const { handled, consumer } = createRecorder()
  const early = createRecorder({ name: 'audit', from: 'beginning' })
  const api = await start(t, [consumer, early.consumer], database)
  const name = 'Ada'
  const { body } = await api.admin.post('/users', {
    name,
    email: 'ada@example.com',
    password: 'correct horse',
  })
  const { id } = body.data
  await api.admin.patch(`/users/${id}`, { name: 'Ada L.' })
  await insertEvent(api.database)
  await api.admin.delete(`/users/${id}`)
  await api.app.events.assignAll()
  await waitForEnd(api.database)
  await waitForEnd(api.database, 'audit')
  const positions = handled.map(({ position }) => position)
  t.same(
    positions,
    [...positions].sort((a, b) => a - b),
  )
  t.match(handled, [
    {
      type: 'users.created',
      resource_type: 'users',
      resource_id: id,
      revision: 1,
      data: { id, name },
      previous: null,
    },
    { type: 'users.updated', data: { name: 'Ada L.' }, previous: { name }, credential: 'bootstrap_key' },
    { type: 'users.deleted', data: { id, name: 'Ada L.' }, previous: null },
  ])
  const { body: event } = await api.admin.get(`/events/${handled[1]?.id}`)
  t.strictSame(handled[1], event.data, 'the event of the API, with the fields of the resource')
  t.notOk('password_hash' in (handled[0]?.data ?? {}))
  t.equal(early.handled.length, 4, 'with the first admin')
})

t.test('an event that cannot be handled is tried again, and those after it wait', async (t) => {
  const handled: string[] = []
  let isBroken = true
  const consumer = defineConsumer({
    name: 'mails',
    types: ['users.created'],
    async handle({ data }) {
      const name = String(data.name)
      if (name === 'b' && isBroken) throw new Error('no mail server')
      handled.push(name)
    },
  })
  const database = await createStarted(t)
  const { app } = await start(t, [consumer], database)
  for (const name of ['a', 'b', 'c']) await addUser(database, name)
  await app.events.assignAll()
  await waitUntil(async () => (await readConsumer(database))?.failures === 2)
  t.same(handled, ['a'])
  const end = await readEnd(database)
  t.match(await readConsumer(database), {
    position: end - 2,
    failed_position: end - 1,
    error: 'Error: no mail server',
    claim_id: null,
  })
  isBroken = false
  await waitForEnd(database)
  t.same(handled, ['a', 'b', 'c'])
  t.match(await readConsumer(database), {
    failures: 0,
    error: null,
    failed_position: null,
    next_attempt_at: null,
  })
})

t.test('a restart goes on after the last event that was handled', async (t) => {
  const database = await createStarted(t)
  const handled: unknown[] = []
  const second = createDeferred()
  const consumer = defineConsumer({
    name: 'mails',
    types: ['users.created'],
    async handle({ data }, { signal }) {
      if (data.name === 'b' && handled.length === 1) {
        second.resolve()
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      }
      handled.push(data.name)
    },
  })
  const first = await start(t, [consumer], database)
  for (const name of ['a', 'b', 'c']) await addUser(first.database, name)
  await first.app.events.assignAll()
  await second.promise
  await first.app.close()
  t.same(handled, ['a'])
  t.match(await readConsumer(database), { failures: 0, claim_id: null }, 'a shutdown is no failure')
  handled.push('restart')
  await start(t, [consumer], database)
  await waitForEnd(database)
  t.same(handled, ['a', 'restart', 'b', 'c'])
})

t.test('a consumer goes on after events that were removed', async (t) => {
  const database = await createStarted(t)
  const { handled, consumer } = createRecorder()
  const first = await start(t, [consumer], database)
  await waitForEnd(first.database)
  await first.app.close()
  const without = await start(t, [], database)
  await addUser(without.database, 'removed')
  await without.app.events.assignAll()
  await removeEvents(without.database)
  await addUser(without.database, 'kept')
  await without.app.events.assignAll()
  await without.app.close()
  const lines: string[] = []
  await testApp(
    t,
    { LOG_LEVEL: 'warn' },
    {
      own: { consumers: [consumer] },
      database,
      logs: { write: (line) => void lines.push(line) },
    },
  )
  await waitForEnd(database)
  t.same(getNames(handled), ['kept'])
  t.match(lines, [/no longer the event of the cursor/])
})

t.test('a cursor that the feed has lost loses no event', async (t) => {
  const { handled, consumer } = createRecorder()
  const { app, database } = await start(t, [consumer])
  await addUser(database, 'before')
  await app.events.assignAll()
  await waitForEnd(database)
  // As after a restore of an older backup without this table.
  await database.run(`update event_consumers set position = position + 3, event_id = gen_random_uuid()`)
  for (const name of ['a', 'b', 'c', 'd']) {
    await addUser(database, name)
    await app.events.assignAll()
  }
  await waitForEnd(database)
  t.same(getNames(handled).slice(-4), ['a', 'b', 'c', 'd'])
})

t.test('a consumer reads many events in pages', async (t) => {
  let count = 0
  const consumer = defineConsumer({ name: 'mails', types: ['products.created'], handle: async () => count++ })
  const { app, database } = await start(t, [consumer])
  await insertManyEvents(database, 250)
  await app.events.assignAll()
  await waitForEnd(database)
  t.equal(count, 250)
})

t.test('a handler that takes too long has failed', async (t) => {
  const consumer = defineConsumer({
    name: 'mails',
    types: ['users.created'],
    timeout: '1s',
    handle: (_, { signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(0))),
  })
  const { app, database } = await start(t, [consumer])
  await addUser(database, 'a')
  await app.events.assignAll()
  await waitUntil(async () => (await readConsumer(database))?.error === 'TimeoutError: took longer than 1 s')
})

t.test('a project with mistakes in its consumers does not start', async (t) => {
  const { consumer } = createRecorder()
  await t.rejects(testApp(t, { EVENTS: 'false' }, { own: { consumers: [consumer] } }), {
    message: 'EVENTS is false, but consumers need events: mails (src/own.ts)',
  })
  const handle = async () => {}
  const wrong = [
    defineConsumer({ name: 'a', types: ['user.created', 'users.created'], handle }),
    defineConsumer({ name: 'b', types: ['events.*'], handle }),
  ]
  await t.rejects(testApp(t, {}, { own: { consumers: wrong } }), {
    message:
      /Consumer "a": no event has the type "user.created"\nConsumer "b": .*"events.\*"\nThe collections/,
  })
})
