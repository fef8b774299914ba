/** Demo products and orders are what the API itself would create: orders of products of that time, at their price. */
import { test } from 'tap'
import { type Json, testApp } from '../../packages/testing/helpers/app.ts'
import {
  findUnfound,
  findUnsound,
  getShare,
  readAll,
  seedRows,
} from '../../packages/testing/helpers/demo-rows.ts'
import { toCollections } from '../../packages/testing/helpers/serve.ts'
import { Order } from '../../schemas/orders.ts'
import { Product } from '../../schemas/products.ts'
import { resources } from '../../src/resources.ts'

test('every added product and order conforms to the API', async (t) => {
  const { admin, adminId, database } = await testApp(t)
  const seeded = await seedRows(database, { users: 60, definitions: toCollections(resources) })
  const users = (await readAll(admin, '/users')).filter(({ id }) => id !== adminId)
  const products = await readAll(admin, '/products')
  const orders = (await readAll(admin, '/orders')).toSorted((a, b) => (a.number < b.number ? -1 : 1))
  for (const [label, rows, length, schema] of [
    ['products', products, 120, Product],
    ['orders', orders, 300, Order],
  ] as const) {
    t.equal(rows.length, length, label)
    t.equal(seeded[label], length)
    t.strictSame(findUnsound(rows, schema), [])
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
  const searches = [
    ['/products', products[3].sku.toLowerCase(), products[3].id],
    ['/orders', orders[5].number, orders[5].id],
  ] as const
  t.strictSame(await findUnfound(admin, searches), [])
})
