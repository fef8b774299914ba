/** Filters and included relations show no rows that the caller may not read. */
import t from 'tap'
import { type Client, type Json, testApp } from '../helpers/app.ts'
import { createActiveProduct, createVersionedClient } from '../helpers/versioned-client.ts'

const { admin, person } = await testApp(t)
const all = createVersionedClient(admin, 1)

t.test('a filter does not reveal rows that may not be read', async (t) => {
  const [member, manager] = [await person('member'), await person('manager')]
  const { id: product_id } = await createActiveProduct(all)
  const ordered = await manager.client.post('/orders', { items: [{ product_id, quantity: 1 }] })
  t.equal(ordered.status, 201)
  t.equal((await admin.post('/products', { sku: 'DRAFT-1', name: 'Tea', price_amount: 1 })).status, 201)
  const getTotal = async (by: Client, path: string) => (await by.get(path)).body.pagination.total
  for (const path of [`/orders?user_id=${manager.id}`, '/products?status=draft']) {
    const list = `/api/v1${path}`
    t.same((await member.client.get(list)).body.data, [], path)
    t.equal(await getTotal(member.client, `${list}&page=1`), 0, path)
    t.equal(await getTotal(manager.client, `${list}&page=1`), 1, path)
  }
})

t.test('include omits rows that may not be read', async (t) => {
  const someone = await person('member')
  const own = createVersionedClient(someone.client, 1)
  const [shown, hidden] = [await createActiveProduct(all), await createActiveProduct(all)]
  const items = [shown, hidden].map(({ id }) => ({ product_id: id, quantity: 1 }))
  const order = (await own.post('/orders', { items })).data
  await all.patch(`/products/${hidden.id}`, { status: 'archived' })
  const read = (await own.get(`/orders/${order.id}?include=products,user`)).data
  t.same(
    read.products.map(({ id }: Json) => id),
    [shown.id],
  )
  t.equal(read.user.id, someone.id)
  t.same((await own.get('/orders?include=products')).data[0].products.length, 1, 'in a list too')
  t.equal((await all.get(`/orders/${order.id}?include=products`)).data.products.length, 2)
})
