/** EVENTS=false for a time: consumers that followed the feed before get an error, because changes are missing. */
import t from 'tap'
import { type TestApp, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { readFeed } from '../../../testing/helpers/events.ts'

const database = await createSharedDatabase(t)
const start = (EVENTS: string) => testApp(t, { EVENTS }, { database })

let count = 0
async function change({ admin, app }: TestApp) {
  count += 1
  const reply = await admin.post('/products', { sku: `I-${count}`, name: 'Tea', price_amount: 5 })
  if (reply.status !== 201) throw new Error(reply.text)
  if (app.feed) await app.events.assignAll()
}

const readStatus = async ({ admin }: TestApp, cursor: string) =>
  (await admin.get(`/events?sort=position&cursor=${cursor}`)).status

t.test('cursors from before are 410, and the feed begins after the interruption', async (t) => {
  const before = await start('true')
  await change(before)
  const early = (await before.admin.get('/events?sort=position&limit=1')).body.pagination.cursor
  const { events, cursor } = await readFeed(before.admin)
  await before.app.close()
  const unrecorded = await start('false')
  await change(unrecorded)
  await unrecorded.app.close()

  const after = await start('true')
  t.same([await readStatus(after, early), await readStatus(after, cursor)], [410, 410])
  const stream = await after.admin.get('/events', { accept: 'text/event-stream', 'last-event-id': cursor })
  t.equal(stream.status, 410)
  const begin = await readFeed(after.admin)
  t.same(begin.events, [])
  await change(after)
  for (const from of [begin.cursor, ''])
    t.match((await readFeed(after.admin, '', from)).events, [{ type: 'products.created' }])
  const listed = await after.admin.get('/events?limit=1')
  const rest = await after.admin.get(`/events?limit=100&cursor=${listed.body.pagination.cursor}`)
  t.equal(rest.body.data.length, events.length, 'earlier events are listed')
  await after.app.close()
})

t.test('cursors that a process gives out while another does not record are 410 when that ends', async (t) => {
  const first = await start('true')
  await change(first)
  const unrecorded = await start('false')
  const during = await readFeed(first.admin)
  await change(unrecorded)
  const second = await start('true')
  const mixed = await readFeed(second.admin)
  t.equal(await readStatus(second, during.cursor), 410)
  await change(unrecorded)
  await unrecorded.app.close()
  t.equal(await readStatus(second, mixed.cursor), 410)
  const { cursor } = await readFeed(second.admin)
  await second.app.close()
  t.equal(await readStatus(await start('true'), cursor), 200)
})
