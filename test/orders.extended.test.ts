/** Concurrent orders never oversell, lose stock or deadlock. */
import { setTimeout } from 'node:timers/promises'
import { type Client, createVersionedClient, type Reply, SERVER, testApp } from '@resource-api/testing'
import t, { type Test } from 'tap'
import { buildApp } from '../src/app.ts'
import { createActiveProduct, readStock } from './products.ts'

const count = (replies: readonly Reply[], status: number) =>
  replies.filter((reply) => reply.status === status).length

const all = <T>(times: number, work: (i: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: times }, (_, i) => work(i)))

const skip = SERVER ? false : 'the embedded database runs one transaction at a time: set DATABASE_URL'

t.test('concurrent orders on PostgreSQL', { skip }, async (t) => {
  const { admin: client, database } = await testApp(t, buildApp)
  const admin = createVersionedClient(client, 1)
  const order = (by: Client, items: unknown[]) => by.post('/orders', { items })
  const none = (t: Test, replies: readonly Reply[]) =>
    t.equal(replies.filter(({ status }) => status >= 500).length, 0)

  t.test('100 concurrent orders for 25 units sell exactly 25', async (t) => {
    const { id } = await createActiveProduct(admin, { stock: 25 })
    const replies = await all(100, () => order(client, [{ product_id: id, quantity: 1 }]))
    t.same([count(replies, 201), count(replies, 409)], [25, 75])
    t.equal(await readStock(admin, id), 0)
    const sold = new Set(replies.filter(({ status }) => status === 201).map(({ body }) => body.data.number))
    t.equal(sold.size, 25, 'each under a number of its own')
  })

  t.test('orders for the same products in different sequences do not deadlock', async (t) => {
    const products = []
    for (let i = 0; i < 6; i++) products.push(await createActiveProduct(admin, { stock: 1000 }))
    const items = products.map(({ id }) => ({ product_id: id, quantity: 1 }))
    const shuffled = (i: number) => {
      const turned = [...items.slice(i % 6), ...items.slice(0, i % 6)]
      return i % 2 === 0 ? turned : turned.reverse()
    }
    const replies = await all(60, (i) => order(client, shuffled(i)))
    t.equal(count(replies, 201), 60)
    const orders = replies.map(({ body }) => body.data.id)
    // Now changes, cancellations, deletions and new ones of the same products, all crossed.
    const mixed = await all(60, (i) => {
      const path = `/orders/${orders[i]}`
      if (i % 4 === 0) return client.patch(path, { items: shuffled(i + 1).slice(0, 3) })
      if (i % 4 === 1) return client.patch(path, { items: shuffled(i).slice(2), status: 'cancelled' })
      if (i % 4 === 2) return client.delete(path)
      return order(client, shuffled(i))
    })
    none(t, mixed)
    t.equal(mixed.filter(({ status }) => status >= 400).length, 0)
    // Of 60 orders 15 keep half, 15 are cancelled, 15 deleted, 15 untouched, and 15 are new.
    const left = await Promise.all(products.map(({ id }) => readStock(admin, id)))
    const held = 6000 - left.reduce((sum, stock) => sum + stock, 0)
    t.equal(held, 15 * 3 + 15 * 6 + 15 * 6)
  })

  t.test('concurrent edits of products lose no stock and fail no order', async (t) => {
    const { id } = await createActiveProduct(admin, { stock: 60 })
    const replies = await all(90, (i) =>
      i % 3 === 0
        ? client.patch(`/products/${id}`, { name: `Name ${i}` })
        : order(client, [{ product_id: id, quantity: 1 }]),
    )
    t.same([count(replies, 200), count(replies, 201)], [30, 60])
    t.equal(await readStock(admin, id), 0)
  })

  t.test('concurrent cancel, change and delete of an order return its stock once', async (t) => {
    for (let round = 0; round < 5; round++) {
      const { id: product_id } = await createActiveProduct(admin, { stock: 100 })
      const { id } = (await order(client, [{ product_id, quantity: 10 }])).body.data
      const replies = await all(24, (i) => {
        if (i % 4 === 0) return client.patch(`/orders/${id}`, { status: 'cancelled' })
        if (i % 4 === 1) return client.patch(`/orders/${id}`, { items: [{ product_id, quantity: i + 1 }] })
        if (i % 4 === 2) return client.delete(`/orders/${id}`)
        return client.patch(`/orders/${id}`, { status: 'paid' })
      })
      none(t, replies)
      const left = await client.get(`/orders/${id}`)
      const { status, items } = left.status === 200 ? left.body.data : { status: 'gone', items: [] }
      const held = ['gone', 'cancelled'].includes(status) ? 0 : items[0].quantity
      t.equal(await readStock(admin, product_id), 100 - held, status)
    }
  })

  t.test('of a concurrent order and deletion of its product exactly one succeeds', async (t) => {
    for (let round = 0; round < 10; round++) {
      const { id } = await createActiveProduct(admin)
      const [made, removed] = await Promise.all([
        order(client, [{ product_id: id, quantity: 1 }]),
        client.delete(`/products/${id}`),
      ])
      t.ok(
        ['201 409', '422 204'].includes(`${made.status} ${removed.status}`),
        `${made.status} ${removed.status}`,
      )
    }
  })

  t.test('the server detected no deadlock in these tests', async (t) => {
    await setTimeout(1500) // until the connections have reported their statistics
    const [row] = await database.run(
      'select deadlocks from pg_stat_database where datname = current_database()',
    )
    t.equal(row?.deadlocks, 0)
  })
})
