/** Exports from replicas, with limits in Redis, and from a PostgreSQL server that goes away. */
import t from 'tap'
import { ADMIN_KEY, createClient, testApp } from '../../../testing/helpers/app.ts'
import {
  createFakeStandby,
  openDatabase,
  skipStandby as skip,
  testDatabase,
  testDatabaseUrl,
} from '../../../testing/helpers/database.ts'
import { startProxy } from '../../../testing/helpers/proxy.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { insertProducts } from './raw-export.ts'
import { NDJSON, readRows } from './read-export.ts'

const REDIS = process.env.REDIS_URL || undefined
/** More than the buffers of a connection on this machine take. */
const [COUNT, ROW_BYTES] = [4_000, 5_000]

t.test('an export reads the replica, and the primary if the replica goes away', { skip }, async (t) => {
  const { url = '' } = await testDatabaseUrl(t)
  const standby = await createFakeStandby(t, url)
  const proxy = await startProxy(t, standby.url)
  const database = await openDatabase({ url, poolSize: 4, replicaUrls: [proxy.url] })
  await insertProducts(database, COUNT, ROW_BYTES, 'primary')
  await insertProducts(standby.database, COUNT, ROW_BYTES, 'replica')
  const { person } = await testApp(t, {}, { database })
  const { client } = await person('member')
  await waitUntil(async () => (await client.get('/products?limit=1')).body.data[0].name === 'replica')

  const rows = await readRows(client, '/products')
  t.equal(rows.length, COUNT)
  t.ok(rows.every(({ name }) => name === 'replica'))

  proxy.resetAfter((COUNT * ROW_BYTES) / 2)
  const names = (await readRows(client, '/products')).map(({ id, name }) => ({ id, name }))
  t.equal(new Set(names.map(({ id }) => id)).size, COUNT, 'each row once')
  t.strictSame([...new Set(names.map(({ name }) => name))], ['replica', 'primary'])
})

t.test('a server that goes away ends the connection before the end of the body', { skip }, async (t) => {
  const { url = '' } = await testDatabaseUrl(t)
  const proxy = await startProxy(t, url)
  const database = await openDatabase({ url: proxy.url, poolSize: 4 })
  await insertProducts(database, COUNT, ROW_BYTES)
  const { admin, app, base } = await testApp(t, {}, { database })
  const response = await fetch(`${base}/products`, { headers: { accept: NDJSON, 'x-api-key': ADMIN_KEY } })
  t.equal(response.status, 200)
  await proxy.set('refuse')
  await t.rejects(response.text(), { message: 'terminated' })
  await waitUntil(() => app.exports.size === 0)
  await proxy.set('pass')
  await waitUntil(async () => (await admin.get('/products?limit=1')).status === 200)
  t.equal((await readRows(admin, '/products')).length, COUNT)
})

t.test(
  'with Redis, an export waits where the window of all processes is full',
  { skip: REDIS ? false : 'needs a Redis: set REDIS_URL' },
  async (t) => {
    const settings = { REDIS_URL: REDIS ?? '', RATE_LIMIT: '60', RATE_LIMIT_WINDOW: '3600' }
    const database = await testDatabase(t)
    await insertProducts(database, 5_000, 1)
    const [first, second] = [
      await testApp(t, settings, { database }),
      await testApp(t, settings, { database }),
    ]
    const { client, key } = await first.person('admin')
    const other = createClient(second.base, { 'x-api-key': key })
    for (let i = 0; i < 20; i += 1) t.equal((await other.get('/products?limit=1')).status, 200)
    // It counts as 50 requests: the window of one process would have room for them.
    const controller = new AbortController()
    const headers = { accept: NDJSON, 'x-api-key': key }
    const response = await fetch(`${first.base}/products`, { headers, signal: controller.signal })
    t.equal(response.status, 200)
    await waitUntil(async () => (await client.get('/products?limit=1')).status === 429)
    t.equal(first.app.exports.size, 1)
    controller.abort()
    await waitUntil(() => first.app.exports.size === 0)
  },
)
