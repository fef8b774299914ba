/** POST of rows on a collection imports them: all in one transaction, with everything that is wrong reported by row. */
import t from 'tap'
import { type Client, type Json, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase, SERVER } from '../../../testing/helpers/database.ts'
import { readChanges } from '../../../testing/helpers/events.ts'
import { createKeyHeader, isReplayed, listViolations } from '../../../testing/helpers/replies.ts'
import { overhear } from '../../../testing/helpers/statements.ts'
import { createUniqueName, newProduct } from '../../../testing/helpers/versioned-client.ts'

const shared = await createSharedDatabase(t)
const statements = overhear(shared)
const { admin, anybody, person } = await testApp(
  t,
  { IMPORT_ROWS: '2000', IMPORT_LIMIT: '3000000' },
  { database: statements.database },
)

const NDJSON = { 'content-type': 'application/x-ndjson' }
const CSV = { 'content-type': 'text/csv' }

interface Options {
  query?: string
  headers?: Record<string, string>
  path?: string
  client?: Client
}
const send = (
  body: string,
  type: object,
  { query = '', headers, path = '/products', client = admin }: Options,
) => client.call('POST', `${path}${query}`, { headers: { ...type, ...headers }, body })
const importCsv = (text: string, options: Options = {}) => send(text, CSV, options)
const importNdjson = (rows: readonly Json[], options: Options = {}) =>
  send(
    rows.map((row) => `${typeof row === 'string' ? row : JSON.stringify(row)}\n`).join(''),
    NDJSON,
    options,
  )
const newProducts = (count: number) => Array.from({ length: count }, () => newProduct())
const counts = (created: number, updated = 0, unchanged = 0) => ({ created, updated, unchanged })
const count = async (table = 'products') =>
  Number((await shared.run(`select count(*) as count from ${table}`))[0]?.count)
const find = async (sku: string): Promise<Json> => (await admin.get(`/products?sku=${sku}`)).body.data[0]

t.test('CSV and NDJSON create the same resources, with events in the order of the rows', async (t) => {
  const [first, second, third] = [
    newProduct({ description: 'a "b",\nc' }),
    newProduct({ stock: 7 }),
    newProduct(),
  ]
  const csv =
    `\ufeffsku,name,price_amount,description,stock,id\r\n` +
    `${first.sku},Tea,1,"a ""b"",\nc",,x\r\n\r\n${second.sku},=1+1,1,,7,\n${third.sku},Tea,1,,,`
  const reply = await importCsv(csv)
  t.equal(reply.status, 200, reply.text)
  t.same(reply.body.data, counts(3))
  t.type(reply.body.meta.timestamp, 'string')
  t.match(await find(first.sku), { ...first, stock: 0, currency: 'USD' })
  t.match(
    await find(second.sku),
    { ...second, name: '=1+1', description: null },
    'a formula is kept as it is',
  )
  const events = (await readChanges(shared)).filter(
    ({ request_id }) => request_id === reply.headers.get('x-request-id'),
  )
  const ids = await Promise.all([first, second, third].map(async ({ sku }) => (await find(sku)).id))
  t.same(
    events.map(({ resource_id }) => resource_id),
    ids,
  )
  const again = await importNdjson([newProduct(), '', newProduct({ description: null })])
  t.same(again.body.data, counts(2))
})

t.test('rows are written in groups of 500 by one statement each', async (t) => {
  statements.take()
  const reply = await importNdjson(newProducts(1_200))
  t.same(reply.body.data, counts(1_200), reply.text)
  const inserts = statements.take().statements.filter((text) => text.includes('insert into "products"'))
  t.equal(inserts.length, 3)
})

