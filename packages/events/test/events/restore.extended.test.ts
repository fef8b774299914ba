/** The feed survives `backup`, `restore` and `copy`. A cursor of changes that an older backup lacks is 410. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createDatabase } from '../../../database/src/client/database.ts'
import type { Database } from '../../../database/src/client/index.ts'
import { ADMIN_KEY, type TestApp, testApp } from '../../../testing/helpers/app.ts'
import {
  createMigratedDatabase,
  openAt,
  runCommand,
  type Settings,
} from '../../../testing/helpers/command.ts'
import { getSchema, SERVER, testEmbedded, testFolder } from '../../../testing/helpers/database.ts'
import {
  insertEvent,
  insertManyEvents,
  openStream,
  readFeed,
  removeEvents,
} from '../../../testing/helpers/events.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { createEndpoint, startReceiver, verify } from '../../../testing/helpers/webhooks.ts'
import { assignBatch } from '../../src/events/sequencer.ts'

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
  const { cursor } = await readFeed(admin)
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
  await admin.patch(`/products/${productId}`, { name: 'White tea' })
  await app.events.assignAll()
  const { events } = await readFeed(admin, '', cursor)
  t.equal(events.length, 3)
  // Changes that waited in the outbox come first, in their order.
  t.match(events, [
    { position: last + 1, resource_id: productId, previous: { name: 'Green tea' }, revision: 3 },
    { position: last + 2, type: 'products.created' },
    { position: last + 3, previous: { name: 'Black tea' }, revision: 4 },
  ])
  const products = await readFeed(admin, '&type=products.*', filtered)
  const positions = products.events.map(({ position }) => position)
  t.strictSame(positions, [last, last + 1, last + 2, last + 3])
  const expired = await admin.get(`/events?sort=position&cursor=${early}`)
  t.equal(expired.status, 410, 'removed events stay removed')

  t.equal((await admin.post(`/webhook-endpoints/${endpoint.id}/deliveries`, { test: true })).status, 201)
  const find = () => receiver.received.find(({ body }) => body.type === 'webhook-endpoints.test')
  await waitUntil(() => find() !== undefined)
  const webhook = find()
  for (const secret of secrets) t.ok(webhook && verify(secret, webhook), 'both secrets of the rotation sign')
  await app.close()
}

const run = async (t: Test, args: string[], settings: Settings) => {
  const { code, err } = await runCommand(t, args, settings)
  t.equal(code, 0, err)
}

t.test('consumers and endpoints go on after a restore', async (t) => {
  const receiver = await startReceiver(t)
  const source = await createMigratedDatabase(t)
  const filled = await fillFeed(t, source, receiver.url)
  const file = join(testFolder(t), 'backup.gz')
  await run(t, ['backup', file], source)
  const target = await createMigratedDatabase(t)
  await run(t, ['restore', file], target)
  await checkFeed(t, target, filled, receiver)
})

/** A database that can be replaced by another one, as an address does that leads to a standby from now on. */
function createSwitch(first: Database) {
  const target = { current: first, statements: [] as string[] }
  const database = createDatabase({
    ...first.$client,
    run(text, ...rest) {
      target.statements.push(text)
      return target.current.run(text, ...rest)
    },
    transaction: (...options) => target.current.transaction(...options),
  })
  return { database, target }
}

/** Creates products, and reads the feed. */
async function addProducts({ app, admin }: Pick<TestApp, 'app' | 'admin'>, sku: string, count: number) {
  for (let i = 0; i < count; i += 1)
    await admin.post('/products', { sku: `${sku}-${i}`, name: 'Tea', price_amount: 5 })
  await app.events.assignAll()
  return readFeed(admin)
}

const headers = { 'x-api-key': ADMIN_KEY }
const PAGE = 'total_bytes'
const POLL = 'from "outbox" order by "outbox"."sequence" limit'

// Nothing was changed since, all positions were given a second time, or more than these.
for (const count of [0, 5, 8]) {
  t.test(`after a restore of an older backup and ${count} changes, lost cursors are 410`, async (t) => {
    const source = await createMigratedDatabase(t)
    const older = await createMigratedDatabase(t)
    const file = join(testFolder(t), 'backup.gz')
    const before = await openApp(t, source)
    const { cursor: kept } = await addProducts(before, 'KEPT', 3)
    await before.app.close()
    await run(t, ['backup', file], source)
    await run(t, ['restore', file], older)

    const restored = await openAt(older)
    t.teardown(() => restored.close())
    const { database, target } = createSwitch(await openAt(source))
    const { app, admin, base } = await testApp(t, {}, { database })
    const { cursor: lost } = await addProducts({ app, admin }, 'LOST', 5)
    const open = (cursor?: string) => openStream(t, { app, base }, { headers, cursor })
    const streams = [await open(), await open(kept), await open(lost), await open()]
    await streams[1]?.waitForEvents(5)
    if (count > 0) {
      // In place of another process, which has written since.
      await insertManyEvents(restored, count)
      await assignBatch(restored, [])
    }
    target.current = restored
    for (const stream of streams) {
      await stream.waitForEnd()
      t.match(stream.events.at(-1), { type: 'error', data: { error: { code: 'EVENTS_EXPIRED' } } })
    }
    t.equal(streams[1]?.getCursor(), lost, 'the error has no cursor of its own')

    for (const accept of ['application/json', 'text/event-stream']) {
      const { status, body } = await admin.get(`/events?sort=position&cursor=${lost}`, { accept })
      t.same([status, body.error?.code], [410, 'EVENTS_EXPIRED'], accept)
    }
    t.equal((await readFeed(admin, '', kept)).events.length, count, 'a cursor from before the backup goes on')

    const live = await open(kept)
    await live.waitForEvents(count)
    const start = target.statements.length
    const countOf = (part: string) =>
      target.statements.slice(start).filter((text) => text.includes(part)).length
    await waitUntil(() => countOf(POLL) >= 4)
    t.ok(countOf(PAGE) <= 4, `${countOf(PAGE)} pages during ${countOf(POLL)} polls`)
    const { events } = await addProducts({ app, admin }, 'NEW', 2)
    await live.waitForEvents(count + 2)
    const ids = live.events.map(({ data }) => data.id)
    const added = events.slice(-2).map(({ id }) => id)
    t.same(ids.slice(-2), added, 'new events, although their positions are smaller than the lost cursor')
    await app.close()
  })
}

t.test('consumers and endpoints go on after a copy to PostgreSQL', { skip: !SERVER }, async (t) => {
  const receiver = await startReceiver(t)
  const source = { DATA_DIR: testFolder(t) }
  await (await testEmbedded(t, source.DATA_DIR)).close()
  const filled = await fillFeed(t, source, receiver.url)
  const target = await createMigratedDatabase(t)
  const { DATABASE_URL = '' } = target
  await run(t, ['copy', '--to', DATABASE_URL, '--schema', getSchema(DATABASE_URL)], source)
  await checkFeed(t, target, filled, receiver)
})
