/** Old events are removed in the order of their positions, and cursors before them expire. */
import t from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase, testDatabase } from '../../../testing/helpers/database.ts'
import {
  clearFeed,
  getPlaces,
  insertEvent,
  insertLargeEvents,
  insertManyEvents,
  readFeed,
  stopEventWork,
} from '../../../testing/helpers/events.ts'
import { removeOldEvents } from '../../src/events/retention.ts'
import { assignBatch } from '../../src/events/sequencer.ts'

const database = await createSharedDatabase(t)
const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString()
const always = () => true
/** Returns whether another batch is wanted: only the first one is. */
const createOnce = () => {
  let checks = 0
  return () => ++checks <= 1
}

t.test('events older than EVENTS_RETENTION_DAYS are removed up to the first younger one', async (t) => {
  const test = await testApp(t, { EVENTS_RETENTION_DAYS: '7' }, { database })
  const { app, admin } = test
  const removed = await clearFeed(test)
  const { cursor } = await readFeed(admin)
  // Otherwise a poll may assign positions.
  await stopEventWork(app)
  for (const days of [9, 8, 6, 8, 1]) await insertEvent(database, { created_at: daysAgo(days) })
  t.equal(await app.events.removeOld(), 0, 'they have no position yet')
  await app.events.assignAll()
  t.same([await app.events.removeOld(), await app.events.removeOld()], [2, 0])
  // The older event after a younger one waits, so that no event before the removed position is left.
  t.same(getPlaces((await readFeed(admin)).events, removed), [3, 4, 5])
  const expired = await admin.get(`/events?sort=position&cursor=${cursor}`)
  t.match(expired, { status: 410, body: { error: { code: 'EVENTS_EXPIRED' } } })
})

t.test('with 0 days no event is removed', async (t) => {
  const { app } = await testApp(t, { EVENTS_RETENTION_DAYS: '0' }, { database })
  await insertEvent(database, { created_at: daysAgo(10_000) })
  await app.events.assignAll()
  t.equal(await app.events.removeOld(), 0)
})

t.test('an event from the future keeps no older ones, nor is it removed before later ones', async (t) => {
  const database = await testDatabase(t)
  for (const [days, expected] of [
    [[9, -400, 8, -400], [4]],
    // One that is young enough keeps those after it.
    [
      [6, -400, 8],
      [5, 6, 7],
    ],
  ] as const) {
    for (const each of days) await insertEvent(database, { created_at: daysAgo(each) })
    await assignBatch(database, [])
    await removeOldEvents(database, 7, always)
    const rows = await database.run('select position from events order by position')
    t.same(
      rows,
      expected.map((position) => ({ position })),
    )
  }
})

t.test('batches are of 500 events or 8 MiB, and processes at the same time remove each once', async (t) => {
  const database = await testDatabase(t)
  await insertLargeEvents(database, 20)
  await insertManyEvents(database, 1400)
  await database.run(`update outbox set created_at = now() - interval '2 days'`)
  while ((await assignBatch(database, [])).isFull);
  for (const count of [8, 8, 500]) t.equal(await removeOldEvents(database, 1, createOnce()), count)
  const counts = await Promise.all([1, 2, 3].map(() => removeOldEvents(database, 1, always)))
  t.equal(
    counts.reduce((sum, count) => sum + count),
    904,
  )
  t.match(await database.run('select * from event_feed'), [{ last_position: 1420, removed_position: 1420 }])
})
