/** The concurrent requests of one user are limited, and expensive requests cost more. */
import t, { type Test } from 'tap'
import { createDatabase } from '../../drizzle/client/database.ts'
import { type Client, createClient, type Reply, testApp } from '../helpers/app.ts'
import { keepOpen, testDatabase } from '../helpers/database.ts'
import { createNotesTable, resourcesWithNotes } from '../helpers/notes.ts'
import { createClock, waitUntil } from '../helpers/time.ts'

/** A database whose statements on products wait until they are released. */
async function createHeldDatabase(t: Test) {
  const opened = await testDatabase(t)
  const waiting: (() => void)[] = []
  let isHeld = true
  const database = createDatabase({
    ...opened.$client,
    run: async (text, params, options) => {
      if (isHeld && /from "products"/.test(text)) await new Promise<void>((resolve) => waiting.push(resolve))
      return opened.$client.run(text, params, options)
    },
  })
  const release = () => {
    isHeld = false
    for (const resume of waiting.splice(0)) resume()
  }
  return { database, waiting, release }
}

const products = '/api/v1/products'

t.test(
  'a user has at most USER_CONCURRENCY concurrent requests in each process, also with Redis',
  async (t) => {
    const { database, waiting, release } = await createHeldDatabase(t)
    const { REDIS_URL } = process.env
    const settings = { USER_CONCURRENCY: '2', ...(REDIS_URL && { REDIS_URL }) }
    const shared = { database: keepOpen(database) }
    const [one, second] = [await testApp(t, settings, shared), await testApp(t, settings, shared)]
    const [ada, other] = [await one.person('member'), await one.person('member')]
    const there = createClient(second.base, { 'x-api-key': ada.key })
    const held: Promise<Reply>[] = []
    for (const [i, clients] of [
      [ada.client, ada.bearer],
      [there, there],
    ].entries()) {
      held.push(...clients.map((client) => client.get(products)))
      await waitUntil(() => waiting.length === 2 * (i + 1))
      for (const client of clients) {
        const { status, headers, body } = await client.get('/api/v1/users/me')
        t.same([status, headers.get('retry-after'), body.error.code], [429, '1', 'RATE_LIMIT_EXCEEDED'])
        t.match(headers.get('x-ratelimit-limit'), /^\d+$/)
      }
    }
    t.equal((await other.client.get('/api/v1/users/me')).status, 200)
    release()
    for (const reply of await Promise.all(held)) t.equal(reply.status, 200)
    for (const reply of await Promise.all([ada.client.get(products), ada.client.get(products)]))
      t.equal(reply.status, 200, 'the slots are free again')
  },
)

t.test('a request refused before its handler leaves no slot taken', async (t) => {
  const { person } = await testApp(t, { USER_CONCURRENCY: '1' })
  const { client } = await person('member')
  const json = { 'content-type': 'application/json' }
  const text = { 'content-type': 'text/plain' }
  const large = `"${'x'.repeat(1_100_000)}"`
  const refused: [status: number, send: (client: Client) => Promise<Reply>][] = [
    [403, (client) => client.get('/api/v1/users')],
    [404, (client) => client.get('/api/v1/products/none')],
    [400, (client) => client.get('/api/v1/products?limit=0')],
    [405, (client) => client.call('PUT', '/api/v1/products')],
    [415, (client) => client.call('POST', '/api/v1/orders', { body: 'x', headers: text })],
    [400, (client) => client.call('POST', '/api/v1/orders', { body: '{', headers: json })],
    [413, (client) => client.call('POST', '/api/v1/orders', { body: large, headers: json })],
    [422, (client) => client.post('/api/v1/orders', {})],
    [406, (client) => client.get('/api/v1/products', { accept: 'text/plain' })],
  ]
  for (const [status, send] of refused) t.equal((await send(client)).status, status)
  t.equal((await client.get('/api/v1/users/me')).status, 200)
})

