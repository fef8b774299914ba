/** Aggregates are computed of exactly the rows that the list would show the caller, in groups, and cost ten requests. */

import { Type } from '@sinclair/typebox'
import { date, doublePrecision, getTableConfig, numeric, pgTable, varchar } from 'drizzle-orm/pg-core'
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { Decimal, Nullable, Text, Timestamp } from '../../../api/src/schemas/types.ts'
import { openDatabase } from '../../../database/src/client/index.ts'
import { common, integer, moment, text } from '../../../database/src/columns.ts'
import { connectAgent, MCP } from '../../../docs/test/mcp/agent.ts'
import { type Client, type Json, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { SERVER, testDatabase, testDatabaseUrl } from '../../../testing/helpers/database.ts'
import { checkRefusals, getViolations, readWindow } from '../../../testing/helpers/replies.ts'
import { createTable, insertRows, type Values } from '../../../testing/helpers/rows.ts'
import { overhear } from '../../../testing/helpers/statements.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { define } from '../collection/adopted.ts'
import { openParts } from '../collection/restricted-parts.ts'

const samples = pgTable('samples', {
  ...common(),
  label: varchar(),
  kind: text().notNull(),
  amount: integer(),
  level: doublePrecision(),
  price: numeric({ precision: 20, scale: 2 }),
  day: date(),
  taken_at: moment(),
})

const sampleFields = {
  label: Nullable(Text({ maxLength: 20 })),
  kind: Text({ maxLength: 20 }),
  amount: Nullable(Type.Integer()),
  level: Type.Unsafe<number | null>({ type: ['number', 'null'] }),
  price: Nullable(Decimal(20, 2, { description: 'The price', examples: ['5.00'] })),
  day: Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date' }),
  taken_at: Type.Unsafe<string | null>({ ...Timestamp('The time'), type: ['string', 'null'] }),
}

const samplesResource = define(
  { name: 'samples', singular: 'Sample', table: samples, fields: {}, readOnly: sampleFields },
  {
    verbs: ['list'],
    filters: ['kind'],
    unindexed: ['kind', 'created_at'],
    sorts: { created_at: samples.created_at },
    aggregates: {
      measures: ['amount', 'level', 'price', 'day', 'taken_at'],
      groups: ['day', 'label', 'kind', 'amount', 'price', 'taken_at'],
    },
    access: { list: { admin: true, anonymous: true } },
  },
)

const statements = overhear(await testDatabase(t))
const { database } = statements
await createTable(database, samples)
const app = await testApp(t, MCP, { database, resources: [...resources, samplesResource] })
const { admin, anybody, person } = app
const ada = await person('member')
const bob = await person('member')
const mia = await person('manager')

const readData = async (client: Client, path: string): Promise<Json> => {
  const reply = await client.get(path)
  if (reply.status !== 200) throw new Error(`${reply.status} ${path}: ${reply.text}`)
  return reply.body.data
}

let kinds = 0
/** Inserts samples of a kind of their own. @returns the path of their aggregates, without measures */
async function insertSamples(rows: readonly Values[]): Promise<string> {
  const kind = `kind-${++kinds}`
  await insertRows(
    database,
    'samples',
    rows.map((row) => ({ ...row, kind })),
  )
  return `/samples/aggregates?kind=${kind}&measures=`
}

const order = (user_id: string, status: string, total_amount: number, more: Values = {}): Values => ({
  ...{ user_id, status, total_amount },
  ...more,
})
await insertRows(database, 'orders', [
  order(ada.id, 'paid', 1000, { created_at: '2026-03-29T00:30:00Z', note: 'Ring twice' }),
  order(ada.id, 'paid', 1999, { created_at: '2026-03-29T01:30:00Z' }),
  order(bob.id, 'paid', 2998, { created_at: '2026-03-30T00:00:00Z', currency: 'CHF' }),
  order(bob.id, 'cancelled', 5, { created_at: '2026-03-28T23:59:59.999999Z' }),
])
await insertRows(database, 'products', [
  { price_amount: 300, stock: 2, status: 'active' },
  { price_amount: 100, stock: 5, status: 'active' },
  { price_amount: 9999, stock: 7, status: 'draft' },
])
await insertRows(database, 'posts', [
  { user_id: ada.id, status: 'published' },
  { user_id: ada.id, status: 'draft' },
  { user_id: ada.id, status: 'draft' },
])

t.test('measures of groups, the same in both versions', async (t) => {
  const query = 'measures=count,sum:total_amount&group_by=status'
  const reply = await admin.get(`/v1/orders/aggregates?${query}`)
  t.equal(reply.status, 200)
  t.match(reply.body.meta.timestamp, /^\d{4}-.*Z$/)
  t.strictSame(reply.body.data, [
    { group: { status: 'cancelled' }, count: 1, sum: { total_amount: 5 } },
    { group: { status: 'paid' }, count: 3, sum: { total_amount: 5997 } },
  ])
  t.equal(reply.headers.get('cache-control'), 'no-store')
  t.equal(reply.headers.get('etag'), null)
  t.equal(reply.headers.get('api-version'), '1')
  t.strictSame((await admin.get(`/v2/orders/aggregates?${query}`)).body.data, reply.body.data)
  t.strictSame(
    await readData(
      admin,
      '/orders/aggregates?measures=min:total_amount,max:total_amount,avg:total_amount,max:created_at',
    ),
    [
      {
        group: {},
        avg: { total_amount: 1500.5 },
        min: { total_amount: 5 },
        max: { total_amount: 2998, created_at: '2026-03-30T00:00:00.000Z' },
      },
    ],
  )
  t.strictSame(await readData(admin, '/products/aggregates?measures=sum:stock&group_by=status,currency'), [
    { group: { status: 'active', currency: 'USD' }, sum: { stock: 7 } },
    { group: { status: 'draft', currency: 'USD' }, sum: { stock: 7 } },
  ])
  const [users] = await readData(admin, '/users/aggregates?measures=count&group_by=role,created_at:month')
  t.match(users, { group: { role: 'admin', created_at: /^\d{4}-\d\d-01$/ }, count: 1 })
})

t.test('filters and search select the rows', async (t) => {
  for (const [query, count] of [
    ['status=paid', 3],
    ['status_not=paid', 1],
    [`user_id=${bob.id}`, 2],
    ['total_amount_min=1000&total_amount_max=1999', 2],
    ['created_before=2026-03-29', 1],
    ['search=twice', 1],
    ['note_null=false', 1],
    ['user.status=suspended', 0],
    ['status=shipped', 0],
  ] as const)
    t.strictSame(
      await readData(admin, `/orders/aggregates?measures=count&${query}`),
      [{ group: {}, count }],
      query,
    )
})

t.test('time buckets are those of UTC, also where a summer time begins; weeks begin on Monday', async (t) => {
  const read = async (unit: string) =>
    (await readData(admin, `/orders/aggregates?measures=count&group_by=created_at:${unit}`)).map(
      ({ group, count }: Json) => `${group.created_at} ${count}`,
    )
  t.strictSame(await read('day'), ['2026-03-28 1', '2026-03-29 2', '2026-03-30 1'])
  t.strictSame(await read('week'), ['2026-03-23 3', '2026-03-30 1'])
  t.strictSame(await read('month'), ['2026-03-01 4'])
  const path = await insertSamples([
    { taken_at: '2026-10-25T00:59:59Z', day: '2024-02-29' },
    { taken_at: '2026-10-25T23:59:59.999999Z', day: '2024-02-29' },
    { taken_at: '2026-10-26T00:00:00Z', day: '2024-03-01' },
    { taken_at: null, day: null },
  ])
  t.strictSame(await readData(admin, `${path}count,max:day&group_by=taken_at:day`), [
    { group: { taken_at: '2026-10-25' }, count: 2, max: { day: '2024-02-29' } },
    { group: { taken_at: '2026-10-26' }, count: 1, max: { day: '2024-03-01' } },
    { group: { taken_at: null }, count: 1, max: { day: null } },
  ])
  t.strictSame(await readData(admin, `${path}count,min:taken_at&group_by=day:month`), [
    { group: { day: '2024-02-01' }, count: 2, min: { taken_at: '2026-10-25T00:59:59.000Z' } },
    { group: { day: '2024-03-01' }, count: 1, min: { taken_at: '2026-10-26T00:00:00.000Z' } },
    { group: { day: null }, count: 1, min: { taken_at: null } },
  ])
})

t.test('only what a list would show the caller counts', async (t) => {
  const query = 'measures=count,sum:total_amount,max:total_amount'
  t.strictSame(await readData(ada.client, `/orders/aggregates?${query}&group_by=status`), [
    { group: { status: 'paid' }, count: 2, sum: { total_amount: 2999 }, max: { total_amount: 1999 } },
  ])
  t.strictSame(await readData(ada.client, `/orders/aggregates?${query}&user_id=${bob.id}`), [
    { group: {}, count: 0, sum: { total_amount: 0 }, max: { total_amount: null } },
  ])
  t.strictSame(
    await readData(ada.client, '/products/aggregates?measures=count,max:price_amount&group_by=status'),
    [{ group: { status: 'active' }, count: 2, max: { price_amount: 300 } }],
  )
  const posts = `/users/${ada.id}/posts/aggregates?measures=count&group_by=status`
  t.strictSame(await readData(bob.client, posts), [{ group: { status: 'published' }, count: 1 }])
  const all = [
    { group: { status: 'draft' }, count: 2 },
    { group: { status: 'published' }, count: 1 },
  ]
  t.strictSame(await readData(mia.client, posts), all)
  t.strictSame(await readData(ada.client, '/users/me/posts/aggregates?measures=count&group_by=status'), all)
  for (const client of [admin, mia.client, ada.client]) {
    for (const path of ['/orders', '/products', `/users/${ada.id}/posts`]) {
      const { body } = await client.get(`${path}?page=1`)
      t.strictSame(
        await readData(client, `${path}/aggregates?measures=count`),
        [{ group: {}, count: body.pagination.total }],
        path,
      )
    }
  }
})

t.test('requires the list rule, the read scope and credentials, even where the list is open', async (t) => {
  t.equal((await ada.client.get('/users/aggregates?measures=count')).status, 403)
  const reader = await person('admin', ['orders:read'])
  t.equal((await reader.client.get('/orders/aggregates?measures=count')).status, 200)
  t.equal((await reader.client.get('/products/aggregates?measures=count')).status, 403)
  const related = await reader.client.get('/orders/aggregates?measures=count&user.status=active')
  t.equal(related.status, 403, 'a filter by users needs their scope')
  t.equal((await anybody.get('/samples')).status, 200)
  t.equal((await anybody.get('/samples/aggregates?measures=count')).status, 401)
})

t.test('over nothing: one group without group_by, and none with it', async (t) => {
  const nothing = await insertSamples([])
  t.strictSame(await readData(admin, `${nothing}count,sum:amount,avg:amount,min:amount,max:taken_at`), [
    {
      group: {},
      count: 0,
      sum: { amount: 0 },
      avg: { amount: null },
      min: { amount: null },
      max: { taken_at: null },
    },
  ])
  t.strictSame(await readData(admin, `${nothing}count&group_by=label`), [])
  const nulls = await insertSamples([{ amount: null, level: null, price: null }])
  t.strictSame(await readData(admin, `${nulls}count,sum:amount,avg:level,min:price,sum:price`), [
    { group: {}, count: 1, sum: { amount: 0, price: '0' }, avg: { level: null }, min: { price: null } },
  ])
  t.equal((await admin.get(`/users/${UNKNOWN_ID}/posts/aggregates?measures=count`)).status, 404)
  t.equal(
    (await admin.get(`/users/${UNKNOWN_ID}/posts/aggregates?measures=count&group_by=status`)).status,
    404,
  )
  t.strictSame(await readData(admin, `/users/${bob.id}/posts/aggregates?measures=count&group_by=status`), [])
})

t.test(
  'groups are in the order of their values: text by code point, numbers by value, null last',
  async (t) => {
    const path = await insertSamples(
      ['b', 'B', 'ä', 'a', null, '', '10', '9'].map((label, i) => ({
        label,
        amount: [10, 9, null][i % 3] ?? null,
      })),
    )
    const read = async (field: string) =>
      (await readData(admin, `${path}count&group_by=${field}`)).map(({ group }: Json) => group[field])
    t.strictSame(await read('label'), ['', '10', '9', 'B', 'a', 'b', 'ä', null])
    t.strictSame(await read('amount'), [9, 10, null])
  },
)

t.test('numbers are exact: decimals as text, averages with six decimals', async (t) => {
  const path = await insertSamples([
    { amount: 1, level: 0.1, price: '0.10' },
    { amount: 1, level: 0.2, price: '123456789.91' },
    { amount: 0, level: -0.3, price: '-1.00' },
  ])
  t.strictSame(await readData(admin, `${path}avg:amount,sum:level,sum:price,avg:price,max:price`), [
    {
      group: {},
      sum: { level: 0, price: '123456789.01' },
      avg: { amount: 0.666667, price: 41152263.003333 },
      max: { price: '123456789.91' },
    },
  ])
  t.strictSame(await readData(admin, `${path}min:level,max:level&group_by=price`), [
    { group: { price: '-1.00' }, min: { level: -0.3 }, max: { level: -0.3 } },
    { group: { price: '0.10' }, min: { level: 0.1 }, max: { level: 0.1 } },
    { group: { price: '123456789.91' }, min: { level: 0.2 }, max: { level: 0.2 } },
  ])
})

t.test('a floating-point number has all its digits in a sum', async (t) => {
  const level = Number.MAX_SAFE_INTEGER
  const path = await insertSamples([{ level }])
  t.strictSame(await readData(admin, `${path}sum:level,max:level`), [
    { group: {}, sum: { level }, max: { level } },
  ])
})

t.test('a sum beyond 2^53 is refused, and its average is not', async (t) => {
  const largest = Number.MAX_SAFE_INTEGER
  const fitting = await insertSamples([{ amount: largest }, { amount: 1 }, { amount: -1 }])
  t.strictSame(await readData(admin, `${fitting}sum:amount`), [{ group: {}, sum: { amount: largest } }])
  for (const amounts of [
    [largest, 1],
    [-largest, -1],
    [largest, largest, largest],
  ]) {
    const path = await insertSamples(amounts.map((amount) => ({ amount, label: 'a' })))
    const refused = await admin.get(`${path}sum:amount&group_by=label`)
    t.equal(refused.status, 422)
    t.equal(refused.body.error.code, 'VALIDATION_ERROR')
    t.strictSame(getViolations(refused), ['measures OUT_OF_RANGE'])
    const average = amounts.reduce((sum, amount) => sum + amount, 0) / amounts.length
    t.strictSame(await readData(admin, `${path}avg:amount`), [{ group: {}, avg: { amount: average } }])
  }
  const floats = await insertSamples([{ level: 1e308 }, { level: 1e308 }])
  t.equal((await admin.get(`${floats}sum:level`)).status, 422)
  t.strictSame(await readData(admin, `${floats}avg:level,max:level`), [
    { group: {}, avg: { level: 1e308 }, max: { level: 1e308 } },
  ])
})

t.test('at most 1,000 groups, also of 100,000', async (t) => {
  const fill = (kind: string, count: number) =>
    database.run(
      `insert into samples (id, kind, label, amount) select gen_random_uuid(), $1, n::text, n from generate_series(1, ${count}) n`,
      [kind],
    )
  await fill('thousand', 1_000)
  await fill('many', 100_000)
  const path = '/samples/aggregates?measures=count'
  t.equal((await readData(admin, `${path}&kind=thousand&group_by=label`)).length, 1_000)
  await fill('thousand', 1_001)
  for (const query of [
    'kind=thousand&group_by=label',
    'kind=many&group_by=label',
    'kind=many&group_by=amount,label',
  ]) {
    const refused = await admin.get(`${path}&${query}`)
    t.equal(refused.status, 422, query)
    t.strictSame(getViolations(refused), ['group_by OUT_OF_RANGE'])
  }
  t.strictSame(await readData(admin, `${path},sum:amount&kind=many`), [
    { group: {}, count: 100_000, sum: { amount: 5_000_050_000 } },
  ])
})

t.test('what a query may not name is 400, and reaches no statement', async (t) => {
  const path = '/orders/aggregates'
  statements.take()
  await checkRefusals(t, admin, {
    [path]: ['measures REQUIRED'],
    [`${path}?measures=`]: ['measures TOO_SHORT'],
    [`${path}?measures=count&group_by=`]: ['group_by TOO_SHORT'],
    [`${path}?measures=count,count`]: ['measures INVALID_VALUE'],
    [`${path}?measures=count,sum:total_amount,avg:total_amount,min:total_amount,max:total_amount,max:created_at`]:
      ['measures INVALID_VALUE'],
    [`${path}?measures=sum`]: ['measures INVALID_VALUE'],
    [`${path}?measures=sum:status`]: ['measures INVALID_VALUE'],
    [`${path}?measures=sum:created_at`]: ['measures INVALID_VALUE'],
    [`${path}?measures=max:updated_at`]: ['measures INVALID_VALUE'],
    [`${path}?measures=median:total_amount`]: ['measures INVALID_VALUE'],
    [`${path}?measures=__proto__,constructor`]: ['measures INVALID_VALUE', 'measures INVALID_VALUE'],
    [`${path}?measures=${encodeURIComponent('sum:total_amount);drop table orders--')}`]: [
      'measures INVALID_VALUE',
    ],
    [`${path}?measures=count&group_by=${encodeURIComponent('status" or true --')}`]: [
      'group_by INVALID_VALUE',
    ],
    [`${path}?measures=count&group_by=created_at`]: ['group_by INVALID_VALUE'],
    [`${path}?measures=count&group_by=created_at:hour`]: ['group_by INVALID_VALUE'],
    [`${path}?measures=count&group_by=created_at:day,created_at:month`]: ['group_by INVALID_VALUE'],
    [`${path}?measures=count&group_by=status,status`]: ['group_by INVALID_VALUE'],
    [`${path}?measures=count&group_by=status,currency,created_at:day`]: ['group_by INVALID_VALUE'],
    [`${path}?measures=count&group_by=user_id`]: ['group_by INVALID_VALUE'],
    [`${path}?measures=count&status=lost`]: ['status INVALID_VALUE'],
    [`${path}?measures=count&measures=count`]: ['measures CONFLICTING_PARAMETERS', 'measures REQUIRED'],
    ...Object.fromEntries(
      [
        'sort=status',
        'order=asc',
        'limit=5',
        'page=1',
        'cursor=',
        'fields=id',
        'include=user',
        'having=1',
      ].map((query) => [
        `${path}?measures=count&${query}`,
        [`${query.replace(/=.*/, '')} UNKNOWN_PARAMETER`],
      ]),
    ),
    '/users/me/posts/aggregates?measures=sum:status': ['measures INVALID_VALUE'],
  })
  const ofOrders = () => statements.take().statements.filter((each) => /from "?orders/.test(each))
  t.same(ofOrders(), [])
  t.equal((await readData(admin, `${path}?measures=count`))[0].count, 4)
  t.equal(ofOrders().length, 1)
})

t.test('only GET, only JSON, and only where a collection declares them', async (t) => {
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
    for (const path of ['/orders/aggregates', '/users/me/posts/aggregates']) {
      const reply = await admin.call(method, path, { body: {} })
      t.equal(reply.status, 405, `${method} ${path}`)
      t.equal(reply.headers.get('allow'), 'GET, HEAD, OPTIONS')
    }
  }
  t.equal((await admin.call('HEAD', '/orders/aggregates?measures=count')).status, 200)
  t.equal((await admin.get('/user-profiles/aggregates?measures=count')).status, 404)
  for (const accept of ['text/csv', 'application/x-ndjson'])
    t.equal((await admin.get('/orders/aggregates?measures=count', { accept })).status, 406)
  const typed = await admin.get('/v2/orders/aggregates?measures=count', {
    accept: 'application/vnd.api+json',
  })
  t.match(typed.headers.get('content-type'), 'application/vnd.api+json;version=2')
})

t.test('the examples of the document are accepted', async (t) => {
  const { SampleMeasures, SampleGroups } = (await anybody.get('/openapi/v1.json')).body.components.parameters
  const [measures, groups] = [SampleMeasures.example, SampleGroups.examples.example.value]
  t.same(groups, ['day:day', 'label'], 'a field once')
  const query = `measures=${measures}&group_by=${groups}&kind=other`
  t.strictSame(await readData(admin, `/samples/aggregates?${query}`), [])
})

t.test('counts as ten requests, and as more with what costs more in a list', async (t) => {
  const limited = await testApp(t, { RATE_LIMIT: '600', RATE_LIMIT_BURST: '500' })
  const { client } = await limited.person('admin')
  const measure = async (path: string) => {
    const before = readWindow(await client.get('/products')).remaining ?? 0
    return before - (readWindow(await client.get(path)).remaining ?? 0)
  }
  t.equal(await measure('/orders/aggregates?measures=count'), 10)
  t.equal(await measure('/orders/aggregates?measures=count,sum:total_amount&group_by=status&status=paid'), 10)
  t.equal(await measure('/orders/aggregates?measures=count&search=tea'), 14)
})

t.test('a field that the role may not read does not exist', async (t) => {
  const { admin: boss, clients, newPart, people, base } = await openParts(t, MCP)
  await newPart({ name: 'Nut', cost: 5 })
  t.match(await readData(boss, '/parts/aggregates?measures=sum:cost,count&group_by=grade'), [
    { group: { grade: 'zeta' }, count: 2, sum: { cost: 98_770 } },
  ])
  t.match(await readData(clients.manager, '/parts/aggregates?measures=sum:cost'), [{ sum: { cost: 98_770 } }])
  await checkRefusals(t, clients.manager, {
    '/parts/aggregates?measures=count&group_by=grade': ['group_by INVALID_VALUE'],
    '/parts/aggregates?measures=count&grade=zeta': ['grade UNKNOWN_PARAMETER'],
  })
  await checkRefusals(t, clients.member, {
    '/parts/aggregates?measures=sum:cost': ['measures INVALID_VALUE'],
    '/parts/aggregates?measures=count&cost_min=7': ['cost_min UNKNOWN_PARAMETER'],
  })
  const refused = await clients.member.get('/parts/aggregates?measures=sum:cost')
  t.notMatch(refused.text.replaceAll('sum:cost', ''), 'cost', 'the error does not list it')
  const agent = await connectAgent(t, { base }, { 'x-api-key': people.member.key })
  const { tools } = await agent.client.listTools()
  const tool = tools.find(({ name }) => name === 'parts_aggregate')
  t.match(JSON.stringify(tool?.inputSchema), 'sum:stock')
  t.notMatch(JSON.stringify([tool?.inputSchema, tool?.outputSchema]), /cost|grade/)
})

t.test('is a tool of agents', async (t) => {
  const agent = await connectAgent(t, app, { 'x-api-key': ada.key })
  const names = await agent.listNames()
  t.ok(['orders_aggregate', 'products_aggregate', 'posts_aggregate'].every((name) => names.includes(name)))
  t.notOk(names.includes('user_profiles_aggregate'))
  t.notOk(names.includes('users_aggregate'), 'a member may not list users')
  const { body } = await agent.callTool('orders_aggregate', {
    measures: ['count', 'sum:total_amount'],
    group_by: ['status'],
  })
  t.strictSame(body.data, [{ group: { status: 'paid' }, count: 2, sum: { total_amount: 2999 } }])
  const { tools } = await agent.client.listTools()
  t.match(tools.find(({ name }) => name === 'orders_aggregate')?.annotations, {
    readOnlyHint: true,
    destructiveHint: false,
  })
})

const skip = SERVER ? false : 'PGlite has no limit of a statement'

t.test('a statement that takes too long is 503, and holds nothing', { skip }, async (t) => {
  const { url } = await testDatabaseUrl(t)
  const limited = await openDatabase({ url, poolSize: 2, statementTimeout: 200 })
  t.teardown(() => limited.close())
  await limited.run(
    `create view samples as select ${getTableConfig(samples)
      .columns.map(({ name }) => (name === 'amount' ? '1::bigint as amount' : `null::text as ${name}`))
      .join()} from generate_series(1, 1000) where pg_sleep(0.005) is not null`,
  )
  const served = [...resources, samplesResource]
  const settings = { EVENTS: 'false', USER_CONCURRENCY: '20' }
  const { admin: boss } = await testApp(t, settings, { database: limited, resources: served })
  for (let i = 0; i < 2; i++) {
    const path = '/samples/aggregates?measures=count,sum:amount'
    for (const reply of await Promise.all([boss.get(path), boss.get(path)])) {
      t.equal(reply.status, 503)
      t.equal(reply.body.error.code, 'SERVICE_UNAVAILABLE')
      t.ok(reply.headers.get('retry-after'))
    }
    t.equal((await boss.get('/orders/aggregates?measures=count')).status, 200, 'the slots are free again')
  }
  await waitUntil(() => limited.getLoad().used === 0)
  const running = await limited.run(
    `select 1 from pg_stat_activity where datname = current_database() and state = 'active' and query like '%samples%' and pid <> pg_backend_pid()`,
  )
  t.strictSame(running, [])
})