t.test('on_conflict changes the rows that exist, as PATCH does', async (t) => {
  const [changed, same, fresh] = [newProduct({ stock: 5 }), newProduct({ stock: 6 }), newProduct()]
  await admin.post('/products', changed)
  await admin.post('/products', same)
  const before = await find(same.sku)
  const rows = [{ sku: changed.sku, stock: 9 }, { ...before, updated_at: 'x' }, fresh]
  const reply = await importNdjson(rows, { query: '?on_conflict=sku' })
  t.same(reply.body.data, counts(1, 1, 1), reply.text)
  t.match(await find(changed.sku), { ...changed, stock: 9 })
  t.same(await find(same.sku), before)
  const csv = await importCsv(`stock,sku\n,${changed.sku}\n`, { query: '?on_conflict=sku' })
  t.same(csv.body.data, counts(0, 0, 1), csv.text)
})

t.test('what is wrong is reported for all rows, in their order, and nothing is written', async (t) => {
  const taken = newProduct()
  await admin.post('/products', taken)
  const rows = newProducts(600)
  const before = await count()
  const bad: Json[] = [...rows]
  bad[16] = newProduct({ price_amount: -1, color: 'red' })
  bad[17] = '{"sku": '
  bad[18] = '[]'
  bad[19] = { name: 'Tea' }
  // Found only when nothing is wrong with the rows themselves.
  bad[20] = newProduct({ sku: taken.sku })
  bad[21] = '{"__proto__": 1}'
  bad[22] = '{"sku":"a","sku":"b"}'
  bad[23] = '{"price_amount":1e400,"sku":"a","name":"b"}'
  bad[550] = newProduct({ sku: rows[3]?.sku })
  bad[551] = newProduct({ name: 'a\u0000b' })
  const expected = [
    'rows.17.color UNKNOWN_FIELD',
    'rows.17.price_amount OUT_OF_RANGE',
    'rows.18 INVALID_FORMAT',
    'rows.19 INVALID_TYPE',
    'rows.20.sku REQUIRED',
    'rows.20.price_amount REQUIRED',
    'rows.22 INVALID_FORMAT',
    'rows.23 INVALID_FORMAT',
    'rows.24.price_amount INVALID_TYPE',
    'rows.552.name INVALID_FORMAT',
  ]
  for (const query of ['', '?dry_run=true']) {
    const reply = await importNdjson(bad, { query })
    t.equal(reply.status, 422)
    t.same(listViolations(reply), expected)
    t.match(reply.body.error.details[2].message, /\(line 18\)$/)
  }
  t.equal(await count(), before)
})

t.test('conflicts are those of the first 500 rows that have any', async (t) => {
  const taken = [newProduct(), newProduct()]
  for (const each of taken) await admin.post('/products', each)
  const before = await count()
  const rows = newProducts(1_500)
  for (const i of [600, 700, 1_200]) rows[i] = newProduct({ sku: taken[0]?.sku })
  rows[600] = newProduct({ sku: taken[1]?.sku })
  for (const query of ['', '?dry_run=true']) {
    const reply = await importNdjson(rows, { query })
    t.same(listViolations(reply), ['rows.601.sku ALREADY_EXISTS', 'rows.701.sku ALREADY_EXISTS'])
  }
  const reply = await importNdjson(
    [
      ...rows.slice(0, 1_200),
      { sku: createUniqueName('sku') },
      { sku: taken[0]?.sku },
      { sku: taken[1]?.sku },
    ],
    { query: '?on_conflict=sku' },
  )
  t.same(
    listViolations(reply),
    ['rows.1201.name REQUIRED', 'rows.1201.price_amount REQUIRED'],
    'members that only a new row needs are found in the whole file',
  )
  t.equal(await count(), before)
})

t.test('at most 50 violations are reported', async (t) => {
  const reply = await importNdjson(
    Array.from({ length: 1_000 }, (_, i) => newProduct({ stock: i % 2 ? 1 : -1 })),
  )
  t.equal(listViolations(reply).length, 50)
  t.equal(listViolations(reply)[49], 'rows.99.stock OUT_OF_RANGE')
})

