/** An export has every row that the list has, in its order, as NDJSON or CSV. */
import { once } from 'node:events'
import { get } from 'node:http'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { ADMIN_KEY, type Json, testApp } from '../../../testing/helpers/app.ts'
import { keepOpen } from '../../../testing/helpers/database.ts'
import { insertRows } from '../../../testing/helpers/rows.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { CSV, getExport, NDJSON, parseLines, parseRecords, readRows, walkList } from './read-export.ts'

const { admin, anybody, app, database, peopleOfAllRoles, person } = await testApp(t)
const people = await peopleOfAllRoles()
const COUNT = 1_250

await insertRows(
  database,
  'products',
  Array.from({ length: COUNT }, (_, i) => ({
    // Many rows with the same price, and some with the same time.
    price_amount: i % 7,
    name: i % 100 === 0 ? `Rare ${i}` : `Common ${i}`,
    description: i % 3 === 0 ? null : `Text ${i}`,
    status: i % 2 === 0 ? 'active' : 'draft',
    created_at: `2026-01-01T00:00:00.00000${i % 9}Z`,
  })),
)
const user_id = people.member.id
const posts = ['published', 'draft'].flatMap((status) =>
  Array.from({ length: 60 }, () => ({ user_id, status })),
)
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
      const { status, text } = await getExport(admin, `${form}/products${query}`)
      t.equal(status, 200)
      const rows = parseLines(text)
      t.strictSame(rows, await walkList(admin, `${form}/products${query}`))
      t.equal(new Set(rows.map(({ id }) => id)).size, rows.length)
    }
  })
}

t.test('each role exports the rows that it may list', async (t) => {
  for (const { client } of Object.values(people))
    t.strictSame(await readRows(client, '/products'), await walkList(client, '/products'))
  const path = `/users/${people.member.id}/posts`
  t.equal((await readRows(people.manager.client, path)).length, 120)
  const own = await readRows(people.member.client, '/users/me/posts')
  t.equal(own.length, 120)
  t.strictSame(own, await walkList(admin, path))
  t.equal((await getExport(people.member.client, '/users')).status, 403)
  t.equal((await getExport(anybody, '/products')).status, 401)
})

t.test('a filter by a related resource needs the scope of that collection too', async (t) => {
  for (const [scopes, expected] of [
    [['orders:read'], 403],
    [['orders:read', 'users:read'], 200],
  ] as const) {
    const { client } = await person('admin', scopes)
    t.equal((await getExport(client, '/orders?user.status=active')).status, expected)
  }
})

t.test('the rows of CSV are flat in both versions', async (t) => {
  const path = '/products?sort=name&status=active'
  const listed = await walkList(admin, path)
  const names = Object.keys(listed[0])
  for (const form of ['', '/v2']) {
    const { text } = await getExport(admin, `${form}${path}`, CSV)
    const records = listed.map((row) => names.map((name) => (row[name] === null ? '' : String(row[name]))))
    t.strictSame(parseRecords(text), [names, ...records])
  }
  const narrowed = await getExport(admin, `${path}&fields=sku,name`, CSV)
  t.equal(narrowed.text.split('\r\n')[0], 'id,sku,name')
  const empty = await getExport(admin, '/products?search=nothing', CSV)
  t.equal(empty.text, `${names.join()}\r\n`, 'the names stand without rows too')
})

/** Inserts products with these descriptions until a test ends. */
async function insertTexts(t: Test, descriptions: readonly (string | null)[]) {
  t.teardown(() => database.run(`delete from products where name = 'Odd'`))
  const rows = descriptions.map((description, i) => ({ description, sku: `odd-${i}`, name: 'Odd' }))
  await insertRows(
    database,
    'products',
    rows.map((row) => ({ ...row, price_amount: 2 ** 53 - 1 })),
  )
}

t.test('fields of CSV are quoted where RFC 4180 asks for it, and formulas are kept', async (t) => {
  const texts = ['a,b', 'say "hi"', 'two\nlines', 'a\rb', ' spaces ', '=1+1', 'ü\u{1f600}', "'"]
  await insertTexts(t, texts)
  const { text } = await getExport(admin, '/products?search=odd&sort=sku&fields=description', CSV)
  const [, ...records] = parseRecords(text)
  t.strictSame(
    records.map(([, description]) => description),
    texts,
  )
  t.match(text, ',=1+1\r\n', 'a formula is no reason to quote or to change a field')
})

t.test('a value is exported as the list has it, whatever control characters it has', async (t) => {
  const texts = ['a\u001fb', '\u001f', '\u001e', ' ', '', null]
  await insertTexts(t, texts)
  for (const query of ['?search=odd&sort=sku', '?search=odd&sort=sku&fields=description,price_amount']) {
    const rows = await readRows(admin, `/products${query}`)
    t.strictSame(
      rows.map(({ description }) => description),
      texts,
    )
    t.strictSame(rows, await walkList(admin, `/products${query}`))
  }
})

