/** A resource has actions: `POST /orders/{id}/refunds`, a route with one function. */
import { Type } from '@sinclair/typebox'
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { apiError } from '../../../api/src/errors/errors.ts'
import { Id, Text } from '../../../api/src/schemas/types.ts'
import { type Json, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { replaceResource } from '../../../testing/helpers/serve.ts'
import { ordersResource as orders } from '../../../testing/helpers/shop.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { createUniqueName } from '../../../testing/helpers/versioned-client.ts'
import { defineResource } from '../../src/routes/plugin.ts'
import { action } from '../../src/routes/routes.ts'

const Refund = Type.Object(
  { reason: Text({ minLength: 1, maxLength: 100, examples: ['Broken'] }) },
  { title: 'RefundCreate' },
)
const Receipt = Type.Object({ id: Id(), number: Text({ examples: ['ORD-1'] }) }, { title: 'Receipt' })

const access = {
  refunds: { access: { admin: true, manager: true } },
  receipts: { access: { admin: true, member: [{ status: 'pending' }] } },
}
const adopted = replaceResource(resources, 'orders', (plugin) =>
  defineResource({ ...orders, operations: access }, async (app, resource) => {
    await plugin(app, {})
    app.post(
      '/orders/:id/refunds',
      action(
        resource,
        'refunds',
        {
          operationId: 'refundOrder',
          summary: 'Refund an order',
          description: 'Refunds a paid order.',
          body: Refund,
        },
        async ({ store, current, body: { reason } }) => {
          if (current.status !== 'paid')
            throw apiError('RESOURCE_CONFLICT', { message: 'Only a paid order can be refunded' })
          return store.update(current, { status: 'refunded', note: reason })
        },
      ),
    )
    const receipt = {
      operationId: 'createReceipt',
      summary: 'Create a receipt',
      description: 'Returns a receipt.',
      response: Receipt,
    }
    app.post(
      '/orders/:id/receipts',
      action(resource, 'receipts', receipt, async ({ current: { id, number } }) => ({ id, number })),
    )
  }),
)

t.test('the actions of a resource', async (t) => {
  const { admin, app, person } = await testApp(t, {}, { resources: adopted })
  const newOrder = async (status = 'paid'): Promise<Json> => {
    const product = { sku: createUniqueName('sku'), name: 'A', price_amount: 1, stock: 9, status: 'active' }
    const { id } = (await admin.post('/products', product)).body.data
    const made = await admin.post('/orders', { items: [{ product_id: id, quantity: 1 }] })
    return status === 'pending'
      ? made.body.data
      : (await admin.patch(`/orders/${made.body.data.id}`, { status })).body.data
  }
  const eventsOf = async (id: string): Promise<string[]> =>
    (await admin.get(`/events?resource_id=${id}&sort=position`)).body.data.map(({ type }: Json) => type)

  t.test('it changes the resource, and responds with it', async (t) => {
    const { id } = await newOrder()
    const reply = await admin.post(`/v2/orders/${id}/refunds`, { reason: 'Broken' })
    t.equal(reply.status, 201, reply.text)
    t.match(reply.body.data, { id, type: 'orders', attributes: { status: 'refunded', note: 'Broken' } })
    t.equal(reply.headers.get('location'), `/v2/orders/${id}`)
    t.equal(reply.headers.get('etag'), (await admin.get(`/v2/orders/${id}`)).headers.get('etag'))
    await waitUntil(async () => (await eventsOf(id)).length === 3)
    t.same(await eventsOf(id), ['orders.created', 'orders.updated', 'orders.updated'])
  })

  t.test('it honors If-Match, and an Idempotency-Key', async (t) => {
    const { id } = await newOrder()
    const path = `/orders/${id}/refunds`
    const stale = await admin.post(path, { reason: 'A' }, { 'if-match': '"1-aaaaaaaaaaaa"' })
    t.equal(stale.status, 412)
    const key = { 'idempotency-key': 'refund-1' }
    const [first, again] = [
      await admin.post(path, { reason: 'A' }, key),
      await admin.post(path, { reason: 'A' }, key),
    ]
    t.same([first.status, again.status], [201, 201])
    t.equal(again.headers.get('idempotency-replayed'), 'true')
    t.equal(again.text, first.text)
    t.equal((await admin.post(path, { reason: 'B' }, key)).status, 422)
    t.equal((await admin.post(path, { reason: 'A' })).status, 409, 'its own rule')
  })

  t.test('its body, row and access are checked in the order of all operations', async (t) => {
    const { id } = await newOrder()
    const member = (await person('member')).bearer
    const manager = (await person('manager')).bearer
    t.equal((await member.post(`/orders/${id}/refunds`, {})).status, 403, 'the role')
    t.equal(
      (await manager.post(`/orders/${UNKNOWN_ID}/refunds`, undefined)).status,
      400,
      'a body is required',
    )
    const invalid = await manager.post(`/v2/orders/${UNKNOWN_ID}/refunds`, {
      data: { type: 'orders', attributes: { x: 1 } },
    })
    t.same(invalid.body.error.errors.map(({ field, code }: Json) => `${field} ${code}`).sort(), [
      'data.attributes.reason REQUIRED',
      'data.attributes.x UNKNOWN_FIELD',
    ])
    t.equal((await manager.post(`/orders/${UNKNOWN_ID}/refunds`, { reason: 'A' })).status, 404)
    t.equal((await manager.post(`/orders/${id}/refunds?x=1`, { reason: 'A' })).status, 400)
    t.equal((await manager.get(`/orders/${id}/refunds`)).status, 405)
    t.equal((await member.post(`/orders/${id}/receipts`, undefined)).status, 403, 'a row of another state')
  })

  t.test('it may respond with fields of its own', async (t) => {
    const { id, number } = await newOrder('pending')
    const key = { 'idempotency-key': 'receipt-1' }
    const reply = await admin.post(`/v2/orders/${id}/receipts`, {}, key)
    t.equal(reply.status, 201, reply.text)
    t.same(reply.body.data, { id, type: 'receipts', attributes: { number } })
    t.same([reply.headers.get('etag'), reply.headers.get('location')], [null, null])
    const again = await admin.post(`/v2/orders/${id}/receipts`, {}, key)
    t.same([again.text, again.headers.get('etag')], [reply.text, null])
  })

  t.test('the documents have it', async (t) => {
    for (const version of [1, 2]) {
      const { body } = await admin.get(`/openapi/v${version}.json`)
      const { post } = body.paths[`/api/v${version}/orders/{id}/refunds`]
      t.equal(post.operationId, 'refundOrder')
      t.match(post.description, /admin: all; manager: all; member: none/)
      t.same(post['x-required-scopes'], ['orders:write'])
      t.ok(JSON.stringify(post.requestBody).includes('RefundCreate'))
      t.ok(post.responses['412'])
    }
    t.ok(app.hasRoute({ method: 'POST', url: '/api/v1/orders/:id/refunds' }))
  })
})