t.test('mistakes of CSV are refused', async (t) => {
  const before = await count()
  const line = () => `${createUniqueName('sku')},Tea,1`
  const cases: [string, string[]][] = [
    [
      `sku,name,price_amount,color,__proto__\n${line()},red,1\n${line()},red,1`,
      ['rows.1.color UNKNOWN_FIELD', 'rows.1.__proto__ UNKNOWN_FIELD'],
    ],
    [`sku,name,sku\n${line()}`, ['rows.1.sku CONFLICTING_PARAMETERS']],
    [`sku,name,\n${line()}`, ['rows.1 REQUIRED']],
    [
      `sku,name,price_amount\n${line()}\n${line()},x\n${createUniqueName('sku')}\n`,
      ['rows.2 INVALID_FORMAT', 'rows.3 INVALID_FORMAT'],
    ],
    [`sku,name,price_amount\n${line()}\nx,"Tea"a,1\n`, ['rows.2 INVALID_FORMAT']],
    [`sku,name,price_amount\n${line()}\nx,T"ea,1\n`, ['rows.2 INVALID_FORMAT']],
    [`sku,name,price_amount\n${line()}\nx,"Tea,1\n${line()}\n`, ['rows.2 INVALID_FORMAT']],
    [`sku,name,price_amount\nx,"${'y'.repeat(1_100_000)}`, ['rows.1 INVALID_FORMAT']],
    [
      `sku,name,price_amount\nx,Tea,1e400\ny,Tea,+1\nz,Tea,0x1`,
      [
        'rows.1.price_amount INVALID_TYPE',
        'rows.2.price_amount INVALID_TYPE',
        'rows.3.price_amount INVALID_TYPE',
      ],
    ],
    [`sku,name,price_amount,description\nx,Tea,1,${'y'.repeat(900_000)}\n`, ['rows.1.description TOO_LONG']],
  ]
  for (const [text, expected] of cases) {
    const reply = await importCsv(text)
    t.equal(reply.status, 422, text.slice(0, 100))
    t.same(listViolations(reply), expected)
  }
  t.match((await importCsv(`sku,name,price_amount\n\nx,"\n",1\n\n\ny,Tea,z`)).body.error.details, [
    { field: 'rows.1.name', message: /\(line 3\)$/ },
    { field: 'rows.2.price_amount', message: /\(line 7\)$/ },
  ])
  const returns = await importCsv('sku,name,price_amount\r\nx,a\rb,z\r\ny,"a\r\nb\r",z\r\nw,Tea,z')
  t.same(
    returns.body.error.details.map(({ message }: Json) => message.match(/line \d+/)?.[0]),
    ['line 2', 'line 2', 'line 3', 'line 3', 'line 5'],
    'a carriage return alone ends no line',
  )
  const last = await importCsv('sku,name,price_amount\nx,Tea,1\ny\r')
  t.match(
    last.body.error.details,
    [{ field: 'rows.2', message: /\(line 3\)$/ }],
    'nor at the end of the text',
  )
  for (const text of [
    'sku,name,price_amount\rx,Tea,1\r',
    'sku,name,price_amount\rx,Tea,1',
    '"sku","name","price_amount"\r"x","Tea","1"\r',
    `sku,name,price_amount\r${'x,Tea,1\r'.repeat(150_000)}`,
  ]) {
    const reply = await importCsv(text)
    const message = /a carriage return \(CR\) alone ends no line; use LF or CRLF.*\(line 1\)$/
    t.match(
      reply.body.error.details,
      [{ field: 'rows.1', code: 'INVALID_FORMAT', message }],
      text.slice(0, 40),
    )
  }
  t.equal(await count(), before)
})

t.test('a body without rows is refused, and names without rows are not', async (t) => {
  for (const text of ['', '\n\n\n']) t.equal((await importCsv(text)).status, 400)
  for (const text of ['', '\n'.repeat(1_000_000)]) t.equal((await send(text, NDJSON, {})).status, 400)
  t.same((await importCsv('sku,name\n')).body.data, counts(0))
})

t.test('the embedded database takes 10,000 rows at once, a server more', async (t) => {
  const { admin: client } = await testApp(t, {}, { database: shared })
  const rows = newProducts(10_001)
  // The last one that is read decides: it is wrong, or one too many.
  rows[9_999] = {}
  t.equal((await importNdjson(rows.slice(0, -1), { client })).status, 422)
  t.equal((await importNdjson(rows, { client })).status, SERVER ? 422 : 413)
})

