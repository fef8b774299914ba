/** A resource can be created, read, changed and deleted in an app with the default settings. */
import t from 'tap'
import { testApp } from '../helpers/app.ts'

t.test('a product is created, read, changed and deleted', async (t) => {
  const { admin } = await testApp(t)
  const created = await admin.post('/api/v1/products', { sku: 'TEA-1', name: 'Tea', price_amount: 1999 })
  t.equal(created.status, 201)
  const { id } = created.body.data
  t.equal(created.headers.get('location'), `/api/v1/products/${id}`)
  const read = await admin.get(`/api/v1/products/${id}`)
  t.same(read.body.data, created.body.data)
  t.equal(read.headers.get('etag'), created.headers.get('etag'))
  t.equal((await admin.patch(`/api/v1/products/${id}`, { stock: 5 })).body.data.stock, 5)
  t.equal((await admin.delete(`/api/v1/products/${id}`)).status, 204)
  t.equal((await admin.get(`/api/v1/products/${id}`)).status, 404)
})
