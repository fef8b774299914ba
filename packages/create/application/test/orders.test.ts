/** Orders take their stock. */
import { testApp } from '@resource-api/testing'
import t from 'tap'
import { buildApp } from '../src/app.ts'

t.test('an order takes the stock of its products, and a cancellation returns it', async (t) => {
  const { admin, person } = await testApp(t, buildApp)
  const { client: member } = await person('member')
  const tea = { sku: 'TEA', name: 'Tea', price_amount: 1999, stock: 3, status: 'active' }
  const { id } = (await admin.post('/products', tea)).body.data
  const readStock = async () => (await admin.get(`/products/${id}`)).body.data.stock
  const order = await member.post('/orders', { items: [{ product_id: id, quantity: 2 }] })
  t.equal(order.status, 201)
  t.equal(order.body.data.total_amount, 3998)
  t.equal(await readStock(), 1)
  t.equal((await member.post('/orders', { items: [{ product_id: id, quantity: 2 }] })).status, 409)
  await member.patch(`/orders/${order.body.data.id}`, { status: 'cancelled' })
  t.equal(await readStock(), 3)
})