t.test('limits: rows, bytes, encoding, media type', async (t) => {
  const before = await count()
  t.equal((await importNdjson(newProducts(2_001))).status, 413)
  t.equal((await importCsv(`sku,name\n${'x'.repeat(3_000_000)}`)).status, 413)
  const ABSENT = 'the first line of the CSV must name the columns'
  for (const [headers, message] of [
    [{ 'content-encoding': 'gzip' }, 'Unsupported Content-Encoding'],
    [{ 'content-type': 'text/csv; charset=utf-16' }, 'Unsupported charset'],
    [{ 'content-type': 'text/csv; header=absent' }, ABSENT],
    [{ 'content-type': 'text/csv; charset=utf-8; Header="absent"' }, ABSENT],
    [{ 'content-type': 'text/tab-separated-values' }, 'Unsupported'],
  ] as const) {
    const { status, body } = await importCsv('sku', { headers })
    t.equal(status, 415)
    t.match(body.error.message, message)
  }
  const wrong = await importCsv('sku', { headers: { 'content-type': 'text/plain' } })
  t.match(wrong.headers.get('accept'), /application\/x-ndjson, text\/csv/)
  const named = { headers: { 'content-type': 'text/csv; header=present' } }
  t.equal((await importCsv('sku,name', named)).status, 200)
  for (const path of ['/api-keys', '/batches', '/tokens'])
    t.equal((await importCsv('sku', { path })).status, 415)
  t.equal((await admin.call('PATCH', '/users/me', { headers: CSV, body: 'name' })).status, 415)
  t.equal(await count(), before)
})

t.test('on_conflict is only for imports', async (t) => {
  const refused = await admin.post('/products?on_conflict=sku', newProduct())
  t.equal(refused.status, 400)
  t.same(listViolations(refused), ['on_conflict UNKNOWN_PARAMETER'])
  for (const query of ['on_conflict=name', 'on_conflict=id', 'dry_run=1', 'limit=1', 'on_conflict=']) {
    t.equal((await importCsv('sku,name\n', { query: `?${query}` })).status, 400, query)
  }
})

t.test('a dry run writes nothing', async (t) => {
  const before = await count()
  const reply = await importNdjson([newProduct(), newProduct()], {
    query: '?dry_run=true',
  })
  t.same(reply.body.data, counts(2))
  t.equal(reply.body.meta.dry_run, true)
  const rows = [newProduct()]
  const keyed = await importNdjson(rows, { query: '?dry_run=true', headers: createKeyHeader() })
  t.match([keyed.status, keyed.body.error.code], [400, 'INVALID_REQUEST'])
  t.equal(await count(), before)
  const changes = await readChanges(shared)
  t.notOk(changes.some(({ request_id }) => request_id === reply.headers.get('x-request-id')))
})

t.test('the same value twice in one file is refused at the later row', async (t) => {
  const sku = createUniqueName('sku')
  const rows = [newProduct({ sku }), ...newProducts(600), newProduct({ sku })]
  for (const query of ['', '?on_conflict=sku']) {
    t.same(listViolations(await importNdjson(rows, { query })), ['rows.602.sku ALREADY_EXISTS'])
  }
})

t.test('an import with an Idempotency-Key runs once', async (t) => {
  const headers = createKeyHeader()
  const text = `sku,name,price_amount\n${createUniqueName('sku')},Tea,1\n`
  const first = await importCsv(text, { headers })
  t.equal(first.status, 200, first.text)
  const again = await importCsv(text, { headers })
  t.ok(isReplayed(again))
  t.equal(again.text, first.text)
  for (const other of [
    await importCsv(`${text}\n`, { headers }),
    await importCsv(text, { headers, query: '?on_conflict=sku' }),
    await importCsv(text, { headers: { ...headers, ...NDJSON } }),
    await admin.post('/products', newProduct(), headers),
  ]) {
    t.equal(other.body.error.code, 'IDEMPOTENCY_KEY_REUSED')
  }
})

