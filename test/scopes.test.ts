import t from 'tap'
import { type Client, testApp } from './helpers/app.ts'
import { activeProduct, speak, unique } from './helpers/speak.ts'

const SOMEBODY = '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'

const { admin, person } = await testApp(t)

t.test('scopes narrow what a role may do', async (t) => {
  const verbs = async (by: Client, path: string) => [
    (await by.get(path)).status,
    (await by.patch(path, { name: unique('n') })).status,
  ]
  const { id } = await activeProduct(speak(admin, 1))
  const path = `/products/${id}`
  t.same(await verbs((await person('manager', ['products:read'])).client, path), [200, 403])
  t.same(
    await verbs((await person('manager', ['products:write'])).client, path),
    [403, 200],
    'write is not read',
  )
  t.same(await verbs((await person('manager', ['products:read', 'products:write'])).client, path), [200, 200])
  t.same(await verbs((await person('manager', ['*'])).client, path), [200, 200])
  t.same(await verbs((await person('manager', [])).client, path), [403, 403])
  t.same(await verbs((await person('manager', ['orders:read', 'products'])).client, path), [403, 403])
  t.same(await verbs((await person('member', ['*'])).client, path), [200, 403], 'and never widen it')

  const reader = (await person('manager', ['products:read'])).client
  const refused = await reader.patch(path, { colour: 1 })
  t.match(refused.body.error, { code: 'FORBIDDEN', message: /products:write/ })
  t.equal((await reader.get('/orders')).status, 403)
  t.match((await reader.get('/orders')).body.error.message, /orders:read/)
  t.equal((await reader.get('/users/me')).status, 403)
  t.equal((await reader.delete(`/products/${SOMEBODY}`)).status, 403)
})

t.test("an include needs the relation's own read scope", async (t) => {
  const { id, client } = await person('member', ['orders:read', 'orders:write', 'users:read'])
  const product = await activeProduct(speak(admin, 1))
  const made = await client.post('/orders', { items: [{ product_id: product.id, quantity: 1 }] })
  const path = `/orders/${made.body.data.id}`
  t.equal((await client.get(`${path}?include=user`)).body.data.user.id, id)
  for (const path of [
    `/orders/${made.body.data.id}`,
    '/orders',
    `/orders?user_id=${SOMEBODY}`,
    `/orders/${SOMEBODY}`,
  ]) {
    const refused = await client.get(`${path}${path.includes('?') ? '&' : '?'}include=products,user`)
    t.equal(refused.status, 403, path)
    t.match(refused.body.error.message, /products:read/)
  }
})
