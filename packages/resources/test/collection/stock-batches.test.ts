/** Batches that take or return stock lock the products in one order, whatever the order of their operations. */
import t from 'tap'
import { readStock } from '../../../../test/products.ts'
import { type Json, recordMessages } from '../../../testing/helpers/app.ts'
import { SERVER } from '../../../testing/helpers/database.ts'
import { startShows } from '../../../testing/helpers/shows.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { createActiveProduct, createVersionedClient } from '../../../testing/helpers/versioned-client.ts'

const skip = SERVER ? false : 'the embedded database runs one transaction at a time: set DATABASE_URL'

const createItems = (id: string | undefined, quantity = 1) => ({ items: [{ product_id: id, quantity }] })
const order = (id: string | undefined) => ({ method: 'POST', path: '/orders', body: createItems(id) })
const patch = (path: string, body: Json) => ({ method: 'PATCH', path, body })

/** Builds the operations of a batch from the ids of three products and of an order of each. */
type Build = (products: string[], orders: string[]) => Json[]

/** With the sum of the stocks after two batches; before them, it is 24. */
const batches: Record<string, { build: Build; stock: number }> = {
  orders: { build: (products) => products.map(order), stock: 18 },
  'new items': {
    build: (products, orders) => orders.map((id, i) => patch(`/orders/${id}`, createItems(products[i], 2))),
    stock: 18,
  },
  'orders and cancellations': {
    build: ([one, two], [, , last]) => [
      order(one),
      order(two),
      patch(`/orders/${last}`, { status: 'cancelled' }),
    ],
    stock: 22,
  },
  'orders and deletions': {
    build: ([one, two], [, , last]) => [
      order(one),
      order(two),
      { method: 'DELETE', path: `/orders/${last}` },
    ],
    stock: 22,
  },
  'orders and changes of products': {
    build: ([one, two, last]) => [patch(`/products/${last}`, { name: 'Tea' }), order(two), order(one)],
    stock: 20,
  },
}

t.test('batches in opposite orders wait for each other', { skip }, async (t) => {
  const { admin, countWaiting, holding } = await startShows(t)
  const client = createVersionedClient(admin, 1)
  for (const [name, { build, stock }] of Object.entries(batches)) {
    await t.test(name, async (t) => {
      const products: string[] = []
      for (let i = 0; i < 3; i++) products.push((await createActiveProduct(client)).id)
      const bodies: Json[] = []
      for (const ids of [products, products.toReversed()]) {
        const orders: string[] = []
        for (const id of ids) orders.push((await client.post('/orders', createItems(id))).data.id)
        bodies.push({ operations: build(ids, orders) })
      }
      const retries = recordMessages(t, 'resource-api:database:retry')
      // Each of them has its first product, and waits for the second.
      const lock = 'select 1 from products where id = $1 for update'
      const sent = await holding(lock, [products[1] ?? ''], async () => {
        const running = bodies.map((body) => admin.post('/batches', body))
        await waitUntil(async () => (await countWaiting()) === 2)
        return running
      })
      const statuses = (await Promise.all(sent)).map(({ status }) => status)
      t.same(statuses, [200, 200])
      t.same(retries, [], 'PostgreSQL has ended no deadlock')
      const stocks = await Promise.all(products.map((id) => readStock(client, id)))
      t.equal(
        stocks.reduce((sum, each) => sum + each),
        stock,
      )
    })
  }
})
