/** An export has every row that the list has, in its order, as NDJSON or CSV. */
import { once } from 'node:events'
import { get } from 'node:http'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { ADMIN_KEY, testApp } from '../helpers/app.ts'
import { insertRows } from '../helpers/rows.ts'
import { waitUntil } from '../helpers/time.ts'
import { CSV, getExport, NDJSON, parseLines, parseRecords, readRows, walkList } from './read-export.ts'

const { admin, anybody, app, database, peopleOfAllRoles, person } = await testApp(t)
const people = await peopleOfAllRoles()
const COUNT = 1_250

const products = Array.from({ length: COUNT }, (_, i) => ({
  // Many rows with the same price, and some with the same time.
  price_amount: i % 7,
  name: i % 100 === 0 ? `Rare ${i}` : `Common ${i}`,
  description: i % 3 === 0 ? null : `Text ${i}`,
  status: i % 2 === 0 ? 'active' : 'draft',
  created_at: `2026-01-01T00:00:00.00000${i % 9}Z`,
}))
await insertRows(database, 'products', products)
const posts = Array.from({ length: 120 }, (_, i) => ({
  user_id: people.member.id,
  status: i % 2 === 0 ? 'published' : 'draft',
}))
await insertRows(database, 'posts', posts)

for (const query of [
  '',
  '?sort=price_amount',
  '?sort=-price_amount,name',
  '?sort=created_at&order=desc',
  '?status=draft,archived&sort=name',
  '?search=rare',
  '?price_amount_min=2&price_amount_max=3',
  '?fields=name,price_amount&sort=price_amount',
  '?search=nothing',
]) {
  t.test(`GET /products${query} as NDJSON has the rows of the list`, async (t) => {
    for (const form of ['', '/v2']) {
      const reply = await getExport(admin, `${form}/products${query}`)
      t.equal(reply.status, 200)
      t.strictSame(parseLines(reply.text), await walkList(admin, `${form}/products${query}`))
    }
  })
}

t.test('an export has every row once, whatever its order', async (t) => {
  const rows = await readRows(admin, '/products?sort=price_amount')
  t.equal(rows.length, COUNT)
  t.equal(new Set(rows.map(({ id }) => id)).size, COUNT)
})

t.test('each role exports the rows that it may list', async (t) => {
  for (const { client } of Object.values(people)) {
    t.strictSame(await readRows(client, '/products'), await walkList(client, '/products'))
  }
  const path = `/users/${people.member.id}/posts`
  t.equal((await readRows(people.manager.client, path)).length, 120)
  t.equal((await readRows(people.member.client, '/users/me/posts')).length, 120)
  t.strictSame(await readRows(people.member.client, '/users/me/posts'), await walkList(admin, path))
  t.equal((await getExport(people.member.client, '/users')).status, 403)
  t.equal((await getExport(anybody, '/products')).status, 401)
})

t.test('a filter by a related resource needs the scope of that collection too', async (t) => {
  const [one, both] = [
    await person('admin', ['orders:read']),
    await person('admin', ['orders:read', 'users:read']),
  ]
  t.equal((await getExport(one.client, '/orders?user.status=active')).status, 403)
  t.equal((await getExport(both.client, '/orders?user.status=active')).status, 200)
})

t.test('the rows of CSV are flat in both versions', async (t) => {
  const path = '/products?sort=name&status=active'
  const listed = await walkList(admin, path)
  const names = Object.keys(listed[0])
  for (const form of ['', '/v2']) {
    const { text } = await getExport(admin, `${form}${path}`, CSV)
    const [head, ...records] = parseRecords(text)
    t.strictSame(head, names)
    t.strictSame(
      records,
      listed.map((row) => names.map((name) => (row[name] === null ? '' : String(row[name])))),
    )
  }
  const narrowed = await getExport(admin, `${path}&fields=sku,name`, CSV)
  t.equal(narrowed.text.split('\r\n')[0], 'id,sku,name')
  const empty = await getExport(admin, '/products?search=nothing', CSV)
  t.equal(empty.text, `${names.join()}\r\n`, 'the names stand without rows too')
})

t.test('fields of CSV are quoted where RFC 4180 asks for it, and formulas are kept', async (t) => {
  const texts = ['a,b', 'say "hi"', 'two\nlines', 'a\rb', ' spaces ', '=1+1', 'ü\u{1f600}', "'"]
  await insertRows(
    database,
    'products',
    texts.map((description, i) => ({ description, sku: `quoted-${i}`, name: 'Quoted' })),
  )
  const { text } = await getExport(admin, '/products?search=quoted&sort=sku&fields=description', CSV)
  t.strictSame(
    parseRecords(text)
      .slice(1)
      .map(([, description]) => description),
    texts,
  )
  t.match(text, ',=1+1\r\n', 'a formula is no reason to quote or to change a field')
  await database.run(`delete from products where name = 'Quoted'`)
})

