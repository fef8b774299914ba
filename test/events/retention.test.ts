/** Old events are removed in the order of their positions, and cursors before them expire. */
import t from 'tap'
import { removeOldEvents } from '../../plugins/events/retention.ts'
import { assignBatch } from '../../plugins/events/sequencer.ts'
import { testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import {
  clearFeed,
  getPlaces,
  insertEvent,
  insertLargeEvents,
  insertManyEvents,
  readFeed,
} from '../helpers/events.ts'

const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString()

t.test('events older than EVENTS_RETENTION_DAYS are removed up to the first younger one', async (t) => {
  const test = await testApp(t, { EVENTS_RETENTION_DAYS: '7' })
  const { app, admin, database } = test
  const removed = await clearFeed(test)
  const { cursor } = await readFeed(admin)
  for (const days of [9, 8, 6, 8, 1]) await insertEvent(database, { created_at: daysAgo(days) })
  await app.events.assignAll()
  t.equal(await app.events.removeOld(), 2)
  t.equal(await app.events.removeOld(), 0)
  const { events } = await readFeed(admin)
  t.same(
    getPlaces(events, removed),
    [3, 4, 5],
    'an older event after a younger one waits, so that no event before the removed position is left',
  )
  const expired = await admin.get(`/events?sort=position&cursor=${cursor}`)
  t.equal(expired.status, 410)
  t.equal(expired.body.error.code, 'EVENTS_EXPIRED')
})

t.test('events without a position are not removed, and with 0 days none is', async (t) => {
  const keeping = await testApp(t, { EVENTS_RETENTION_DAYS: '0' })
  await insertEvent(keeping.database, { created_at: daysAgo(10_000) })
  await keeping.app.events.assignAll()
  t.equal(await keeping.app.events.removeOld(), 0)

  const database = await testDatabase(t)
  await insertEvent(database, { created_at: daysAgo(10) })
  t.equal(await removeOldEvents(database, 1, () => true), 0)
})

t.test('many events are removed in batches, which end when they are no longer wanted', async (t) => {
  const database = await testDatabase(t)
  await database.run(
    `insert into events (type, resource_type, resource_id, revision, columns, credential, position, created_at)
     select 'products.created', 'products', gen_random_uuid(), 1, '{}', 'system', n, now() - interval '2 days'
     from generate_series(1, 1200) as n`,
  )
  await database.run('insert into event_feed (last_position) values (1200)')
  let checks = 0
  const isWanted = () => {
    checks += 1
    return checks <= 1
  }
  t.equal(await removeOldEvents(database, 1, isWanted), 500)
  t.equal(await removeOldEvents(database, 1, () => true), 700)
  t.same(await database.run('select last_position, removed_position from event_feed'), [
    { last_position: 1200, removed_position: 1200 },
  ])
})

t.test(
  'an event from the future does not keep older ones, nor is it removed before later ones',
  async (t) => {
    const database = await testDatabase(t)
    const remaining = async () => {
      await removeOldEvents(database, 7, () => true)
      return (await database.run('select position from events order by position')).map((row) => row.position)
    }
    for (const days of [9, -400, 8, -400]) await insertEvent(database, { created_at: daysAgo(days) })
    await assignBatch(database, [])
    t.same(await remaining(), [4])
    for (const days of [6, -400, 8]) await insertEvent(database, { created_at: daysAgo(days) })
    await assignBatch(database, [])
    t.same(await remaining(), [5, 6, 7], 'one that is young enough keeps those after it')
  },
)

t.test('large events are removed in batches of 8 MiB', async (t) => {
  const database = await testDatabase(t)
  await insertLargeEvents(database, 20)
  await database.run(`update outbox set created_at = now() - interval '2 days'`)
  while ((await assignBatch(database, [])).isFull);
  let checks = 0
  const removed = await removeOldEvents(database, 1, () => {
    checks += 1
    return checks <= 1
  })
  t.equal(removed, 8)
  t.equal(await removeOldEvents(database, 1, () => true), 12)
})

t.test('processes that remove at the same time remove each event once', async (t) => {
  const database = await testDatabase(t)
  await insertManyEvents(database, 900)
  await database.run(`update outbox set created_at = now() - interval '2 days'`)
  await assignBatch(database, [])
  const counts = await Promise.all([1, 2, 3].map(() => removeOldEvents(database, 1, () => true)))
  t.equal(
    counts.reduce((sum, count) => sum + count),
    900,
  )
  t.match(await database.run('select * from event_feed'), [{ last_position: 900, removed_position: 900 }])
})
