/** The feed survives `backup`, `restore` and `copy`: positions, cursors, changes without a position, and webhooks. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { testApp } from '../helpers/app.ts'
import { createMigratedDatabase, openAt, type Settings } from '../helpers/backups.ts'
import { runCommand } from '../helpers/command.ts'
import { getSchema, SERVER, testEmbedded, testFolder } from '../helpers/database.ts'
import { insertEvent, readFeed, removeEvents } from '../helpers/events.ts'
import { startReceiver, verify } from '../helpers/webhook-receiver.ts'
import { createEndpoint } from '../helpers/webhooks.ts'

/** Opens an app on a database, which the test closes itself. */
const openApp = async (t: Test, settings: Settings) => testApp(t, {}, { database: await openAt(settings) })

/** Fills a database with events, of which some were removed and some have no position, and a webhook endpoint. */
async function fillFeed(t: Test, settings: Settings, url: string) {
  const { app, admin, database } = await openApp(t, settings)
  const endpoint = await createEndpoint(admin, url, { event_types: ['orders.*', 'products.*'] })
  const { secret } = (await admin.post(`/webhook-endpoints/${endpoint.id}/secrets`, {})).body.data
  const product = { sku: 'TEA-1', name: 'Tea', price_amount: 5, stock: 9, status: 'active' }
  const { id: productId } = (await admin.post('/products', product)).body.data
  await app.events.assignAll()
  const early = (await admin.get('/events?sort=position&limit=1')).body.pagination.cursor
  const filtered = (await readFeed(admin, '&type=products.*')).cursor
  await removeEvents(database, 2)
  await admin.patch(`/products/${productId}`, { name: 'Green tea' })
  await app.events.assignAll()
  const { cursor, events } = await readFeed(
    admin,
    '',
    (await admin.get('/events?sort=position')).body.pagination.cursor,
  )
  t.strictSame(events, [])
  const before = (await admin.get('/events?sort=position')).body.data
  // From here on, changes stay in the outbox.
  await app.events.stop()
  await admin.patch(`/products/${productId}`, { name: 'Black tea' })
  await insertEvent(database)
  await app.close()
  return { before, early, filtered, cursor, productId, secrets: [endpoint.secret, secret], endpoint }
}

/** Checks that consumers and endpoints go on with a copy of the database. */
async function checkFeed(
  t: Test,
  settings: Settings,
  filled: Awaited<ReturnType<typeof fillFeed>>,
  receiver: Awaited<ReturnType<typeof startReceiver>>,
) {
  const { before, early, filtered, cursor, productId, secrets, endpoint } = filled
  const { app, admin } = await openApp(t, settings)
  await app.events.assignAll()
  const last = before.at(-1).position
  const page = await admin.get(`/events?sort=position&limit=${before.length}`)
  t.strictSame(page.body.data, before, 'the same ids and positions')
  const { events } = await readFeed(admin, '', cursor)
  t.match(
    events,
    [
      { position: last + 1, resource_id: productId, previous: { name: 'Green tea' }, revision: 3 },
      { position: last + 2, type: 'products.created' },
    ],
    'changes that waited in the outbox follow, in their order',
  )
  await admin.patch(`/products/${productId}`, { name: 'White tea' })
  await app.events.assignAll()
  const all = await readFeed(admin, '', cursor)
  t.match(all.events.at(-1), { position: last + 3, previous: { name: 'Black tea' }, revision: 4 })
  t.equal(all.events.length, 3)
  const products = await readFeed(admin, '&type=products.*', filtered)
  t.strictSame(
    products.events.map(({ position }) => position),
    [last, last + 1, last + 2, last + 3],
  )
  t.equal(
    (await admin.get(`/events?sort=position&cursor=${early}`)).status,
    410,
    'removed events stay removed',
  )

  const { length } = receiver.received
  t.equal((await admin.post(`/webhook-endpoints/${endpoint.id}/deliveries`, { test: true })).status, 201)
  const find = () =>
    receiver.received.slice(length).find(({ body }) => body.type === 'webhook-endpoints.test')
  for (let count = length + 1; find() === undefined; count += 1) await receiver.waitFor(count)
  const webhook = find()
  for (const secret of secrets) t.ok(webhook && verify(secret, webhook), 'both secrets of the rotation sign')
  await app.close()
}

t.test('consumers and endpoints go on after a restore', async (t) => {
  const receiver = await startReceiver(t)
  const source = await createMigratedDatabase(t)
  const filled = await fillFeed(t, source, receiver.url)
  const file = join(testFolder(t), 'backup.gz')
  const written = await runCommand(t, ['backup', file], source)
  t.equal(written.code, 0, written.err)
  const target = await createMigratedDatabase(t)
  const restored = await runCommand(t, ['restore', file], target)
  t.equal(restored.code, 0, restored.err)
  await checkFeed(t, target, filled, receiver)

  await t.test('a cursor ahead of an older backup is 410, in lists and streams', async (t) => {
    const { app, admin } = await openApp(t, source)
    for (let i = 0; i < 3; i += 1)
      await admin.post('/products', { sku: `TEA-2${i}`, name: 'Tea', price_amount: 5 })
    await app.events.assignAll()
    const { cursor } = await readFeed(admin)
    await app.close()
    const older = await createMigratedDatabase(t)
    t.equal((await runCommand(t, ['restore', file], older)).code, 0)
    const second = await openApp(t, older)
    await second.app.events.assignAll()
    for (const headers of [{}, { accept: 'text/event-stream' }]) {
      const expired = await second.admin.get(`/events?sort=position&cursor=${cursor}`, headers)
      t.equal(expired.status, 410)
      t.equal(expired.body.error.code, 'EVENTS_EXPIRED')
    }
    await second.app.close()
  })
})

t.test('consumers and endpoints go on after a copy to PostgreSQL', { skip: !SERVER }, async (t) => {
  const receiver = await startReceiver(t)
  const source = { DATA_DIR: testFolder(t) }
  await (await testEmbedded(t, source.DATA_DIR)).close()
  const filled = await fillFeed(t, source, receiver.url)
  const target = await createMigratedDatabase(t)
  const copied = await runCommand(
    t,
    ['copy', '--to', target.DATABASE_URL ?? '', '--schema', getSchema(target.DATABASE_URL)],
    source,
  )
  t.equal(copied.code, 0, copied.err)
  await checkFeed(t, target, filled, receiver)
})
