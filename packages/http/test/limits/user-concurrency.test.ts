/** The concurrent requests of one user are limited, and expensive requests cost more. */
import t from 'tap'
import { createHeldDatabase } from '../../../docs/test/mcp/held-database.ts'
import { type Client, createClient, type Reply, testApp } from '../../../testing/helpers/app.ts'
import { keepOpen } from '../../../testing/helpers/database.ts'
import { createNotes } from '../../../testing/helpers/notes.ts'
import { readWindow } from '../../../testing/helpers/replies.ts'
import { createClock, waitUntil } from '../../../testing/helpers/time.ts'

const products = '/api/v1/products'

t.test('a user has at most USER_CONCURRENCY requests at work in each process, also with Redis', async (t) => {
  const { database, waiting, hold, release } = await createHeldDatabase(t)
  const { REDIS_URL } = process.env
  const settings = { USER_CONCURRENCY: '2', ...(REDIS_URL && { REDIS_URL }) }
  const shared = { database: keepOpen(database) }
  const [one, second] = [await testApp(t, settings, shared), await testApp(t, settings, shared)]
  const [ada, other] = [await one.person('member'), await one.person('member')]
  const there = createClient(second.base, { 'x-api-key': ada.key })
  hold()
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
  const search = other.client.get(`${products}?search=tea`)
  await waitUntil(() => waiting.length === 5)
  const refused = await other.client.get('/api/v1/users/me')
  t.equal(refused.status, 429, 'what costs more than the concurrency is admitted alone')
  release()
  for (const reply of await Promise.all([...held, search])) t.equal(reply.status, 200)
  for (const reply of await Promise.all([ada.client.get(products), ada.client.get(products)]))
    t.equal(reply.status, 200, 'the slots are free again')

  const json = { 'content-type': 'application/json' }
  const text = { 'content-type': 'text/plain' }
  const large = `"${'x'.repeat(1_100_000)}"`
  for (const [status, send] of [
    [403, (client) => client.get('/api/v1/users')],
    [404, (client) => client.get('/api/v1/products/none')],
    [400, (client) => client.get('/api/v1/products?limit=0')],
    [405, (client) => client.call('PUT', '/api/v1/products')],
    [415, (client) => client.call('POST', '/api/v1/orders', { body: 'x', headers: text })],
    [400, (client) => client.call('POST', '/api/v1/orders', { body: '{', headers: json })],
    [413, (client) => client.call('POST', '/api/v1/orders', { body: large, headers: json })],
    [422, (client) => client.post('/api/v1/orders', {})],
    [406, (client) => client.get('/api/v1/products', { accept: 'text/plain' })],
  ] as [number, (client: Client) => Promise<Reply>][]) {
    for (let slot = 0; slot < 2; slot++) t.equal((await send(ada.client)).status, status)
    const after = await ada.client.get('/api/v1/users/me')
    t.equal(after.status, 200, 'a request refused before its handler leaves no slot taken')
  }
})

t.test('an expensive request counts as several, and a large reply by its bytes', async (t) => {
  const time = createClock()
  const settings = {
    RATE_LIMIT: '1000',
    RATE_LIMIT_WINDOW: '3600',
    USER_CONCURRENCY: '9',
    RATE_LIMIT_BURST: '3',
  }
  const { database, ...notes } = await createNotes(t)
  const { person } = await testApp(t, settings, { now: time.now, database, ...notes })
  const { id, client } = await person('admin')
  /** Sends a request in a second of its own. */
  const send = async (path: string, body?: unknown) => {
    time.pass(1_000)
    const reply = await (body ? client.post(path, body) : client.get(path))
    t.match(reply.status, /^20[01]$/, path)
    return { remaining: readWindow(reply).remaining ?? 0, size: reply.text.length }
  }
  const ten = Array.from({ length: 10 }, (_, n) => n).join()
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
    [`/products?sku=${ten}`, 1],
    [`/products?sku=${ten},10`, 2],
    [`/products?sku=${'A,'.repeat(60)}A`, 1],
    [`/products?sku=${Array.from({ length: 50 }, (_, n) => n).join()}&page=1`, 9],
    ['/users/me/notes', 1],
    ['/users/me/notes?limit=100', 3],
    ['/users/me?include=notes', 3],
  ]
  for (const [path, cost] of costs) {
    const { remaining } = await send('/api/v1/users/me')
    t.equal(remaining - (await send(`/api/v1${path}`)).remaining, cost, path)
  }

  const before = await send('/users/me')
  await send('/users/me/notes', { title: 'Tea', body: '€'.repeat(50_000) })
  // The request and 150,000 bytes, which count as two more, and the second look.
  const written = await send('/users/me')
  t.equal(before.remaining - written.remaining, 1 + 2 + 1, 'the reply of a write counts by its bytes')

  await database.run(
    `insert into notes (id, user_id, title, body) select gen_random_uuid(), $1, 'Title', repeat('x', 100000)
     from generate_series(1, 50)`,
    [id],
  )
  const page = await send('/api/v1/users/me/notes?limit=100')
  const bySize = written.remaining - (await send('/users/me')).remaining - 3 - 1
  t.ok(Math.abs(bySize - Math.floor(page.size / 65_536)) <= 1, `${bySize}, while the burst window is full`)
})