t.test('a value is exported as the list has it, whatever control characters it has', async (t) => {
  const texts = ['a\u001fb', '\u001f', '\u001e', ' ', '', null]
  await insertRows(
    database,
    'products',
    texts.map((description, i) => ({ description, sku: `odd-${i}`, name: 'Odd', price_amount: 2 ** 53 - 1 })),
  )
  for (const query of ['?search=odd&sort=sku', '?search=odd&sort=sku&fields=description,price_amount']) {
    const rows = await readRows(admin, `/products${query}`)
    t.strictSame(
      rows.map(({ description }) => description),
      texts,
    )
    t.strictSame(rows, await walkList(admin, `/products${query}`))
  }
  await database.run(`delete from products where name = 'Odd'`)
})

t.test('objects and arrays are JSON in CSV, as in the list', async (t) => {
  const { status, body } = await admin.post('/orders', {
    items: [{ product_id: (await insertRows(database, 'products', [{ stock: 5 }]))[0], quantity: 2 }],
    shipping_address: { name: 'A "B"', line1: 'L', city: 'C', postal_code: '1', country: 'DE' },
  })
  t.equal(status, 201)
  const [names = [], record = []] = parseRecords((await getExport(admin, '/orders', CSV)).text)
  const cell = (name: string) => record[names.indexOf(name)] ?? ''
  t.strictSame(JSON.parse(cell('items')), body.data.items)
  t.strictSame(JSON.parse(cell('shipping_address')), body.data.shipping_address)
  t.equal(cell('total_amount'), '200')
})

t.test('the headers say what is sent, and HEAD has the same without rows', async (t) => {
  for (const [accept, type, extension] of [
    [NDJSON, NDJSON, 'ndjson'],
    [CSV, 'text/csv; charset=utf-8', 'csv'],
  ] as const) {
    const [got, head] = [
      await getExport(admin, '/products', accept),
      await admin.call('HEAD', '/products', { headers: { accept } }),
    ]
    for (const { status, headers } of [got, head]) {
      t.equal(status, 200)
      t.match(Object.fromEntries(headers), {
        'content-type': type,
        'content-disposition': `attachment; filename="products.${extension}"`,
        'cache-control': 'private, no-cache',
        'api-version': '1',
        vary: /^Accept,/,
        'x-ratelimit-limit': /^\d+$/,
      })
      for (const name of ['etag', 'link', 'content-length']) t.notOk(headers.has(name), name)
    }
    t.equal(head.text, '')
  }
})

t.test('Accept decides between a page and an export, and between versions', async (t) => {
  const json = 'application/json; charset=utf-8'
  for (const [accept, type] of [
    ['text/csv', 'text/csv; charset=utf-8'],
    ['text/*', 'text/csv; charset=utf-8'],
    ['application/x-ndjson, application/json', NDJSON],
    ['application/json, application/x-ndjson', json],
    ['application/*', json],
    ['text/csv;q=0.5, application/json;q=0.4', 'text/csv; charset=utf-8'],
    ['text/csv;q=0, */*', json],
  ] as const) {
    const { headers } = await getExport(admin, '/products?search=nothing', accept)
    t.equal(headers.get('content-type'), type, accept)
  }
  const typed = await getExport(admin, '/v2/products?search=rare')
  t.match(parseLines(typed.text)[0], { type: 'products', attributes: { status: /./ } })
  const fallback = 'text/csv, application/vnd.api+json;version=2;q=0.5'
  t.match((await getExport(admin, '/users/me', fallback)).headers.get('api-version'), '2')
})

t.test('only collections have exports: 406 as JSON elsewhere', async (t) => {
  const [first] = await readRows(admin, '/products?search=rare')
  for (const accept of [NDJSON, CSV]) {
    for (const path of [
      `/products/${first?.id}`,
      '/users/me',
      '/sessions',
      '/api-keys',
      '/webhook-endpoints',
    ]) {
      const { status, body } = await people.admin.bearer.get(path, { accept })
      t.match(
        { status, body },
        { status: 406, body: { error: { code: 'NOT_ACCEPTABLE' } } },
        `${path} ${accept}`,
      )
    }
    const posted = await admin.post('/products', {}, { accept })
    t.equal(posted.status, 406, 'a POST has no export')
  }
})

