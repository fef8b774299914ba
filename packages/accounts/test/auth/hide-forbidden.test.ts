/** With HIDE_FORBIDDEN a row that the caller may not access is a 404. */
import t from 'tap'
import { testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { createNotes } from '../../../testing/helpers/notes.ts'
import { createActiveProduct, createVersionedClient } from '../../../testing/helpers/versioned-client.ts'

t.test('with HIDE_FORBIDDEN a forbidden row is indistinguishable from a missing one', async (t) => {
  const { admin, person } = await testApp(t, { HIDE_FORBIDDEN: 'true' }, await createNotes(t))
  const { client, id } = await person('member')
  const other = await person('member')
  const product = await createActiveProduct(createVersionedClient(admin, 1))
  const body = { items: [{ product_id: product.id, quantity: 1 }] }
  const foreign = (await admin.post('/orders', body)).body.data.id
  const missing = await client.get(`/orders/${UNKNOWN_ID}`)
  t.equal(missing.body.error.message, `There is no order with the id ${UNKNOWN_ID}`)
  const note = { title: 'a', body: 'b' }
  for (const [hidden, send] of [
    [foreign, (order: string) => client.get(`/orders/${order}`)],
    [foreign, (order: string) => client.patch(`/orders/${order}`, { note: 'x' })],
    [foreign, (order: string) => client.put(`/orders/${order}`, body)],
    [other.id, (user: string) => client.get(`/users/${user}`)],
    [other.id, (user: string) => client.patch(`/users/${user}`, { name: 'x' })],
    [other.id, (user: string) => client.post(`/users/${user}/notes`, note)],
  ] as const) {
    const { status, body: refused } = await send(hidden)
    const { body: unknown } = await send(UNKNOWN_ID)
    t.equal(status, 404)
    t.equal(refused.error.code, 'RESOURCE_NOT_FOUND')
    // The same bytes, but for the id that the client sent and that of the request.
    t.equal(
      JSON.stringify({ ...refused.error, request_id: '' }),
      JSON.stringify({ ...unknown.error, request_id: '' }).replaceAll(UNKNOWN_ID, hidden),
    )
  }
  const forOther = await client.post('/orders', { ...body, user_id: other.id })
  t.equal(forOther.status, 403, 'there is nothing to hide')
  t.equal((await client.get('/users')).status, 403, 'what the role never has stays 403')
  const own = (await client.post('/orders', body)).body.data
  const paid = await client.patch(`/orders/${own.id}`, { status: 'paid' })
  t.equal(paid.status, 403, 'so does a row they can read')
  t.equal((await client.get(`/users/${id}`)).status, 200)
})