t.test('an expensive request counts as several in the rate limit and the concurrency', async (t) => {
  const settings = { RATE_LIMIT: '1000', USER_CONCURRENCY: '9' }
  const { person, database } = await testApp(t, settings, { resources: resourcesWithNotes })
  await createNotesTable(database)
  const { client } = await person('admin')
  const remaining = async (path: string) => {
    const reply = await client.get(path)
    t.equal(reply.status, 200, path)
    return Number(reply.headers.get('x-ratelimit-remaining'))
  }
  const costs: [path: string, cost: number][] = [
    ['/products', 1],
    ['/products?limit=100', 1],
    ['/products?search=tea', 5],
    ['/products?page=1', 5],
    ['/products?search=tea&page=1', 9],
    ['/products?status_not=draft', 1],
    ['/products?name_prefix=tea', 5],
    ['/products?name_prefix=tea&description_null=true&search=tea', 5],
    ['/orders?user.status=active&page=1', 9],
    ['/orders?include=user', 1],
    ['/orders?include=user,products', 3],
    ['/users?include=notes,orders,profile', 5],
    ['/products?status=active,draft,archived', 1],
    [`/products?sku=${Array.from({ length: 10 }, (_, n) => n).join()}`, 1],
    [`/products?sku=${Array.from({ length: 11 }, (_, n) => n).join()}`, 2],
    [`/products?sku=${'A,'.repeat(60)}A`, 1],
    [`/products?sku=${Array.from({ length: 50 }, (_, n) => n).join()}&page=1`, 9],
    ['/users/me/notes', 1],
    ['/users/me/notes?limit=100', 3],
    ['/users/me?include=notes', 3],
  ]
  for (const [path, cost] of costs) {
    const before = await remaining('/api/v1/users/me')
    t.equal(before - (await remaining(`/api/v1${path}`)), cost, path)
  }
})

t.test('a request that costs more than the concurrency is admitted alone', async (t) => {
  const { database, waiting, release } = await createHeldDatabase(t)
  const { person } = await testApp(t, { USER_CONCURRENCY: '3' }, { database })
  const { client } = await person('member')
  const search = client.get('/api/v1/products?search=tea')
  await waitUntil(() => waiting.length === 1)
  t.equal((await client.get('/api/v1/users/me')).status, 429)
  release()
  t.equal((await search).status, 200)
})

t.test('the first cost that exceeds the window is admitted, then no request is', async (t) => {
  const { person } = await testApp(t, { RATE_LIMIT: '6' })
  const { client } = await person('member')
  const statuses = async (path: string) => {
    const reply = await client.get(path)
    return `${reply.status} ${reply.headers.get('x-ratelimit-remaining')}`
  }
  t.equal(await statuses('/api/v1/products?search=tea'), '200 1')
  t.equal(await statuses('/api/v1/products?search=tea'), '200 0')
  t.equal(await statuses('/api/v1/products'), '429 0')
})

t.test('the reply of a write counts by its bytes, not by its characters', async (t) => {
  const { person } = await testApp(t, { RATE_LIMIT: '1000' })
  const { client } = await person('member')
  const remaining = async () => Number((await client.get('/users/me')).headers.get('x-ratelimit-remaining'))
  const before = await remaining()
  const body = '€'.repeat(50_000)
  t.equal((await client.post('/users/me/posts', { title: 'Tea', body })).status, 201)
  // The request and 150,000 bytes, which count as two more, and the second look.
  t.equal(before - (await remaining()), 1 + 2 + 1)
})

t.test('a large reply counts by its size, also while the burst window is full', async (t) => {
  const time = createClock()
  const settings = { RATE_LIMIT: '1000', RATE_LIMIT_BURST: '3' }
  const { person, database } = await testApp(t, settings, { now: time.now, resources: resourcesWithNotes })
  await createNotesTable(database)
  const { id, client } = await person('member')
  await database.run(
    `insert into notes (id, user_id, title, body) select gen_random_uuid(), $1, 'Title', repeat('x', 100000)
     from generate_series(1, 50)`,
    [id],
  )
  const page = await client.get('/api/v1/users/me/notes?limit=100')
  t.equal(page.status, 200)
  time.pass(1_000)
  const after = await client.get('/api/v1/users/me')
  const used = 1000 - Number(after.headers.get('x-ratelimit-remaining'))
  const bySize = used - 3 - 1
  t.ok(Math.abs(bySize - Math.floor(page.text.length / 65_536)) <= 1, `${bySize}`)
})
