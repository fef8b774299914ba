/** Lists and includes of large rows return about 8 MiB at most, and no row is lost between pages. */
import t from 'tap'
import { createDatabase } from '../../../database/src/client/database.ts'
import { type Json, testApp } from '../../../testing/helpers/app.ts'
import { createNotes } from '../../../testing/helpers/notes.ts'
import { getIds, readPages } from '../../../testing/helpers/replies.ts'

const MEBIBYTE = 1_048_576
const NOTES = 60
/** 50,000 emoji and as many quotation marks: 300,000 bytes in JSON. */
const LARGE = `repeat('😀"', 50000)`

const { database, resources } = await createNotes(t)
/** Statements on notes that run now, and the maximum that ran concurrently. */
const running = { now: 0, most: 0 }
const counted = createDatabase({
  ...database.$client,
  run: (text, params, options) => {
    const count = text.includes(' from "notes" ') ? 1 : 0
    running.now += count
    running.most = Math.max(running.most, running.now)
    return database.$client.run(text, params, options).finally(() => {
      running.now -= count
    })
  },
})
const { person } = await testApp(t, {}, { database: counted, resources })
const author = await person('member')
const manager = await person('manager')

const addNotes = (userId: string, count: number, body: string) =>
  database.run(
    `insert into notes (id, user_id, title, body, status, created_at)
     select gen_random_uuid(), $1, 'Title ' || n, ${body}, 'published', now() - n * interval '1 second'
     from generate_series(1, ${count}) n`,
    [userId],
  )

await addNotes(author.id, NOTES, LARGE)

t.test('a cursor page has fewer rows if they are large, and no row is missing', async (t) => {
  for (const sort of ['-created_at', 'title', 'published_at', '-title,created_at']) {
    const path = `/api/v1/users/me/notes?limit=100&sort=${sort}`
    const ids: string[] = []
    let count = 0
    for await (const page of readPages(author.client, path)) {
      count += 1
      ids.push(...getIds(page))
      t.ok(page.body.data.length > 0)
      t.ok(Buffer.byteLength(page.text) < 12 * MEBIBYTE)
    }
    t.ok(count > 1, `${count} pages`)
    t.equal(ids.length, NOTES)
    const list = await author.client.get(`${path}&fields=id`)
    t.same(ids, getIds(list), 'each once, in the order of the list')
  }
})

t.test('pages that may be large are read one at a time per user', async (t) => {
  await author.client.get('/api/v1/users/me/notes?limit=100')
  running.most = 0
  const get = () => author.client.get('/api/v1/users/me/notes?limit=100')
  const replies = await Promise.all([get(), get(), get()])
  for (const { status } of replies) t.equal(status, 200)
  t.equal(running.most, 1)
})

t.test('a large reply has the same text as a small one', async (t) => {
  const vendor = { accept: 'application/vnd.api+json;version=2' }
  const path = '/api/v2/users/me/notes?limit=100'
  const { headers, body, text } = await author.client.get(path, vendor)
  t.equal(headers.get('content-type'), 'application/vnd.api+json;version=2')
  t.equal(Number(headers.get('content-length')), Buffer.byteLength(text))
  t.same(Object.keys(body), ['data', 'pagination', 'meta'])
  t.match(body.meta.timestamp, /^\d{4}-.*Z$/)
  const [first] = body.data
  const one = await author.client.get(`/api/v2/users/me/notes/${first.id}`, vendor)
  t.same(first, one.body.data)
  t.equal(first.attributes.body, '😀"'.repeat(50_000))
  t.match(headers.get('link'), /rel="next"/)
  const head = await author.client.call('HEAD', path)
  t.same([head.status, head.text], [200, ''])
  const kept = { ...vendor, 'if-none-match': headers.get('etag') ?? '' }
  t.equal((await author.client.get(path, kept)).status, 304)
})

t.test('a numbered page that is too large is rejected with 400 and the limit that fits', async (t) => {
  const { status, body } = await author.client.get('/api/v1/users/me/notes?limit=100&page=1')
  t.equal(status, 400)
  t.match(body.error.details, [{ field: 'limit', code: 'OUT_OF_RANGE' }])
  const fits = Number(/only (\d+) of/.exec(body.error.details[0].message)?.[1])
  const page = await author.client.get(`/api/v1/users/me/notes?limit=${fits}&page=2`)
  t.equal(page.status, 200)
  t.same(page.body.pagination, { page: 2, limit: fits, total: NOTES, total_pages: Math.ceil(NOTES / fits) })
  const narrow = await author.client.get('/api/v1/users/me/notes?limit=100&page=1&fields=title')
  t.equal(narrow.status, 200)
  t.equal(narrow.body.data.length, NOTES)
})

t.test('a numbered page that is read in chunks has every row once', async (t) => {
  const { id, client } = await person('member')
  await addNotes(id, 90, `'short'`)
  for (const sort of ['-created_at', 'title']) {
    const pages: string[][] = []
    for (const page of [1, 2, 3])
      pages.push(getIds(await client.get(`/api/v1/users/me/notes?limit=40&page=${page}&sort=${sort}`)))
    t.same(
      pages.map(({ length }) => length),
      [40, 40, 10],
    )
    t.equal(new Set(pages.flat()).size, 90)
  }
})

t.test('includes that are too large are truncated, and their parents are named', async (t) => {
  const small = await person('member')
  await addNotes(small.id, 3, `'short'`)
  const { body, text } = await manager.client.get('/api/v1/users?include=notes')
  t.ok(Buffer.byteLength(text) < 6 * MEBIBYTE, `${text.length} characters`)
  const { has_more, truncated } = body.meta.includes.notes
  t.ok(has_more && truncated.includes(author.id))
  const { notes } = body.data.find((user: Json) => user.id === author.id)
  t.ok(notes.length < 20)
  for (const note of notes) t.equal(note.body, '😀"'.repeat(50_000), 'those that are there are whole')
  const newest = getIds(await author.client.get('/api/v1/users/me/notes?limit=5&fields=id'))
  t.same(
    notes.slice(0, 5).map(({ id }: Json) => id),
    newest,
  )
  const one = await manager.client.get(`/api/v1/users/${author.id}?include=notes`)
  t.same(one.body.meta.includes.notes, { has_more: true, truncated: [author.id] })
  t.ok(one.body.data.notes.length > 5)
})

t.test('the products of an order are truncated by size only', async (t) => {
  const admin = await person('admin')
  await database.run(
    `insert into products (id, sku, name, price_amount, status, stock, description)
     select gen_random_uuid(), 'L-' || n, 'Large', 1, 'active', 10, repeat('😀', 5000) from generate_series(1, 100) n`,
  )
  const products = await database.run(`select id from products where sku like 'L-%'`)
  const items = products.map(({ id }) => ({ product_id: id, quantity: 1 }))
  const orders: string[] = []
  for (let i = 0; i < 4; i++) orders.push((await admin.client.post('/api/v1/orders', { items })).body.data.id)
  const { body } = await admin.client.get('/api/v1/orders?include=products')
  const counts = body.data.map(({ products }: Json) => products.length)
  t.equal(counts[0], 100, 'the first order has all of them')
  t.ok(counts.at(-1) < 100)
  t.same(
    body.meta.includes.products.truncated,
    [orders[1], orders[0]].filter((id) => body.meta.includes.products.truncated.includes(id)),
  )
  t.ok(body.meta.includes.products.truncated.includes(orders[0]))
})
