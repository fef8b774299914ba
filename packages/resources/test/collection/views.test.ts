/** A collection of a view is read like any other: lists, filters, cursors, exports, rules, documents; it has no writes. */

import { Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { pgMaterializedView, pgView, uuid } from 'drizzle-orm/pg-core'
import t, { type Test } from 'tap'
import { buildApp } from '../../../../src/app.ts'
import { resources } from '../../../../src/resources.ts'
import { CALLER, toReads } from '../../../api/src/rules/rules.ts'
import { common, Id, Integer, Line, Nullable } from '../../../api/src/schemas/types.ts'
import { checkContents, readContents } from '../../../database/src/backup/contents.ts'
import { integer, moment, text } from '../../../database/src/columns.ts'
import { inspectSchema } from '../../../database/src/schema-check.ts'
import { listDeclarations } from '../../../database/src/table-list.ts'
import { users } from '../../../database/src/user-tables.ts'
import { getViewTable } from '../../../database/src/views.ts'
import { renderDocuments } from '../../../docs/src/commands/openapi.ts'
import { connectAgent, MCP } from '../../../docs/test/mcp/agent.ts'
import { type Client, type Json, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import customerSales, {
  createCustomerSales,
  customerSales as customerSalesView,
} from '../../../testing/helpers/customer-sales.ts'
import { keepOpen, testDatabase } from '../../../testing/helpers/database.ts'
import { checkRefusals, collectIds, getIds } from '../../../testing/helpers/replies.ts'
import { insertRows } from '../../../testing/helpers/rows.ts'
import { serve } from '../../../testing/helpers/serve.ts'
import { products } from '../../../testing/helpers/shop.ts'
import { findViewMistakes } from '../../src/check/views.ts'
import { compileResources } from '../../src/compile.ts'
import { collection, type ResourceDefinition } from '../../src/definition/definition.ts'

const served = [...resources, customerSales]
const database = await testDatabase(t)
await createCustomerSales(database)
const { admin, anybody, base: url, person } = await testApp(t, MCP, { database, resources: served })
const ada = await person('member')
const bob = await person('member')
const mia = await person('manager')
await insertRows(database, 'orders', [
  { user_id: ada.id, total_amount: 300, created_at: '2026-01-02T00:00:00Z' },
  { user_id: ada.id, total_amount: 700, created_at: '2026-01-01T00:00:00Z' },
  { user_id: bob.id, total_amount: 50 },
])
await database.run(`update users set status = 'suspended' where id = $1`, [bob.id])

const readData = async (client: Client, path: string): Promise<Json> => {
  const reply = await client.get(path)
  if (reply.status !== 200) throw new Error(`${reply.status} ${path}: ${reply.text}`)
  return reply.body.data
}

t.test('the documents are written without a database', async (t) => {
  const build: typeof buildApp = (config, overrides) => buildApp(config, { ...overrides, resources: served })
  const [document = ''] = await renderDocuments(build, [1])
  t.match(JSON.parse(document).paths, { '/api/v1/customer-sales': { get: { operationId: String } } })
})

t.test('rows are read by their ids, in both versions, with relations and fields', async (t) => {
  const { body } = await admin.get(`/customer-sales/${ada.id}`)
  t.match(body.data, { id: ada.id, orders: 2, total_amount: 1000, last_order_at: '2026-01-02T00:00:00.000Z' })
  t.equal('search' in body.data, false)
  const typed = await admin.get(`/v2/customer-sales/${ada.id}?fields=orders&include=user`)
  t.match(typed.body.data, {
    type: 'customer-sales',
    attributes: { orders: 2 },
    relationships: { user: { id: ada.id } },
  })
  t.equal((await admin.get(`/customer-sales/${UNKNOWN_ID}`)).status, 404)
})

t.test('lists have filters, ranges, sorts, search, cursors and totals', async (t) => {
  const list = async (query: string) => getIds(await admin.get(`/customer-sales?${query}`))
  t.strictSame(await list('sort=-total_amount&limit=2'), [ada.id, bob.id])
  t.strictSame(await list('status=suspended'), [bob.id])
  t.strictSame(await list('total_amount_min=51'), [ada.id])
  t.strictSame((await list('last_order_at_null=false')).sort(), [ada.id, bob.id].sort())
  const [name] = String((await readData(admin, `/customer-sales/${mia.id}`)).name)
    .split(' ')
    .slice(1)
  t.strictSame(await list(`search=${name}`), [mia.id])
  const { body } = await admin.get('/customer-sales?page=1')
  t.equal(body.pagination.total, body.data.length)
  const walked = await collectIds(admin, '/customer-sales?limit=1&sort=name')
  t.strictSame(walked.sort(), body.data.map(({ id }: Json) => id).sort())
  await checkRefusals(t, admin, {
    '/customer-sales?orders=2': ['orders UNKNOWN_PARAMETER'],
    '/customer-sales?sort=orders': ['sort INVALID_VALUE'],
  })
})

t.test('rules hold for rows, exports and aggregates', async (t) => {
  t.strictSame(getIds(await ada.client.get('/customer-sales')), [ada.id])
  t.equal((await ada.client.get(`/customer-sales/${bob.id}`)).status, 403)
  t.equal((await anybody.get('/customer-sales')).status, 401)
  const csv = await ada.client.get('/customer-sales?fields=orders,total_amount', { accept: 'text/csv' })
  t.equal(csv.text, `id,orders,total_amount\r\n${ada.id},2,1000\r\n`)
  const all = await admin.get('/customer-sales', { accept: 'application/x-ndjson' })
  t.equal(all.text.trim().split('\n').length, (await readData(admin, '/customer-sales?limit=100')).length)
  t.strictSame(await readData(ada.client, '/customer-sales/aggregates?measures=sum:total_amount,count'), [
    { group: {}, count: 1, sum: { total_amount: 1000 } },
  ])
})

t.test('a tag changes with what the row shows, and only with that', async (t) => {
  const path = `/customer-sales/${ada.id}`
  const { headers } = await admin.get(path)
  const list = await admin.get('/customer-sales?status=active')
  const tags = { one: headers.get('etag') ?? '', list: list.headers.get('etag') ?? '' }
  t.match(tags.one, /^"\d+-/)
  t.equal(headers.get('last-modified'), null)
  await insertRows(database, 'orders', [{ user_id: bob.id, total_amount: 1 }])
  t.equal((await admin.get(path, { 'if-none-match': tags.one })).status, 304)
  t.equal((await admin.get('/customer-sales?status=active', { 'if-none-match': tags.list })).status, 304)
  await insertRows(database, 'orders', [{ user_id: ada.id, total_amount: 0 }])
  t.equal((await admin.get(path, { 'if-none-match': tags.one })).status, 200)
  t.equal((await admin.get('/customer-sales?status=active', { 'if-none-match': tags.list })).status, 200)
})

t.test('it has no writes and no events, and stands in documents and tools', async (t) => {
  for (const [method, path] of [
    ['POST', '/customer-sales'],
    ['PUT', `/customer-sales/${ada.id}`],
    ['PATCH', `/customer-sales/${ada.id}`],
    ['DELETE', `/customer-sales/${ada.id}`],
  ] as const)
    t.equal((await admin.call(method, path, { body: {} })).status, 405, method)
  const operations = [{ method: 'DELETE', path: `/customer-sales/${ada.id}` }]
  t.equal((await admin.post('/batches', { operations })).status, 422)
  t.strictSame(await readData(admin, '/events?type=customer-sales.*'), [])
  const { body: document } = await anybody.get('/openapi/v1.json')
  const paths = Object.entries<Json>(document.paths).filter(([path]) => path.includes('customer-sales'))
  t.strictSame(
    paths.flatMap(([path, item]) =>
      Object.keys(item)
        .filter((each) => each !== 'parameters')
        .map((method) => `${method} ${path}`),
    ),
    [
      'get /api/v1/customer-sales',
      'get /api/v1/customer-sales/aggregates',
      'get /api/v1/customer-sales/{id}',
    ],
  )
  t.notMatch(Object.keys(document.components.schemas).join(), /CustomerSales(Create|Change)/)
  const agent = await connectAgent(t, { base: url }, { 'x-api-key': ada.key })
  const names = (await agent.listNames()).filter((name) => name.startsWith('customer_sales'))
  t.strictSame(names.sort(), ['customer_sales_aggregate', 'customer_sales_get', 'customer_sales_list'])
})

t.test('the schema check knows views, and a backup leaves them to the migrations', async (t) => {
  const declared = [...listDeclarations(), customerSalesView]
  t.strictSame(await inspectSchema(database, declared), { errors: [], warnings: [] })
  const contents = await readContents(database, database.schema)
  checkContents(contents)
  t.notMatch(contents.tables.map(({ name }) => name).join(), 'customer_sales')
  const damaged = await testDatabase(t)
  t.strictSame((await inspectSchema(damaged, declared)).errors, ['The view customer_sales is missing'])
  await damaged.run('create view customer_sales as select id, name, status, 1::int4 as orders from users')
  t.match((await inspectSchema(damaged, declared)).errors, [
    'The column customer_sales.orders has the type integer instead of bigint',
    'The view customer_sales lacks the column total_amount (bigint)',
  ])
})

const columns = {
  id: uuid().notNull(),
  amount: integer().notNull(),
  created_at: moment().notNull(),
  updated_at: moment().notNull(),
}
const sums = pgView('order_sums', columns).as(sql`select 1`)
const kept = pgMaterializedView('kept_sums', columns).as(sql`select 1`)
const schemas = {
  read: Type.Object(
    { id: Id(), amount: Integer(0, 1_000_000, { description: 'The sum', examples: [1] }), ...common },
    { title: 'OrderSum' },
  ),
} as const
const access = { list: { admin: true }, read: { admin: true } } as const
const base = { description: 'Sums of orders', schemas, access } as const
const lists = { filters: ['amount'], ranges: ['amount'] } as const
const filtered = collection({ ...base, view: sums, lists })
const PLAIN = 'select id, price_amount as amount, created_at, updated_at from products'
const COMPUTED = PLAIN.replace('price_amount as', 'price_amount + stock as')

/** Returns a database with a large table, and the function that creates the views of this text. */
async function openLarge(t: Test) {
  const large = await testDatabase(t)
  await large.run(`insert into products (id, sku, name, price_amount)
    select gen_random_uuid(), n::text, 'n', n % 7 from generate_series(1, 10100) n`)
  await large.run('analyze products')
  await large.run(`create materialized view kept_sums as ${COMPUTED}`)
  await large.run('create index on kept_sums (id)')
  await large.run('create index on kept_sums (amount)')
  await large.run('analyze kept_sums')
  const create = async (text: string) => {
    await large.run('drop view if exists order_sums')
    await large.run(`create view order_sums as ${text}`)
  }
  return { large, create }
}

t.test('the start checks that ids are unique, and that filters read no large table', async (t) => {
  const { large, create } = await openLarge(t)
  const find = async (definition: ResourceDefinition, text: string) => {
    await create(text)
    return findViewMistakes(large, compileResources([definition]), t.fail)
  }
  const scan =
    'order-sums: filter "amount" of its view reads all rows of products; add an index, or name "amount" in `unindexed` with a comment that says why'
  t.strictSame(await find(filtered, PLAIN), [], 'the column of the table has an index')
  t.match(await find(filtered, COMPUTED), [scan])
  const grouped = `select min(id::text)::uuid as id, price_amount as amount, min(created_at) as created_at, max(updated_at) as updated_at
    from products group by price_amount`
  t.strictSame(
    await find(filtered, grouped),
    [scan.replace('filter "amount"', 'a read by id').replace('"amount"', '"id"')],
    'the groups have one, and their ids none',
  )
  const byGroup = collection({ ...base, view: sums, lists: { ...lists, unindexed: ['id'] } })
  t.strictSame(await find(byGroup, grouped), [])
  t.match(await find(byGroup, grouped.replace('price_amount as', 'count(*) as')), [scan])
  const unindexed = collection({ ...base, view: sums, lists: { ...lists, unindexed: ['amount'] } })
  t.strictSame(await find(unindexed, COMPUTED), [])
  t.match(await find(unindexed, `${PLAIN} union all ${PLAIN} where sku = '1'`), [
    /^order-sums: rows of its view share the id [0-9a-f-]{36}, which must be unique and not null$/,
  ])
  t.match(await find(unindexed, `${PLAIN} union all select null, 1, now(), now()`), [/ share the id null, /])
  t.strictSame(
    await find(collection({ ...base, view: kept, lists }), PLAIN),
    [],
    'a materialized view has indexes of its own',
  )

  await create(COMPUTED)
  const served = [...resources, serve(filtered)]
  await t.rejects(testApp(t, {}, { database: large, resources: served }), { message: scan })
  const lines: string[] = []
  const production = await testApp(
    t,
    { NODE_ENV: 'production', INSECURE_HTTP: 'true', SHUTDOWN_DELAY: '0', LOG_LEVEL: 'error' },
    { database: keepOpen(large), resources: served, logs: { write: (line: string) => lines.push(line) } },
  )
  t.equal((await production.admin.get('/order-sums?amount=3&limit=1')).body.data[0].amount, 3)
  t.match(lines.join(), 'reads all rows of products', 'a running service starts again, and logs it')
})

t.test('the key of a view may have another name than id', async (t) => {
  const own = await testDatabase(t)
  await own.run('create view reports as select id as product_id, stock, created_at, updated_at from products')
  const reports = pgView('reports', {
    ...{ id: uuid('product_id').notNull(), product_id: uuid().notNull(), stock: integer().notNull() },
    ...{ created_at: moment().notNull(), updated_at: moment().notNull() },
  }).existing()
  const read = Type.Object(
    { id: Id(), product_id: Id(), stock: Integer(0, 9, {}), ...common },
    { title: 'Report' },
  )
  const view = serve(collection({ ...base, view: reports, schemas: { read }, lists: { sorts: ['stock'] } }))
  const { admin } = await testApp(t, {}, { database: own, resources: [...resources, view] })
  for (const stock of [3, 1, 2]) await insertRows(own, 'products', [{ stock }])
  const ids = await collectIds(admin, '/reports?limit=1&sort=stock')
  const rows = await Promise.all(ids.map((id) => readData(admin, `/reports/${id}`)))
  t.strictSame(
    rows.map(({ stock }) => stock),
    [1, 2, 3],
  )
  t.strictSame(
    rows.map(({ product_id }) => product_id),
    ids,
  )
})

const bills = pgView('bills', {
  ...{ id: uuid('order_id').notNull(), order_id: uuid().notNull(), user_id: uuid().notNull() },
  ...{ note: text(), total_amount: integer().notNull() },
  ...{ created_at: moment().notNull(), updated_at: moment().notNull() },
}).existing()
const billRelations = { user: { to: users, local: 'user_id', foreign: 'id', many: false } } as const

declare module '../../src/definition/known-relations.ts' {
  interface KnownRelations {
    bills: { table: typeof bills; relations: typeof billRelations }
  }
}

t.test('a list by rules with relations has fields, sorts and exports of such a view', async (t) => {
  const own = await testDatabase(t)
  await own.run(
    'create view bills as select id as order_id, user_id, note, total_amount, created_at, updated_at from orders',
  )
  const fields = {
    user_id: Id(),
    note: Nullable(Line(50, 'The note', 'a')),
    total_amount: Integer(0, 999, {}),
  }
  const read = Type.Object({ id: Id(), order_id: Id(), ...fields, ...common }, { title: 'Bill' })
  const member = [{ user_id: CALLER }, { 'user.status': 'active', 'user.id': CALLER }] as const
  const definition = collection({
    ...{ view: bills, description: 'Bills', schemas: { read }, access: toReads({ admin: true, member }) },
    lists: { sorts: ['total_amount', 'note', 'created_at'], unindexed: ['note'] },
    relations: billRelations,
  })
  const { person } = await testApp(t, {}, { database: own, resources: [...resources, serve(definition)] })
  const caller = await person('member')
  await insertRows(own, 'orders', [
    { user_id: caller.id, total_amount: 2, note: 'b' },
    { user_id: caller.id, total_amount: 1, note: null },
    { user_id: caller.id, total_amount: 3, note: 'a' },
  ])
  const list = async (query: string) => {
    const rows = await readData(caller.client, `/bills?fields=total_amount&${query}`)
    return rows.map((row: Json) => row.total_amount)
  }
  t.strictSame(await list('sort=total_amount'), [1, 2, 3])
  t.strictSame(await list('sort=-total_amount'), [3, 2, 1])
  t.strictSame(await list('sort=note'), [3, 2, 1], 'null is last')
  t.strictSame(await list('sort=-note'), [2, 3, 1])
  t.equal((await list('page=1')).length, 3)
  const [first] = await readData(caller.client, '/bills?sort=total_amount&fields=order_id,id')
  t.strictSame(first, { id: first.order_id, order_id: first.id })
  const walked = await collectIds(caller.client, '/bills?fields=note&sort=note&limit=1')
  t.strictSame(walked, getIds(await caller.client.get('/bills?sort=note')))
  const exported = async (query: string, accept: string) =>
    (await caller.client.get(`/bills?${query}`, { accept })).text
  const csv = await exported('fields=total_amount&sort=total_amount', 'text/csv')
  t.match(csv, /^id,total_amount\r\n[^,]+,1\r\n[^,]+,2\r\n[^,]+,3\r\n$/)
  const lines = (await exported('fields=note&sort=note', 'application/x-ndjson')).trim().split('\n')
  const notes = lines.map((line) => JSON.parse(line).note)
  t.strictSame(notes, ['a', 'b', null])
})

t.test('what a view cannot have is a mistake of its definition', async (t) => {
  const written = { ...access, remove: { admin: true } } as const
  t.throws(() => compileResources([collection({ ...base, view: sums, access: written })]), {
    message: 'order-sums: a view is not written; remove "remove" from `access`',
  })
  const total = sql<number>`1`.as('total')
  const undeclared = pgView('undeclared').as((db) => db.select({ id: products.id, total }).from(products))
  t.throws(() => getViewTable(undeclared), {
    message: /^The view undeclared does not declare its columns; write pgView/,
  })
})
