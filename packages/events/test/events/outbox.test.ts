/** Each change of a resource writes one event, in the transaction of the change. */
import { getTableColumns } from 'drizzle-orm'
import { pgTable } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, integer } from '../../../database/src/columns.ts'
import { SYSTEM_ORIGIN } from '../../../resources/src/outbox/origin.ts'
import { changeRows } from '../../../resources/src/outbox/recorder.ts'
import { testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { countTypes, readChanges } from '../../../testing/helpers/events.ts'
import { createNotesTable, resourcesWithNotes } from '../../../testing/helpers/notes.ts'

const database = await testDatabase(t)
await createNotesTable(database)
const { admin, adminId, anybody, person } = await testApp(
  t,
  { ALLOW_SIGNUP: 'true' },
  { database, resources: resourcesWithNotes },
)

const PRODUCT = { name: 'Tea', price_amount: 500, stock: 10, status: 'active' }
let made = 0
const createProduct = async (values: object = {}, headers = {}) => {
  const body = { ...PRODUCT, sku: `tea-${++made}`, ...values }
  return (await admin.post('/products', body, headers)).body.data
}

t.test('the changes of a product are events with its columns, revisions and former values', async (t) => {
  const data = await createProduct({ stock: 3 })
  const path = `/products/${data.id}`
  await admin.patch(path, { stock: 4 })
  await admin.patch(path, { name: 'Green tea', description: 'From Uji' })
  await admin.put(path, { ...data, name: 'Black tea' })
  await admin.delete(path)
  const events = await readChanges(database, data.id)
  const [created, updated, deleted] = ['products.created', 'products.updated', 'products.deleted']
  t.strictSame(
    events.map((each) => [each.type, each.revision, each.previous, each.columns.name, each.columns.stock]),
    [
      [created, 1, null, 'Tea', 3],
      [updated, 2, { stock: 3 }, 'Tea', 4],
      [updated, 3, { name: 'Tea', description: null }, 'Green tea', 4],
      [updated, 4, { name: 'Green tea', description: 'From Uji', stock: 4 }, 'Black tea', 3],
      [deleted, 5, null, 'Black tea', 3],
    ],
  )
  const origin = { actor_id: adminId, credential: 'bootstrap_key', credential_id: null, request_id: String }
  for (const event of events) {
    t.match(event, { ...origin, owner_id: null })
    t.notOk('search' in event.columns)
  }
})

t.test('a change without effect, and a change that fails, write no event', async (t) => {
  const data = await createProduct()
  const path = `/products/${data.id}`
  const before = (await readChanges(database)).length
  for (const [method, address, body, status] of [
    ['PATCH', path, { stock: 10 }, 200],
    ['PATCH', path, { name: 'Tea' }, 200],
    ['PUT', path, data, 200],
    ['POST', '/products', { ...PRODUCT, sku: data.sku }, 409],
    ['PATCH', path, { stock: -1 }, 422],
  ] as const)
    t.equal((await admin.call(method, address, { body })).status, status, `${method} ${status}`)
  t.equal((await admin.patch(path, { stock: 1 }, { 'if-match': '"9-x"' })).status, 412)
  t.equal((await readChanges(database)).length, before)
})

t.test('a write with an Idempotency-Key writes its event once', async (t) => {
  const headers = { 'idempotency-key': 'key-1' }
  const body = { ...PRODUCT, sku: 'once' }
  const { id } = (await admin.post('/products', body, headers)).body.data
  await admin.post('/products', body, headers)
  for (const _ of [1, 2]) await admin.patch(`/products/${id}`, { stock: 5 }, { 'idempotency-key': 'key-2' })
  t.equal(countTypes(await readChanges(database, id)), 'products.created, products.updated')
})

t.test('the stock that an order takes and returns is an event of each product', async (t) => {
  const [first, second] = [await createProduct(), await createProduct()]
  const items = [
    { product_id: first.id, quantity: 2 },
    { product_id: second.id, quantity: 3 },
  ]
  const order = (await admin.post('/orders', { items })).body.data
  await admin.patch(`/orders/${order.id}`, { status: 'cancelled' })
  t.match(await readChanges(database, order.id), [
    { type: 'orders.created', owner_id: adminId, previous: null },
    { type: 'orders.updated', owner_id: adminId, previous: { status: 'pending' } },
  ])
  for (const [{ id }, taken] of [
    [first, 8],
    [second, 7],
  ] as const)
    t.match((await readChanges(database, id)).slice(1), [
      { type: 'products.updated', revision: 2, previous: { stock: 10 }, columns: { stock: taken } },
      { type: 'products.updated', revision: 3, previous: { stock: taken }, columns: { stock: 10 } },
    ])
})

t.test('what is deleted with a user has events of its own', async (t) => {
  const ada = await person('member')
  await ada.client.post('/user-profiles', { display_name: 'Ada' })
  for (const title of ['One', 'Two']) await ada.client.post('/users/me/notes', { title, body: 'Text' })
  await ada.client.post('/users/me/posts', { title: 'Tea', body: 'It is warm.' })
  const count = (await readChanges(database)).length
  t.equal((await admin.delete(`/users/${ada.id}`)).status, 204)
  const events = (await readChanges(database)).slice(count)
  const owned = 'api-keys.deleted, notes.deleted x2, posts.deleted, sessions.deleted, user-profiles.deleted'
  t.equal(countTypes(events), `${owned}, users.deleted`)
  t.ok(events.every(({ owner_id }) => owner_id === ada.id))
  t.equal(events.at(-1)?.type, 'users.deleted')
})

t.test('a sign-up has no actor, and the first admin is created by the system', async (t) => {
  const { data } = (await anybody.post('/users', { name: 'Ada', email: 'ada@example.com' })).body
  t.match(await readChanges(database, data.id), [{ actor_id: null, credential: 'none', owner_id: data.id }])
  const [first] = await readChanges(database, adminId)
  t.match(first, { type: 'users.created', actor_id: null, credential: 'system' })
})

t.test('an event has the size of its JSON', async (t) => {
  const { id } = await createProduct({ name: 'Thé vert' })
  await admin.patch(`/products/${id}`, { name: 'Tea' })
  const select = `select bytes, octet_length(columns::text) + coalesce(octet_length(previous::text), 0) as expected`
  const sizes = await database.run(
    `${select} from outbox where resource_id = $1 union all ${select} from events where resource_id = $1`,
    [id],
  )
  t.equal(sizes.length, 2)
  for (const { bytes, expected } of sizes) t.equal(bytes, expected)
})

t.test('a table has more columns than a function of PostgreSQL has arguments', async (t) => {
  const names = Array.from({ length: 60 }, (_, i) => `c${i}`)
  const wide = pgTable('wide', {
    ...common(),
    ...Object.fromEntries(names.map((name) => [name, integer().notNull().default(1)])),
  })
  const list = names.map((name) => `${name} bigint not null default 1`)
  await database.run(`create table wide (id uuid primary key, created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(), revision bigint not null default 1, ${list.join()})`)
  const columns = getTableColumns(wide)
  const recorder = { resourceType: 'wide', table: wide, columns, ownerColumn: undefined }
  const context = { connection: database, recorders: new Map([['wide', recorder]]), origin: SYSTEM_ORIGIN }
  const id = '01900000-0000-7000-8000-000000000001'
  await changeRows(context, wide, 'created', database.insert(wide).values({ id }))
  const [event] = await readChanges(database, id)
  t.match(event, { type: 'wide.created', columns: { id, revision: 1, c0: 1, c59: 1 } })
})

t.test('concurrent changes of one row have events in the order of its revisions', async (t) => {
  const { id } = await createProduct()
  // Each changes a value, whatever the order.
  const changes = Array.from({ length: 60 }, (_, i) =>
    i % 3 === 0 ? { name: `Tea ${i}` } : { stock: 100 + i, ...(i % 3 === 2 && { price_amount: i }) },
  )
  const replies = await Promise.all(changes.map((change) => admin.patch(`/products/${id}`, change)))
  t.ok(replies.every(({ status }) => status === 200))
  const events = await readChanges(database, id)
  t.equal(events.length, 1 + 60)
  let before: Record<string, unknown> | undefined
  for (const [i, { revision, columns, previous }] of events.entries()) {
    t.equal(revision, i + 1)
    const changed = Object.entries(before ?? {}).filter(
      ([name, value]) => name !== 'updated_at' && value !== columns[name],
    )
    t.strictSame(previous, before ? Object.fromEntries(changed) : null, `revision ${revision}`)
    before = columns
  }
})
