/** The rows of `npm run bench:seed` are what the API itself would create, and identical for the same seed. */
import type { TSchema } from '@sinclair/typebox'
import { test } from 'tap'
import { seedDatabase } from '../../bench/seed/seed-database.ts'
import { User } from '../../packages/accounts/src/schemas/users.ts'
import { createAjv } from '../../packages/api/src/validation/formats.ts'
import { normalize } from '../../packages/api/src/validation/normalize.ts'
import type { Database } from '../../packages/database/src/client/index.ts'
import { type Client, type Json, testApp } from '../../packages/testing/helpers/app.ts'
import { testDatabase } from '../../packages/testing/helpers/database.ts'
import { Order } from '../../schemas/orders.ts'
import { Post } from '../../schemas/posts.ts'
import { Product } from '../../schemas/products.ts'
import { UserProfile } from '../../schemas/user-profiles.ts'

/** The day before which the rows are dated. */
const UNTIL = Date.UTC(2026, 0, 1)
const TWO_YEARS_MS = 731 * 86_400_000
const FEW_USERS = 20

const seed = (database: Database, options: { users?: number; seed?: number; bulk?: boolean } = {}) =>
  seedDatabase(database, {
    users: FEW_USERS,
    seed: 42,
    until: UNTIL,
    concurrency: database.kind === 'server' ? 3 : 1,
    ...options,
  })

/** Reads a whole collection. */
async function readAll(client: Client, path: string): Promise<Json[]> {
  const found: Json[] = []
  for (let cursor = ''; ; ) {
    const { status, body } = await client.get(`${path}?limit=100&cursor=${encodeURIComponent(cursor)}`)
    if (status !== 200) throw new Error(`${path}: ${status}`)
    found.push(...body.data)
    if (!body.pagination.has_more) return found
    cursor = body.pagination.cursor
  }
}

const ajv = createAjv()

/** Returns the rows that the API could not have created. */
const findUnsound = (rows: readonly Json[], schema: TSchema): Json[] =>
  rows.filter((row) => {
    const { value, violations } = normalize(row, schema)
    const createdAt = Date.parse(row.created_at)
    return !(
      ajv.validate(schema, row) &&
      violations.length === 0 &&
      JSON.stringify(value) === JSON.stringify(row) &&
      Number.parseInt(row.id.replaceAll('-', '').slice(0, 12), 16) === createdAt &&
      row.updated_at >= row.created_at &&
      createdAt > UNTIL - TWO_YEARS_MS &&
      Date.parse(row.updated_at) <= UNTIL
    )
  })

test('every row conforms to the API', async (t) => {
  const { admin, adminId, database } = await testApp(t)
  const added = await seed(database, { users: 60 })
  const users = (await readAll(admin, '/users')).filter(({ id }) => id !== adminId)
  const profiles = await readAll(admin, '/user-profiles')
  const products = await readAll(admin, '/products')
  const orders = (await readAll(admin, '/orders')).toSorted((a, b) => (a.number < b.number ? -1 : 1))
  const posts: Json[] = []
  for (const { id } of users) posts.push(...(await readAll(admin, `/users/${id}/posts`)))
  for (const [label, rows, length, schema] of [
    ['users', users, 60, User],
    ['profiles', profiles, 42, UserProfile],
    ['posts', posts, 60, Post],
    ['products', products, 120, Product],
    ['orders', orders, 300, Order],
  ] as const) {
    t.equal(rows.length, length, label)
    t.equal(added[label], length)
    t.strictSame(findUnsound(rows, schema), [], label)
  }

  const items = orders.flatMap((order) => order.items.map((item: Json) => ({ order, item })))
  t.equal(items.length, added.items)
  t.ok(items.length > 2.5 * orders.length && items.length < 3.5 * orders.length, 'three items on average')
  const wrongItems = items.filter(({ order, item }) => {
    const product = products.find(({ id }) => id === item.product_id)
    return (
      item.sku !== product?.sku ||
      item.unit_amount !== product.price_amount ||
      order.currency !== product.currency ||
      product.status === 'draft' ||
      product.created_at > order.created_at
    )
  })
  t.strictSame(wrongItems, [], 'items are products of that time, at their price')
  const wrongOrders = orders.filter(({ items: own, total_amount, user_id, created_at }) => {
    const total = own.reduce((sum: number, item: Json) => sum + item.total_amount, 0)
    return total_amount !== total || users.find(({ id }) => id === user_id)?.created_at > created_at
  })
  t.strictSame(wrongOrders, [])
  const { id: product_id } = products.find(({ status, stock }) => status === 'active' && stock > 0)
  const { body } = await admin.post('/orders', { items: [{ product_id, quantity: 1 }] })
  t.equal(body.data.number, 'ORD-0000000301', 'the next order has the next number')

  for (const [path, word, id] of [
    ['/users', users[9].name.toUpperCase(), users[9].id],
    ['/products', products[3].sku.toLowerCase(), products[3].id],
    ['/orders', orders[5].number, orders[5].id],
  ] as const) {
    const found = await admin.get(`${path}?limit=100&search=${encodeURIComponent(word)}`)
    t.ok(
      found.body.data.some((row: Json) => row.id === id),
      `${word} in ${path}`,
    )
  }
})

const TABLES = ['users', 'user_profiles', 'posts', 'products', 'orders', 'order_products']

/** Returns all rows of all tables, as one text. */
async function readContents(database: Database): Promise<string> {
  const rows = await Promise.all(
    TABLES.map((table) => database.run(`select * from ${table} t order by t::text collate "C"`)),
  )
  return JSON.stringify(rows)
}

test('the same seed creates the same data, another seed other data', async (t) => {
  const [one, two] = [await testDatabase(t), await testDatabase(t)]
  await Promise.all([seed(one), seed(two)])
  const contents = await readContents(one)
  t.ok(contents === (await readContents(two)))

  await t.rejects(seed(one, { users: 3 }), { message: /already contains rows of seed 42/ })
  t.ok(contents === (await readContents(one)), 'the same seed adds nothing')
  await seed(one, { seed: 7 })
  t.strictSame(await one.run('select count(*) from users'), [{ count: 2 * FEW_USERS }])
})

/** Reads every index and constraint from the catalog. */
const readObjects = (database: Database) =>
  database.run(`select indexdef as text from pg_indexes where schemaname = current_schema() union all
    select conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) from pg_constraint
    where connamespace = current_schema()::regnamespace order by text`)

test('bulk mode creates the same data and keeps every index and foreign key', async (t) => {
  const [usual, bulk] = [await testDatabase(t), await testDatabase(t)]
  const before = await readObjects(bulk)
  await seed(usual)
  await seed(bulk, { bulk: true })
  t.ok((await readContents(bulk)) === (await readContents(usual)))
  t.strictSame(await readObjects(bulk), before)
  await seed(bulk, { seed: 7, bulk: true })
  t.strictSame(await bulk.run('select count(*) from users'), [{ count: 2 * FEW_USERS }])
})
