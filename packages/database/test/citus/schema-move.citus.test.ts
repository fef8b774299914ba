/** A tenant on Citus moves to another node while it serves reads and writes. None fails, and nothing is lost. */
import { sql } from 'drizzle-orm'
import t from 'tap'
import { type Client, type Json, testApp } from '../../../testing/helpers/app.ts'
import { CITUS, openDatabase } from '../../../testing/helpers/database.ts'
import { readFeed } from '../../../testing/helpers/events.ts'
import type { Database } from '../../src/client/index.ts'

const WRITERS = 4
const ROUNDS_AFTER_MOVE = 20
const PRODUCTS = 5
const STOCK = 1_000_000

type Node = {
  host: string
  port: number
}

/** Returns the node of a distributed schema, and another one. */
async function findNodes(database: Database): Promise<{ current: Node; other: Node }> {
  const nodes = await database.execute<
    Node & { is_current: boolean }
  >(sql`select n.nodename as host, n.nodeport as port, bool_or(s.table_name is not null) as is_current
     from pg_dist_node n left join citus_shards s
       on s.nodename = n.nodename and s.nodeport = n.nodeport and s.table_name = 'users'::regclass
     where n.shouldhaveshards group by n.nodename, n.nodeport`)
  const [current, other] = [
    nodes.find(({ is_current }) => is_current),
    nodes.find(({ is_current }) => !is_current),
  ]
  if (!current || !other) throw new Error('The cluster needs two nodes, and schema-based sharding')
  return { current, other }
}

/** Statuses of the responses of all kinds of writes. */
class Load {
  readonly statuses: number[] = []
  orders = 0
  isOver = false

  async #send(send: () => Promise<{ status: number; body: Json }>): Promise<Json> {
    const { status, body } = await send()
    this.statuses.push(status)
    return body.data
  }

  /** Creates and changes rows of its own, and orders what other writers order too. */
  async write(client: Client, productIds: readonly string[]): Promise<void> {
    for (let after = 0; after < ROUNDS_AFTER_MOVE; after += this.isOver ? 1 : 0) {
      const { id } = await this.#send(() =>
        client.post('/products', { sku: crypto.randomUUID(), name: 'Tea', price_amount: 1 }),
      )
      await this.#send(() => client.patch(`/products/${id}`, { stock: 7 }))
      const items = productIds.map((product_id) => ({ product_id, quantity: 1 }))
      await this.#send(() => client.post('/orders', { items }, { 'idempotency-key': crypto.randomUUID() }))
      this.orders += 1
      await this.#send(() => client.get('/orders?limit=5&include=user'))
    }
  }
}

const skip = !CITUS && 'set CITUS_URL to a database of a Citus cluster'

t.test('a schema moves under load', { skip }, async (t) => {
  const { app, admin, database, person } = await testApp(t)
  const productIds: string[] = []
  for (let i = 0; i < PRODUCTS; i += 1) {
    const product = { sku: `MOVE-${i}`, name: 'Tea', price_amount: 1, stock: STOCK, status: 'active' }
    productIds.push((await admin.post('/products', product)).body.data.id)
  }
  const load = new Load()
  const writers = await Promise.all(Array.from({ length: WRITERS }, () => person('manager')))
  const writing = writers.map(({ client }) => load.write(client, productIds))

  const { other } = await findNodes(database)
  const mover = await openDatabase({ url: CITUS ?? '', poolSize: 1, statementTimeout: 0 })
  t.teardown(() => mover.close())
  const startedAt = performance.now()
  await mover.run('select citus_schema_move($1::regnamespace, $2, $3::int)', [
    database.schema,
    other.host,
    other.port,
  ])
  const duration = performance.now() - startedAt
  load.isOver = true
  await Promise.all(writing)

  t.strictSame((await findNodes(database)).current, { ...other, is_current: true })
  t.strictSame(
    load.statuses.filter((status) => status >= 300),
    [],
    `all of ${load.statuses.length} requests succeed`,
  )
  t.comment(`${load.statuses.length} requests, the move took ${Math.round(duration)} ms`)

  t.match((await admin.get('/orders?page=1')).body.pagination, { total: load.orders })
  for (const id of productIds)
    t.equal((await admin.get(`/products/${id}`)).body.data.stock, STOCK - load.orders)
  await app.events.assignAll()
  const { events } = await readFeed(admin, '&limit=100')
  t.equal(
    events.filter(({ type }) => type === 'orders.created').length,
    load.orders,
    'each order has its event',
  )
  for (const id of productIds) {
    const revisions = events.flatMap((event) => (event.resource_id === id ? [event.revision] : []))
    t.strictSame(
      revisions,
      revisions.map((_, i) => i + 1),
      'in the order of the revisions',
    )
  }
})
