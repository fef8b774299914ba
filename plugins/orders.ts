/** Orders. A write prices the items and changes the stock of their products in its own transaction. */
import { randomInt } from 'node:crypto'
import { apiError } from '@resource-api/api/errors'
import { CALLER, toReads } from '@resource-api/api/rules'
import { isAnyOf, prepare, users } from '@resource-api/database'
import {
  aggregate,
  type ChangeOf,
  type CreateOf,
  collection,
  create,
  defineResource,
  type Locks,
  list,
  type RemoveOf,
  read,
  remove,
  replace,
  update,
} from '@resource-api/resources'
import { sql } from 'drizzle-orm'
import { orderProducts, orders as table } from '../drizzle/tables/orders.ts'
import { products } from '../drizzle/tables/products.ts'
import { Order, OrderChange, OrderCreate } from '../schemas/orders.ts'
import {
  linkProducts,
  type Reservation,
  readProducts,
  releaseStock,
  relinkProducts,
  reserveStock,
} from './orders/stock.ts'

const relations = {
  user: {
    to: users,
    local: 'user_id',
    foreign: 'id',
    many: false,
    inverse: 'orders',
    filters: ['status'],
  },
  products: {
    to: products,
    local: 'id',
    foreign: 'id',
    through: { table: orderProducts, local: orderProducts.order_id, foreign: orderProducts.product_id },
    many: true,
    all: true,
  },
} as const

const ownerOrStaff = { admin: true, manager: true, member: [{ user_id: CALLER }] } as const

export const orders = collection({
  table,
  description:
    'Products in quantities, with the names and prices of the time of the order. An order takes the stock of its products',
  schemas: { read: Order, create: OrderCreate, change: OrderChange },
  bodies: { immutable: ['user_id'], kept: ['status'] },
  lists: {
    filters: ['status', 'user_id', 'number'],
    negations: ['status'],
    nullChecks: ['shipping_address', 'note'],
    ranges: ['total_amount'],
    // An index of each would slow down every write.
    unindexed: ['shipping_address_null', 'note_null'],
    sorts: ['number', 'total_amount', 'created_at', 'updated_at'],
    search: ['number', 'note'],
    aggregates: { measures: ['total_amount', 'created_at'], groups: ['status', 'currency', 'created_at'] },
  },
  relations,
  access: {
    ...toReads(ownerOrStaff),
    create: ownerOrStaff,
    replace: ownerOrStaff,
    update: ownerOrStaff,
    remove: { admin: true },
  },
  transitions: {
    status: {
      pending: ['paid', 'cancelled'],
      paid: ['shipped', 'refunded'],
      shipped: ['completed', 'refunded'],
      completed: ['refunded'],
      cancelled: [],
      refunded: [],
    },
  },
  defaults: (actor) => ({ user_id: actor.userId }),
})

type Row = typeof table.$inferSelect
type Status = Row['status']

const drawNumbers = prepare((db) =>
  db.execute<{ number: string }>(
    sql`select ${table.number.default} as number from generate_series(1, ${sql.placeholder('count')}::integer)`,
  ),
)

const TRIAL_NUMBERS = 1_000_000_000
let lastTrial = randomInt(TRIAL_NUMBERS)

/** Returns a number for a dry run, which no order has: a sequence does not take back what is rolled back. */
function makeTrialNumber() {
  lastTrial = (lastTrial + 1) % TRIAL_NUMBERS
  return { number: `ORD-9${String(lastTrial).padStart(9, '0')}` }
}

const findHeldProducts = prepare((db) =>
  db
    .selectDistinct({ product_id: orderProducts.product_id })
    .from(orderProducts)
    .where(isAnyOf(orderProducts.order_id, sql.placeholder('orders'))),
)

/** The products of the items, whose stock changes. */
const locks: Locks<{ items?: readonly { product_id: string }[]; status?: Status }> = {
  table: products,
  isLast: true,
  async find(connection, writes) {
    const released = writes.filter(({ fields }) => !fields || fields.items || fields.status)
    const held = await findHeldProducts(connection, { orders: released.flatMap(({ id }) => id ?? []) })
    const named = writes.flatMap(({ fields }) => fields?.items ?? [])
    return [...held, ...named].map(({ product_id }) => product_id)
  },
}

