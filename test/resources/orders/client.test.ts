/** The client package reads and writes the collections of orders and products, in their types. */
import t from 'tap'
import { createClient, ValidationError } from '../../../client/src/index.ts'
import { ADMIN_KEY, testApp } from '../../helpers/app.ts'
import { createUniqueName } from '../../helpers/versioned-client.ts'

t.test('collections', async (t) => {
  const app = await testApp(t)
  const { base: baseUrl } = app
  const client = createClient({ baseUrl, apiKey: ADMIN_KEY })
  const createTea = () =>
    client.products.create({
      sku: createUniqueName('TEA'),
      name: 'Tea',
      price_amount: 500,
      stock: 5,
      status: 'active',
    })

  t.test('an order includes its products', async (t) => {
    const { id, sku } = await createTea()
    const created = await client.orders.create({ items: [{ product_id: id, quantity: 2 }] })
    const order = await client.orders.get(created.id, { include: ['user', 'products'], fields: ['number'] })
    t.same(Object.keys(order).sort(), ['id', 'number', 'products', 'user'])
    t.equal(order.user?.id, app.adminId)
    t.strictSame(
      order.products.map((product): string => product.sku),
      [sku],
    )
    const page = await client.orders.list({ fields: ['id'], include: ['products'], limit: 1 }).page()
    t.same(page.meta.includes, { products: { has_more: false, truncated: [] } })
    const range = { price_amount_min: 499, price_amount_max: 500, status: ['active', 'draft'] } as const
    t.equal((await client.products.list(range).toArray()).length, 1)
    const edited = await client.products.edit(id, ({ stock }) => ({ stock: stock + 1 }))
    t.equal(edited.stock, 4)
  })

  t.test('the types are those of the documents', async (t) => {
    // @ts-expect-error: products have no such status
    await t.rejects(client.products.list({ status: 'sold' }).page(), { status: 400 })
    // @ts-expect-error: the stock has no order
    await t.rejects(client.products.list({ sort: ['stock'] }).page(), { status: 400 })
    // @ts-expect-error: orders have no such relation
    await t.rejects(client.orders.list({ include: ['profile'] }).page(), { status: 400 })
    // @ts-expect-error: the price is missing
    await t.rejects(client.products.create({ sku: 'TEA', name: 'Tea' }), ValidationError)
  })
})
