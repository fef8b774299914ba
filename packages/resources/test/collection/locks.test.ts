/** Writes lock rows as strongly as they need from the beginning, and in one order: they wait, and do not deadlock. */
import t, { type Test } from 'tap'
import {
  type Client,
  type Json,
  type Person,
  type Reply,
  recordMessages,
} from '../../../testing/helpers/app.ts'
import { SERVER } from '../../../testing/helpers/database.ts'
import { createKeyHeader } from '../../../testing/helpers/replies.ts'
import { insertRows } from '../../../testing/helpers/rows.ts'
import { hooks, startShows } from '../../../testing/helpers/shows.ts'
import { createDeferred, waitUntil } from '../../../testing/helpers/time.ts'

const skip = SERVER ? false : 'the embedded database runs one transaction at a time: set DATABASE_URL'

const SEATS = 20
const MEMBERS = 30

/** A process receives no more imports at a time. */
const MAX_IMPORTS = 20

// A process writes one import for every two connections.
const { admin, database, person, outside, countWaiting, holding } = await startShows(t, {
  settings: { POOL_SIZE: String(2 * MEMBERS) },
})
const members: Person[] = []
for (let i = 0; i < MEMBERS; i++) members.push(await person('member'))
const [ada, bob] = members as [Person, Person]

let shows = 0
async function createShow(seats = SEATS): Promise<string> {
  shows += 1
  const show = { code: `show-${shows}`, title: 'Tea', status: 'open', seats }
  return (await insertRows(database, 'lock_shows', [show]))[0] ?? ''
}

/** Runs `work`, and asserts that PostgreSQL has ended no deadlock in it. */
async function withoutDeadlock<T>(t: Test, work: () => Promise<T>): Promise<T> {
  const retries = recordMessages(t, 'resource-api:database:retry')
  const result = await work()
  t.same(retries, [], 'no transaction was repeated')
  return result
}

const getStatuses = (replies: readonly Reply[]) => replies.map(({ status }) => status)

const patch = (path: string, body: Json) => ({ method: 'PATCH', path, body })
const runBatch = (client: Client, operations: Json[]) => client.post('/batches', { operations })

const purchases: Record<string, { buy(client: Client, show: string): Promise<Reply>; statuses: number[] }> = {
  requests: {
    buy: (client, show) => client.post('/tickets', { show_id: show, note: 'A' }),
    statuses: [201, 409],
  },
  'requests with an Idempotency-Key': {
    buy: (client, show) => client.post('/tickets', { show_id: show, note: 'A' }, createKeyHeader()),
    statuses: [201, 409],
  },
  batches: {
    buy: (client, show) =>
      runBatch(client, [{ method: 'POST', path: '/tickets', body: { show_id: show, note: 'A' } }]),
    statuses: [200, 409],
  },
  'an operation of the show': {
    buy: (client, show) => client.post(`/shows/${show}/purchases`, {}),
    statuses: [201, 409],
  },
  imports: {
    buy: (client, show) =>
      client.post('/tickets', `show_id,note\n${show},A\n`, { 'content-type': 'text/csv' }),
    // What is wrong with a row is 422.
    statuses: [200, 422],
  },
}

for (const [name, { buy, statuses }] of Object.entries(purchases)) {
  // The embedded database has one import at a time.
  const options = { skip: name === 'imports' && skip }
  t.test(`30 members buy 20 tickets by ${name}, without a deadlock`, options, async (t) => {
    const show = await createShow()
    const buyAll = (buyers: readonly Person[]) => Promise.all(buyers.map(({ client }) => buy(client, show)))
    const first = name === 'imports' ? MAX_IMPORTS : MEMBERS
    const replies = await withoutDeadlock(t, async () => [
      ...(await buyAll(members.slice(0, first))),
      ...(await buyAll(members.slice(first))),
    ])
    const [sold, soldOut] = statuses
    const count = (wanted: number | undefined) => replies.filter(({ status }) => status === wanted).length
    t.same([count(sold), count(soldOut)], [SEATS, MEMBERS - SEATS], `${getStatuses(replies)}`)
    const [left] = await database.run('select seats from lock_shows where id = $1', [show])
    const [made] = await database.run('select count(*) as count from lock_tickets where show_id = $1', [show])
    t.same([left?.seats, made?.count], [0, SEATS])
  })
}

t.test('the row of a new unique value is locked as its update needs it', { skip }, async (t) => {
  const show = await createShow()
  const [reached, gate] = [createDeferred(), createDeferred()]
  hooks.beforeUpdate = async () => {
    reached.resolve()
    await gate.promise
    hooks.beforeUpdate = undefined
  }
  const replies = await withoutDeadlock(t, async () => {
    const first = ada.client.patch(`/shows/${show}`, { code: 'a-new-code' })
    await reached.promise
    // Its reference is written before the show is changed. An admin may read each show, so that none is read before.
    const second = admin.post('/tickets', { show_id: show, note: 'late' })
    await waitUntil(async () => (await countWaiting()) === 1)
    gate.resolve()
    return Promise.all([first, second])
  })
  t.same(getStatuses(replies), [200, 201])
})

const buy = (id: string | undefined) => ({
  method: 'POST',
  path: '/tickets',
  body: { show_id: id, note: 'A' },
})