t.test('objects and arrays are JSON in CSV, as in the list', async (t) => {
  const [product_id] = await insertRows(database, 'products', [{ stock: 5 }])
  const shipping_address = { name: 'A "B"', line1: 'L', city: 'C', postal_code: '1', country: 'DE' }
  const { body } = await admin.post('/orders', { items: [{ product_id, quantity: 2 }], shipping_address })
  const [names = [], record = []] = parseRecords((await getExport(admin, '/orders', CSV)).text)
  const cells = Object.fromEntries(names.map((name, i) => [name, record[i] ?? '']))
  t.strictSame(JSON.parse(cells.items ?? ''), body.data.items)
  t.match(JSON.parse(cells.shipping_address ?? ''), shipping_address)
  t.strictSame(JSON.parse(cells.shipping_address ?? ''), body.data.shipping_address)
  t.equal(cells.total_amount, '200')
})

t.test('the headers say what is sent, and HEAD has the same without rows', async (t) => {
  for (const [accept, type, extension] of [
    [NDJSON, NDJSON, 'ndjson'],
    [CSV, 'text/csv; charset=utf-8', 'csv'],
  ] as const) {
    const head = await admin.call('HEAD', '/products', { headers: { accept } })
    for (const { status, headers } of [await getExport(admin, '/products', accept), head]) {
      t.equal(status, 200)
      t.match(Object.fromEntries(headers), {
        'content-type': type,
        'content-disposition': `attachment; filename="products.${extension}"`,
        ...{ 'cache-control': 'private, no-cache', 'api-version': '1' },
        ...{ vary: /^Accept,/, 'x-ratelimit-limit': /^\d+$/ },
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
  const paths = `/products/${first?.id} /users/me /sessions /api-keys /webhook-endpoints`.split(' ')
  for (const accept of [NDJSON, CSV]) {
    for (const path of paths) {
      const { status, body } = await people.admin.bearer.get(path, { accept })
      t.match([status, body], [406, { error: { code: 'NOT_ACCEPTABLE' } }], `${path} ${accept}`)
    }
    t.equal((await admin.post('/products', {}, { accept })).status, 406, 'a POST has no export')
  }
})

t.test('the parameters of pages are refused, together with all else', async (t) => {
  for (const [field, value] of Object.entries({ include: 'user', limit: '5', page: '1', cursor: 'x' })) {
    const { status, body } = await getExport(admin, `/orders?${field}=${value}`)
    const details = [{ field, code: 'CONFLICTING_PARAMETERS' }]
    t.match([status, body], [400, { error: { code: 'VALIDATION_ERROR', details } }])
  }
  const { body } = await getExport(admin, '/v2/orders?limit=0&page=1&sort=colour&unknown=1', CSV)
  const fields: string[] = body.error.errors.map(({ field }: Json) => field)
  t.strictSame(fields.sort(), ['limit', 'page', 'sort', 'unknown'])
  t.equal((await getExport(admin, '/products?status=colourful')).status, 400)
})

t.test('an unknown parent is 404, and a precondition that an export cannot meet 412', async (t) => {
  const path = '/users/0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f/posts'
  for (const method of ['GET', 'HEAD'])
    t.equal((await admin.call(method, path, { headers: { accept: NDJSON } })).status, 404)
  for (const [name, value, expected] of [
    ['if-match', '"1-abc"', 412],
    ['if-match', '*', 200],
    // There is no tag to compare with.
    ['if-none-match', '*', 200],
  ] as const)
    t.equal((await admin.get('/products?search=rare', { accept: CSV, [name]: value })).status, expected)
})

t.test('events are exported in both orders, up to the last one of the beginning', async (t) => {
  for (let i = 0; i < 3; i += 1) await admin.post('/products', { sku: `E-${i}`, name: 'E', price_amount: 1 })
  await app.events.assignAll()
  for (const query of ['', '?sort=position', '?type=products.created', '?fields=type,resource_id'])
    for (const form of ['', '/v2']) {
      const rows = await readRows(admin, `${form}/events${query}`)
      t.ok(rows.length >= 3)
      t.strictSame(rows, await walkList(admin, `${form}/events${query}`), query)
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
    const ids = (await readRows(admin, '/products?sort=name')).map(({ id }) => id)
    t.strictSame(
      ids.filter((id) => isLasting.has(id)),
      lasting,
    )
  }
  isOver = true
  await churning
  await waitUntil(() => app.exports.size === 0)
})

t.test('a compressed export has the same rows', async (t) => {
  const compressing = await testApp(t, { COMPRESS: 'true' }, { database: keepOpen(database) })
  for (const accept of [NDJSON, CSV]) {
    const plain = await getExport(admin, '/products', accept)
    const gzipped = await compressing.admin.get('/products', { accept, 'accept-encoding': 'gzip' })
    t.equal(gzipped.headers.get('content-encoding'), 'gzip')
    t.equal(gzipped.text, plain.text)
  }
  const headers = { accept: NDJSON, 'accept-encoding': 'br', 'x-api-key': ADMIN_KEY }
  const [response] = await once(get({ port: compressing.port, path: '/products', headers }), 'response')
  const body = await buffer(response)
  t.equal(response.headers['content-encoding'], 'br')
  // RFC 7932, section 9.1: a larger window is memory that slow clients hold.
  t.equal((body[0] ?? 0) & 0b1111111, 0b0000001, 'brotli has a window of 128 KiB')
})
