/** With HIDE_FORBIDDEN a row that the caller may not access is a 404. */
import t from 'tap'
import { testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createActiveProduct, createVersionedClient } from '../helpers/versioned-client.ts'

t.test('with HIDE_FORBIDDEN a forbidden row is indistinguishable from a missing one', async (t) => {
  const { admin, person } = await testApp(t, { HIDE_FORBIDDEN: 'true' })
  const { client, id } = await person('member')
  const other = await person('member')
  const product = await createActiveProduct(createVersionedClient(admin, 1))
  const body = { items: [{ product_id: product.id, quantity: 1 }] }
  const foreign = (await admin.post('/orders', body)).body.data.id
  const missing = await client.get(`/orders/${UNKNOWN_ID}`)
  for (const reply of [
    await client.get(`/orders/${foreign}`),
    await client.patch(`/orders/${foreign}`, { note: 'x' }),
    await client.put(`/orders/${foreign}`, body),
    await client.get(`/users/${other.id}`),
    await client.patch(`/users/${other.id}`, { name: 'x' }),
    await client.post(`/users/${other.id}/posts`, { title: 'a', body: 'b' }),
  ]) {
    t.equal(reply.status, 404)
    t.equal(reply.body.error.code, 'RESOURCE_NOT_FOUND')
    t.equal(reply.body.error.message, missing.body.error.message)
  }
  t.equal(
    (await client.post('/orders', { ...body, user_id: other.id })).status,
    403,
    'there is nothing to hide',
  )
  t.equal((await client.get('/users')).status, 403, 'what the role never has stays 403')
  const own = (await client.post('/orders', body)).body.data
  t.equal(
    (await client.patch(`/orders/${own.id}`, { status: 'paid' })).status,
    403,
    'so does a row they can read',
  )
  t.equal((await client.get(`/users/${id}`)).status, 200)
})