const batches: Record<string, (show: string[], ticket: string) => [Json[], Json[]]> = {
  'of one collection': ([one, two, three]) => {
    const operations = [one, two, three].map((id) => patch(`/shows/${id}`, { title: 'B' }))
    return [operations, operations.toReversed()]
  },
  'of two collections': ([one, two], ticket) => {
    const [first, held] = [patch(`/tickets/${ticket}`, { note: 'B' }), patch(`/shows/${two}`, { title: 'B' })]
    const last = patch(`/shows/${one}`, { title: 'B' })
    return [
      [first, held, last],
      [last, held, first],
    ]
  },
  'whose actions lock': ([one, two, three]) => {
    const [first, held, last] = [one, two, three].map(buy)
    const [changedFirst, changedLast] = [one, three].map((id) => patch(`/shows/${id}`, { title: 'B' }))
    return [
      [changedLast, held, first],
      [changedFirst, held, last],
    ]
  },
  'with deletions': ([one, two, three]) => {
    const change = patch(`/shows/${three}`, { title: 'B' })
    const held = patch(`/shows/${two}`, { title: 'B' })
    return [
      [{ method: 'DELETE', path: `/shows/${one}` }, held, change],
      [change, held, patch(`/shows/${one}`, { title: 'B' })],
    ]
  },
}

for (const [name, build] of Object.entries(batches)) {
  t.test(`batches ${name} in opposite orders wait for each other`, { skip }, async (t) => {
    const ids = [await createShow(), await createShow(), await createShow()].sort()
    const [ticket = ''] = await insertRows(database, 'lock_tickets', [
      { show_id: await createShow(), user_id: ada.id },
    ])
    const [one, other] = build(ids, ticket)
    const replies = await withoutDeadlock(t, async () => {
      // Each of them has its first row, and waits for the second.
      const sent = await holding(
        'select 1 from lock_shows where id = $1 for update',
        [ids[1] ?? ''],
        async () => {
          const first = runBatch(ada.client, one)
          await waitUntil(async () => (await countWaiting()) === 1)
          const second = runBatch(ada.client, other)
          await waitUntil(async () => (await countWaiting()) === 2)
          return [first, second]
        },
      )
      return Promise.all(sent)
    })
    // After its deletion, a row is 404.
    t.same(getStatuses(replies), name === 'with deletions' ? [200, 404] : [200, 200])
  })
}

t.test(
  'a batch and a change of a table with an exclusion constraint wait for each other',
  { skip },
  async (t) => {
    const times = (hour: number) => ({
      starts_at: `2026-12-01 0${hour}:00`,
      ends_at: `2026-12-01 0${hour}:30`,
    })
    const [one, two] = await insertRows(database, 'lock_bookings', [
      { hall: 1, ...times(1) },
      { hall: 1, ...times(2) },
    ])
    const lock = `select pg_advisory_xact_lock(hashtextextended('lock_bookings'::regclass::oid::text, 0))`
    const replies = await withoutDeadlock(t, async () => {
      const sent = await holding(lock, [], async () => {
        const first = runBatch(ada.client, [
          patch(`/bookings/${one}`, { hall: 2 }),
          patch(`/bookings/${two}`, { hall: 3 }),
        ])
        await waitUntil(async () => (await countWaiting()) === 1)
        const second = bob.client.patch(`/bookings/${two}`, { hall: 4 })
        await waitUntil(async () => (await countWaiting()) === 2)
        return [first, second]
      })
      return Promise.all(sent)
    })
    t.same(getStatuses(replies), [200, 200])
  },
)

t.test('a row that the caller may not write is neither locked nor waited for', { skip }, async (t) => {
  const show = await createShow()
  const [foreign = '', own = ''] = await insertRows(database, 'lock_tickets', [
    { show_id: show, user_id: bob.id },
    { show_id: show, user_id: ada.id },
  ])
  const path = `/tickets/${foreign}`
  const { client } = ada
  // Each would wait until the transaction ends.
  const statuses = await holding('select 1 from lock_tickets where id = $1 for update', [foreign], async () =>
    getStatuses([
      await client.patch(path, { note: 'B' }),
      await client.patch(path, { note: 'B' }, createKeyHeader()),
      await client.put(path, { show_id: show, note: 'B' }),
      await client.delete(path),
      await runBatch(client, [patch(`/tickets/${own}`, { note: 'B' }), patch(path, { note: 'B' })]),
    ]),
  )
  t.same(statuses, Array(5).fill(403))
  t.equal((await admin.patch(path, { note: 'B' })).status, 200)
})

t.test('a reference waits for a deletion of its row, and for no change of it', { skip }, async (t) => {
  const show = await createShow()
  const body = { show_id: show, note: 'bought' }
  const lock = (mode: string) => `select 1 from lock_shows where id = $1 for ${mode}`
  const changed = await holding(lock('no key update'), [show], () => ada.client.post('/tickets', body))
  t.equal(changed.status, 201, changed.text)
  const waiting = await holding(lock('update'), [show], async () => {
    const sent = ada.client.post('/tickets', body)
    await waitUntil(async () => (await countWaiting()) === 1)
    return { sent }
  })
  t.equal((await waiting.sent).status, 201)
  const gone = await outside.transaction(async (tx) => {
    await tx.run('delete from lock_tickets where show_id = $1', [show])
    await tx.run('delete from lock_shows where id = $1', [show])
    const sent = ada.client.post('/tickets', body)
    await waitUntil(async () => (await countWaiting()) === 1)
    return { sent }
  })
  t.equal((await gone.sent).status, 422)
})