t.test('the parameters of pages are refused, together with all else', async (t) => {
  for (const [name, value] of Object.entries({ include: 'user', limit: '5', page: '1', cursor: 'x' })) {
    const { status, body } = await getExport(admin, `/orders?${name}=${value}`)
    t.match(
      { status, body },
      {
        status: 400,
        body: {
          error: { code: 'VALIDATION_ERROR', details: [{ field: name, code: 'CONFLICTING_PARAMETERS' }] },
        },
      },
    )
  }
  const { body } = await getExport(admin, '/v2/orders?limit=0&page=1&sort=colour&unknown=1', CSV)
  t.strictSame(body.error.errors.map(({ field }: { field: string }) => field).sort(), [
    'limit',
    'page',
    'sort',
    'unknown',
  ])
  t.equal((await getExport(admin, '/products?status=colourful')).status, 400)
})

t.test('an unknown parent is 404, and a precondition that an export cannot meet 412', async (t) => {
  const path = '/users/0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f/posts'
  for (const method of ['GET', 'HEAD']) {
    t.equal((await admin.call(method, path, { headers: { accept: NDJSON } })).status, 404)
  }
  const matching = (match: string) => admin.get('/products?search=rare', { accept: CSV, 'if-match': match })
  t.equal((await matching('"1-abc"')).status, 412)
  t.equal((await matching('*')).status, 200)
  const unmodified = await admin.get('/products?search=rare', { accept: CSV, 'if-none-match': '*' })
  t.equal(unmodified.status, 200, 'there is no tag to compare with')
})

t.test('events are exported in both orders, up to the last one of the beginning', async (t) => {
  for (let i = 0; i < 3; i += 1) await admin.post('/products', { sku: `E-${i}`, name: 'E', price_amount: 1 })
  await app.events.assignAll()
  for (const query of ['', '?sort=position', '?type=products.created', '?fields=type,resource_id']) {
    for (const form of ['', '/v2']) {
      const rows = await readRows(admin, `${form}/events${query}`)
      t.ok(rows.length >= 3)
      t.strictSame(rows, await walkList(admin, `${form}/events${query}`), query)
    }
  }
  const [names = [], record = []] = parseRecords((await getExport(admin, '/events', CSV)).text)
  t.equal(JSON.parse(record[names.indexOf('data')] ?? '').sku, 'E-2')
  t.equal((await getExport(admin, '/events?cursor=')).status, 400)
  t.equal((await admin.call('HEAD', '/events', { headers: { accept: CSV } })).status, 200)
})

t.test('rows that exist throughout are exported once while others come, move and go', async (t) => {
  const lasting = (await walkList(admin, '/products?sort=name')).map(({ id }) => id)
  let isOver = false
  const churn = async () => {
    for (let i = 0; !isOver; i += 1) {
      const [id] = await insertRows(database, 'products', [{ name: `Common 1${i % 10}` }])
      await database.run('delete from products where id = $1', [id ?? null])
    }
  }
  const churning = churn()
  const isLasting = new Set(lasting)
  for (let i = 0; i < 3; i += 1) {
    const rows = await readRows(admin, '/products?sort=name')
    t.strictSame(
      rows.map(({ id }) => id).filter((id) => isLasting.has(id)),
      lasting,
    )
  }
  isOver = true
  await churning
  await waitUntil(() => app.exports.size === 0)
})

t.test('a compressed export has the same rows', async (t) => {
  const compressing = await testApp(t, { COMPRESS: 'true' }, { database })
  for (const accept of [NDJSON, CSV]) {
    const [plain, compressed] = [
      await getExport(admin, '/products', accept),
      await compressing.admin.get('/products', { accept, 'accept-encoding': 'gzip' }),
    ]
    t.equal(compressed.headers.get('content-encoding'), 'gzip')
    t.equal(compressed.text, plain.text)
  }
})

t.test(
  'brotli compresses an export with a window of 128 KiB: a larger one is memory that slow clients hold',
  async (t) => {
    const compressing = await testApp(t, { COMPRESS: 'true' })
    await insertRows(
      compressing.database,
      'products',
      Array.from({ length: 20 }, () => ({})),
    )
    const headers = { accept: NDJSON, 'accept-encoding': 'br', 'x-api-key': ADMIN_KEY }
    const [response] = await once(get({ port: compressing.port, path: '/products', headers }), 'response')
    const body = await buffer(response)
    t.equal(response.headers['content-encoding'], 'br')
    // The size of the window, RFC 7932, section 9.1.
    t.equal((body[0] ?? 0) & 0b1111111, 0b0000001)
  },
)