const describeConflict = (subject: string, status: Status, change: string) => ({
  message: `${subject} with status "${status}" cannot be ${change}`,
})

/** What the documents have as an example of too little stock. */
const noStock = {
  name: 'stock',
  message: 'Not enough stock',
  violations: [{ field: 'items.0.quantity', message: 'only 23 in stock', code: 'INSUFFICIENT_STOCK' }],
} as const

/** Returns whether a transition releases the stock: a cancellation, or a refund before the order was shipped. */
const isStockReleased = (from: Status, to: Status) =>
  (from === 'pending' && to === 'cancelled') || (from === 'paid' && to === 'refunded')

const orderCreate: CreateOf<typeof orders> = {
  description:
    'Subtracts the quantity of each item from the `stock` of its product, in the same transaction. If a product has less stock, the response is 409, and if one is not active or has another currency, 422; nothing changes then.',
  conflicts: [noStock],
  locks,
  async runAll(creations) {
    const [first] = creations
    if (!first) return []
    const { store } = first
    const { connection, isDryRun } = store
    const requested = creations.map(({ body: { items } }) => ({ requested: items }))
    const rows = await readProducts(
      connection,
      requested.flatMap((order) => order.requested),
    )
    const reservations = reserveStock(store, rows, requested)
    const numbers = isDryRun
      ? creations.map(makeTrialNumber)
      : await drawNumbers(connection, { count: creations.length })
    const created = await store.insertAll(
      creations.map(({ id, body: { items: _, user_id = '', ...fields } }, i) => ({
        ...{ ...fields, ...reservations[i], ...numbers[i] },
        ...{ id, user_id },
      })),
    )
    await linkProducts(connection, created)
    return created
  },
}

const orderChange: ChangeOf<typeof orders> = {
  description:
    'New items of a pending order change the stock of their products by the difference; items of other orders cannot be changed. The status `cancelled`, and `refunded` before the order was shipped, returns all items to the stock.',
  conflicts: [noStock],
  locks,
  /** Lets members change or cancel their own orders only while these are pending. @throws ApiError 403 */
  guard({ current, next, changed, actor }) {
    if (actor.role !== 'member' || changed.size === 0) return
    if (current.status === 'pending' && (next.status === 'pending' || next.status === 'cancelled')) return
    const message = 'Members can change or cancel an order only while its status is "pending"'
    throw apiError('FORBIDDEN', { message })
  },
  async run({ store, current, next, changed }) {
    let reservation: Reservation | undefined
    if (changed.has('items')) {
      if (current.status !== 'pending')
        throw apiError(
          'RESOURCE_CONFLICT',
          describeConflict('The items of an order', current.status, 'changed'),
        )
      const { id, items: heldItems, currency } = current
      const rows = await readProducts(store.connection, [...heldItems, ...next.items])
      const [reserved] = reserveStock(store, rows, [{ requested: next.items, heldItems, currency }])
      reservation = reserved
      await relinkProducts(store.connection, id, heldItems, next.items)
    }
    const order = await store.update(current, { ...next, ...reservation })
    if (isStockReleased(current.status, order.status)) await releaseStock(store, order.items)
    return order
  },
}

const orderRemove: RemoveOf<typeof orders> = {
  description:
    'Only pending and cancelled orders can be deleted. Deleting a pending order returns its items to the stock of their products; a cancelled one has returned them already.',
  conflicts: [{ name: 'status', ...describeConflict('An order', 'shipped', 'deleted') }],
  locks,
  async run({ store, current }) {
    if (current.status !== 'pending' && current.status !== 'cancelled') {
      throw apiError('RESOURCE_CONFLICT', describeConflict('An order', current.status, 'deleted'))
    }
    if (current.status === 'pending') await releaseStock(store, current.items)
    await store.remove(current)
  },
}

export default defineResource(orders, async (app, resource) => {
  app.get('/orders', list(resource))
  app.get('/orders/aggregates', aggregate(resource))
  app.get('/orders/:id', read(resource))
  app.post('/orders', create(resource, orderCreate))
  app.put('/orders/:id', replace(resource, orderChange))
  app.patch('/orders/:id', update(resource, orderChange))
  app.delete('/orders/:id', remove(resource, orderRemove))
})