t.test('rights: those of the creation, and with on_conflict those of the change', async (t) => {
  const { client } = await person('member')
  t.equal((await importNdjson([newProduct()], { client })).status, 403)
  t.equal((await importNdjson([newProduct()], { client: anybody })).status, 401)
  const profile = { user_id: (await person('member')).id, display_name: 'a' }
  const reply = await importNdjson([profile], { client, path: '/user-profiles' })
  t.same(listViolations(reply), ['rows.1.user_id FORBIDDEN'])
})

t.test('users are imported without passwords, with their checks and events', async (t) => {
  const email = () => `${createUniqueName('grace')}@example.com`
  const address = email()
  const reply = await importCsv(`name,email,role\nGrace,${address},manager\nAda,${email()},\n`, {
    path: '/users',
  })
  t.same(reply.body.data, counts(2), reply.text)
  const { data } = (await admin.get(`/users?email=${address}`)).body
  t.match(data, [{ name: 'Grace', role: 'manager' }])
  const refused = await importCsv(`name,email,password\nGrace,${email()},twelve brass cogs\n`, {
    path: '/users',
  })
  t.same(listViolations(refused), ['rows.1.password READ_ONLY'])
  const changed = await importCsv(`email,name,role\n${address.toUpperCase()},Hopper,\n`, {
    path: '/users',
    query: '?on_conflict=email',
  })
  t.same(changed.body.data, counts(0, 1), changed.text)
})

t.test('orders take stock, row by row', async (t) => {
  const { body } = await admin.post('/products', newProduct({ stock: 5, status: 'active' }))
  const { id, sku } = body.data
  const items = JSON.stringify([{ product_id: id, quantity: 2 }]).replaceAll('"', '""')
  const reply = await importCsv(`items\n"${items}"\n"${items}"\n`, { path: '/orders' })
  t.same(reply.body.data, counts(2), reply.text)
  t.equal((await find(sku)).stock, 1)
  const refused = await importCsv(`items\n"${items}"\n"[{"\n`, { path: '/orders' })
  t.same(listViolations(refused), ['rows.2.items INVALID_FORMAT'])
  const short = await importCsv(`items\n"${items}"\n`, { path: '/orders' })
  t.same(listViolations(short), ['rows.1.items.0.quantity INSUFFICIENT_STOCK'])
})

t.test('nested collections, and the forms of v2', async (t) => {
  const { id } = await person('member')
  const path = `/api/v2/users/${id}/posts`
  const rows = [
    { title: 'A', body: 'B' },
    { data: { type: 'posts', attributes: { title: 'A', body: 'B' } } },
    { id, type: 'posts', attributes: { title: 'A', body: 'B', user_id: id } },
  ]
  t.same((await importNdjson(rows, { path })).body.data.created, 3)
  const refused = await importNdjson(
    [...rows, { type: 'posts', attributes: { title: 1 } }, { type: 'users', attributes: {} }],
    { path },
  )
  t.same(
    refused.body.error.errors.map(({ field }: Json) => field),
    ['rows.4.attributes.body', 'rows.4.attributes.title', 'rows.5.type'],
  )
  t.equal((await importNdjson(rows, { path: `/users/${createUniqueName('x')}/posts` })).status, 404)
})

t.test('an export is edited and sent back', async (t) => {
  const rows = Array.from({ length: 600 }, (_, i) =>
    newProduct({ currency: 'NOK', description: `a,"${i}"\n` }),
  )
  await importNdjson(rows)
  for (const [type, path] of [
    ['text/csv', '/api/v1/products'],
    ['text/csv', '/api/v2/products'],
    ['application/x-ndjson', '/api/v2/products'],
  ] as const) {
    const { text } = await admin.get(`${path}?currency=NOK`, { accept: type })
    const headers = { 'content-type': type }
    const same = await send(text, headers, { path, query: '?on_conflict=sku' })
    t.same(same.body.data, counts(0, 0, 600), same.text)
    const edited = text.replaceAll('Tea', 'Mint')
    const reply = await send(edited, headers, { path, query: '?on_conflict=sku&dry_run=true' })
    t.same(reply.body.data, counts(0, 600), reply.text)
  }
})
