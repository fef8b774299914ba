/** Products have unique SKUs, and one that was ordered cannot be deleted. */

import {
  createUniqueName,
  createVersionedClient,
  describeList,
  testApp,
  UNKNOWN_ID,
} from '@resource-api/testing'
import t from 'tap'
import { buildApp } from '../src/app.ts'
import { createActiveProduct } from './products.ts'

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

const api = await testApp(t, buildApp)
const { admin: client } = api

const admin = createVersionedClient(client, 1)

t.test('a new product has every field, with defaults', async (t) => {
  const sku = createUniqueName('TEA')
  const reply = await admin.post('/products', { sku, name: 'Tea', price_amount: 1999 })
  t.equal(reply.status, 201)
  t.match(reply.data, { id: UUID_V7, created_at: ISO, updated_at: ISO })
  const { id, created_at, updated_at, ...members } = reply.data
  const defaults = { description: null, currency: 'USD', stock: 0, status: 'draft' }
  t.same(members, { sku, name: 'Tea', price_amount: 1999, ...defaults })
  t.equal(created_at, updated_at)
  t.equal(reply.headers.get('location'), `/api/v1/products/${id}`)
  t.equal(reply.headers.get('cache-control'), 'no-store')
  const { status, data, etag } = await admin.get(`/products/${id}`)
  t.same({ status, data, etag }, { status: 200, data: reply.data, etag: reply.etag })
})

t.test('a sku is unique, at creation and in every change', async (t) => {
  const [one, two] = [await createActiveProduct(admin), await createActiveProduct(admin)]
  const body = { sku: one.sku, name: 'Another', price_amount: 1 }
  for (const reply of [
    await admin.post('/products', body),
    await admin.put(`/products/${two.id}`, body),
    await admin.patch(`/products/${two.id}`, { sku: one.sku }),
  ]) {
    t.match(reply, { status: 409, code: 'RESOURCE_CONFLICT', violations: ['sku ALREADY_EXISTS'] })
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

t.test('a deleted product, and an unknown or malformed id, are a 404 for every method', async (t) => {
  const { id: deleted } = await createActiveProduct(admin)
  // In any letter case.
  t.equal((await admin.get(`/products/${deleted.toUpperCase()}`)).data.id, deleted)
  t.match(await admin.delete(`/products/${deleted}`), { status: 204, text: '' })
  const whole = { sku: createUniqueName('S'), name: 'n', price_amount: 1 }
  const malformed = ['nothing', '1', `${UNKNOWN_ID}0`, '%00', 'me', `urn:uuid:${UNKNOWN_ID}`]
  for (const path of [deleted, UNKNOWN_ID, ...malformed].map((id) => `/products/${id}`)) {
    for (const reply of [
      await admin.get(path),
      await admin.put(path, whole),
      await admin.patch(path, { name: 'n' }),
      await admin.delete(path),
    ]) {
      t.match(reply, { status: 404, code: 'RESOURCE_NOT_FOUND' }, path)
    }
  }
})

t.test('a product that was ordered cannot be deleted', async (t) => {
  const { id } = await createActiveProduct(admin)
  const order = await admin.post('/orders', { items: [{ product_id: id, quantity: 1 }] })
  t.equal(order.status, 201)
  const refused = await admin.delete(`/products/${id}`)
  t.match(refused, { status: 409, code: 'RESOURCE_CONFLICT' })
  t.equal(refused.body.error.message, 'Resources in orders still refer to this one')
  await admin.delete(`/orders/${order.data.id}`)
  t.equal((await admin.delete(`/products/${id}`)).status, 204, 'until the last such order is gone')
})

t.test('Location repeats the form of the path', async (t) => {
  for (const form of ['/api/v1', '/v1', '/api', '']) {
    const product = { sku: createUniqueName('F'), name: 'n', price_amount: 1 }
    const reply = await client.post(`${form}/products/`, product)
    t.equal(reply.headers.get('location'), `${form}/products/${reply.body.data.id}`)
  }
})

t.test(
  'products are listed by how their name and SKU begin, by what they are not, and without a text',
  async (t) => {
    const sku = createUniqueName('Begin')
    const created = await admin.post('/products', { sku, name: 'Straße', price_amount: 1 })
    const find = async (query: string) => (await client.get(`/v2/products?${query}`)).body.data
    const draft = `sku_prefix=${sku.toUpperCase()}`
    for (const query of [
      '',
      '&name_prefix=STRASS',
      '&status_not=active,archived',
      '&description_null=true',
    ]) {
      t.match(await find(`${draft}${query}`), [{ id: created.data.id }], query)
    }
    for (const query of ['&name_prefix=rass', '&status_not=draft', '&description_null=false']) {
      t.same(await find(`${draft}${query}`), [], query)
    }
  },
)

t.test('the list has the promised filters, sorts, searched fields and relations', async (t) => {
  t.same(describeList(api, 'products'), {
    filters: ['status', 'sku', 'currency', 'status_not', 'description_null', 'name_prefix', 'sku_prefix'],
    ranges: ['price_amount'],
    sorts: ['name', 'sku', 'price_amount', 'created_at'],
    search: ['sku', 'name', 'description'],
    include: {},
  })
})
