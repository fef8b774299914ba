/** Demo products and orders are what the API itself would create: orders of products of that time, at their price. */
import type { TSchema } from '@sinclair/typebox'
import { test } from 'tap'
import { createAjv } from '../../../plugins/validation/formats.ts'
import { normalize } from '../../../plugins/validation/normalize.ts'
import { Order } from '../../../schemas/orders.ts'
import { Product } from '../../../schemas/products.ts'
import { resources } from '../../../src/app.ts'
import { seedDatabase } from '../../../src/cli/demo-data/index.ts'
import { type Client, type Json, testApp } from '../../helpers/app.ts'

const UNTIL = Date.UTC(2026, 0, 1)

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

/** Returns whether the API could have created the row. */
function isSound(row: Json, schema: TSchema): boolean {
  const { value, violations } = normalize(row, schema)
  const createdAt = Date.parse(row.created_at)
  return (
    ajv.validate(schema, row) &&
    violations.length === 0 &&
    JSON.stringify(value) === JSON.stringify(row) &&
    Number.parseInt(row.id.replaceAll('-', '').slice(0, 12), 16) === createdAt &&
    row.updated_at >= row.created_at &&
    createdAt > UNTIL - 731 * 86_400_000 &&
    Date.parse(row.updated_at) <= UNTIL
  )
}

const getShare = (rows: readonly Json[], member: string, value: string) =>
  rows.filter((row) => row[member] === value).length / rows.length

test('every added product and order conforms to the API', async (t) => {
  const { admin, adminId, database } = await testApp(t)
  const concurrency = database.kind === 'server' ? 3 : 1
  const options = { seed: 42, users: 60, until: UNTIL, concurrency, definitions: resources }
  const seeded = await seedDatabase(database, options)
  const users = (await readAll(admin, '/users')).filter(({ id }) => id !== adminId)
  const products = await readAll(admin, '/products')
  const orders = (await readAll(admin, '/orders')).toSorted((a, b) => (a.number < b.number ? -1 : 1))
  for (const [label, rows, length, schema] of [
    ['products', products, 120, Product],
    ['orders', orders, 300, Order],
  ] as const) {
    t.equal(rows.length, length, label)
    t.equal(seeded[label], length)
    t.strictSame(
      rows.filter((row) => !isSound(row, schema)),
      [],
    )
  }

  const items = orders.flatMap((order) => order.items.map((item: Json) => ({ order, item })))
  t.equal(items.length, seeded.items)
  t.ok(items.length > 2.5 * orders.length && items.length < 3.5 * orders.length, 'three items on average')
  const wrongItems = items.filter(({ order, item }) => {
    const product = products.find(({ id }) => id === item.product_id)
    return (
      item.sku !== product?.sku ||
      item.name !== product.name ||
      item.unit_amount !== product.price_amount ||
      item.total_amount !== item.quantity * item.unit_amount ||
      order.currency !== product.currency ||
      product.status === 'draft' ||
      product.created_at > order.created_at
    )
  })
  t.strictSame(wrongItems, [], 'items are products of that time, at their price')
  const wrongOrders = orders.filter(({ items: own, total_amount, user_id, created_at }) => {
    const total = own.reduce((sum: number, item: Json) => sum + item.total_amount, 0)
    const distinct = new Set(own.map((item: Json) => item.product_id))
    const user = users.find(({ id }) => id === user_id)
    return total_amount !== total || distinct.size !== own.length || user?.created_at > created_at
  })
  t.strictSame(wrongOrders, [])
  const links = await database.run(
    `select count(*) from order_products l join orders o on o.id = l.order_id
     where exists (select 1 from jsonb_array_elements(o.items) i where i->>'product_id' = l.product_id::text)`,
  )
  t.strictSame(links, [{ count: items.length }], 'the rows of order_products are the items')
  const times = orders.map(({ created_at }) => created_at)
  t.strictSame(times, times.toSorted(), 'numbers rise with time')
  const { id: product_id } = products.find(({ status, stock }) => status === 'active' && stock > 0)
  const { body } = await admin.post('/orders', { items: [{ product_id, quantity: 1 }] })
  t.equal(body.data.number, 'ORD-0000000301', 'the next order has the next number')

  t.ok(getShare(orders, 'status', 'completed') > 0.6)
  t.ok(getShare(products, 'status', 'active') > 0.75)
  t.ok(new Set(products.map(({ name }) => name)).size > 100, 'names hardly repeat')
  for (const [path, word, id] of [
    ['/products', products[3].sku.toLowerCase(), products[3].id],
    ['/orders', orders[5].number, orders[5].id],
  ]) {
    const { body: found } = await admin.get(`${path}?limit=100&search=${encodeURIComponent(word)}`)
    const ids = found.data.map((row: Json) => row.id)
    t.ok(ids.includes(id), `the search finds ${word} in ${path}`)
  }
})
