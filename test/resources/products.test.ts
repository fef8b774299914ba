/** Products have unique SKUs, and one that was ordered cannot be deleted. */
import t from 'tap'
import { testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createActiveProduct, createUniqueName, createVersionedClient } from '../helpers/versioned-client.ts'

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

const { admin: client } = await testApp(t)

const admin = createVersionedClient(client, 1)

t.test('a new product has every field, with defaults', async (t) => {
  const sku = createUniqueName('TEA')
  const reply = await admin.post('/products', { sku, name: 'Tea', price_amount: 1999 })
  t.equal(reply.status, 201)
  t.match(reply.data, { id: UUID_V7, created_at: ISO, updated_at: ISO })
  const { id, created_at, updated_at, ...members } = reply.data
  t.same(members, {
    sku,
    name: 'Tea',
    description: null,
    price_amount: 1999,
    currency: 'USD',
    stock: 0,
    status: 'draft',
  })
  t.equal(created_at, updated_at)
  t.equal(reply.headers.get('location'), `/api/v1/products/${id}`)
  t.equal(reply.headers.get('cache-control'), 'no-store')
  const read = await admin.get(`/products/${id}`)
  t.equal(read.status, 200)
  t.same(read.data, reply.data)
  t.equal(read.etag, reply.etag)
})

t.test('a sku is unique, at creation and in every change', async (t) => {
  const [one, two] = [await createActiveProduct(admin), await createActiveProduct(admin)]
  const body = { sku: one.sku, name: 'Another', price_amount: 1 }
  for (const reply of [
    await admin.post('/products', body),
    await admin.put(`/products/${two.id}`, body),
    await admin.patch(`/products/${two.id}`, { sku: one.sku }),
  ]) {
    t.equal(reply.status, 409)
    t.equal(reply.code, 'RESOURCE_CONFLICT')
    t.same(reply.violations, ['sku ALREADY_EXISTS'])
  }
  t.equal((await admin.patch(`/products/${one.id}`, { sku: one.sku })).status, 200, 'its own stays its own')
  t.equal((await admin.post('/products', { ...body, sku: one.sku.toLowerCase() })).status, 201)
})

t.test('the status can change to any other', async (t) => {
  const { id } = await createActiveProduct(admin)
  const walk = ['draft', 'archived', 'active', 'archived', 'draft', 'active', 'active']
  for (const status of walk) {
    t.same((await admin.patch(`/products/${id}`, { status })).data.status, status)
  }
})

t.test('a deleted product is a 404, also for a second DELETE', async (t) => {
  const { id } = await createActiveProduct(admin)
  const removed = await admin.delete(`/products/${id}`)
  t.equal(removed.status, 204)
  t.equal(removed.text, '')
  for (const reply of [
    await admin.delete(`/products/${id}`),
    await admin.get(`/products/${id}`),
    await admin.patch(`/products/${id}`, { stock: 1 }),
    await admin.put(`/products/${id}`, { sku: createUniqueName('S'), name: 'n', price_amount: 1 }),
  ]) {
    t.equal(reply.status, 404)
    t.equal(reply.code, 'RESOURCE_NOT_FOUND')
  }
})

t.test('an unknown or malformed id is a 404 for every method', async (t) => {
  const whole = { sku: createUniqueName('S'), name: 'n', price_amount: 1 }
  for (const id of [UNKNOWN_ID, 'nothing', '1', `${UNKNOWN_ID}0`, '%00', 'me', `urn:uuid:${UNKNOWN_ID}`]) {
    const statuses = [
      (await admin.get(`/products/${id}`)).status,
      (await admin.put(`/products/${id}`, whole)).status,
      (await admin.patch(`/products/${id}`, { name: 'n' })).status,
      (await admin.delete(`/products/${id}`)).status,
    ]
    t.same(statuses, [404, 404, 404, 404], id)
  }
})

t.test('an id is accepted in any letter case', async (t) => {
  const { id } = await createActiveProduct(admin)
  t.equal((await admin.get(`/products/${id.toUpperCase()}`)).data.id, id)
})

t.test('a product that was ordered cannot be deleted', async (t) => {
  const { id } = await createActiveProduct(admin)
  const order = await admin.post('/orders', { items: [{ product_id: id, quantity: 1 }] })
  t.equal(order.status, 201)
  const refused = await admin.delete(`/products/${id}`)
  t.equal(refused.status, 409)
  t.equal(refused.code, 'RESOURCE_CONFLICT')
  await admin.delete(`/orders/${order.data.id}`)
  t.equal((await admin.delete(`/products/${id}`)).status, 204, 'until the last such order is gone')
})

t.test('Location repeats the form of the path', async (t) => {
  for (const form of ['/api/v1', '/v1', '/api', '']) {
    const reply = await client.post(`${form}/products/`, {
      sku: createUniqueName('F'),
      name: 'n',
      price_amount: 1,
    })
    t.equal(reply.headers.get('location'), `${form}/products/${reply.body.data.id}`)
  }
})
