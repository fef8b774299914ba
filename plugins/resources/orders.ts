/** Defines orders. A write prices the items and changes the stock of their products in its own transaction. */
import { sql } from 'drizzle-orm'
import { prepare } from '../../drizzle/client/prepare.ts'
import { isAnyOf } from '../../drizzle/expressions.ts'
import { orderProducts, orders } from '../../drizzle/tables/orders.ts'
import { products } from '../../drizzle/tables/products.ts'
import { users } from '../../drizzle/user-tables.ts'
import { Order, OrderChange, OrderCreate } from '../../schemas/orders.ts'
import type { Actor } from '../access/actor.ts'
import { CALLER } from '../access/rules.ts'
import type { Change } from '../collection/actions.ts'
import { defineResource, type ResourceDefinition } from '../collection/definition.ts'
import { apiError } from '../errors/index.ts'
import { linkProducts, type Reservation, releaseStock, reserveStock } from './orders/stock.ts'

type OrderRow = typeof orders.$inferSelect
type Status = OrderRow['status']

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

declare module '../collection/known-relations.ts' {
  interface KnownRelations {
    orders: { table: typeof orders; relations: typeof relations }
  }
}

const own = [{ user_id: CALLER }] as const
const ownerOrStaff = { admin: true, manager: true, member: own } as const

/** Returns whether a transition releases the stock: a cancellation, or a refund before the order was shipped. */
const isStockReleased = (from: Status, to: Status) =>
  (from === 'pending' && to === 'cancelled') || (from === 'paid' && to === 'refunded')

const drawNumber = prepare((db) =>
  db.execute<{ number: string }>(sql`select ${orders.number.default} as number`),
)

const findHeldProducts = prepare((db) =>
  db
    .selectDistinct({ product_id: orderProducts.product_id })
    .from(orderProducts)
    .where(isAnyOf(orderProducts.order_id, sql.placeholder('orders'))),
)

/**
 * Lets members change or cancel their own orders only while these are pending.
 * @throws ApiError 403
 */
function guardMember(current: OrderRow, { next, changed }: Change<Pick<OrderRow, 'status'>>, actor: Actor) {
  if (actor.role !== 'member' || changed.size === 0) return
  if (current.status === 'pending' && (next.status === 'pending' || next.status === 'cancelled')) return
  const message = 'Members can change or cancel an order only while its status is "pending"'
  throw apiError('FORBIDDEN', { message })
}

const conflict = (subject: string, { status }: OrderRow, change: string) =>
  apiError('RESOURCE_CONFLICT', { message: `${subject} with status "${status}" cannot be ${change}` })

const CHANGE_NOTE =
  'New items of a pending order change the stock of their products by the difference; items of other orders cannot be changed. The status `cancelled`, and `refunded` before the order was shipped, returns all items to the stock.'

export const ordersResource: ResourceDefinition = defineResource({
  name: 'orders',
  singular: 'Order',
  plural: 'Orders',
  description:
    'Products in quantities, with the names and prices of the time of the order. An order takes the stock of its products',
  notes: {
    create:
      'Subtracts the quantity of each item from the `stock` of its product, in the same transaction. If a product has less stock, the response is 409, and if one is not active or has another currency, 422; nothing changes then.',
    replace: CHANGE_NOTE,
    update: CHANGE_NOTE,
    remove:
      'Only pending and cancelled orders can be deleted. Deleting a pending order returns its items to the stock of their products; a cancelled one has returned them already.',
  },
  table: orders,
  schemas: { read: Order, create: OrderCreate, change: OrderChange },
  immutable: ['user_id'],
  kept: ['status'],
  filters: ['status', 'user_id', 'number'],
  negations: ['status'],
  nullChecks: ['shipping_address', 'note'],
  ranges: ['total_amount'],
  // An index of each would slow down every write.
  unindexed: ['shipping_address_null', 'note_null'],
  sorts: {
    number: orders.number,
    total_amount: orders.total_amount,
    created_at: orders.created_at,
    updated_at: orders.updated_at,
  },
  search: ['number', 'note'],
  relations,
  access: {
    list: ownerOrStaff,
    read: ownerOrStaff,
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
  actions: {
    locks: {
      table: products,
      async find(connection, writes) {
        const released = writes.filter(({ fields }) => !fields || fields.items || fields.status)
        const held = await findHeldProducts(connection, { orders: released.flatMap(({ id }) => id ?? []) })
        return [...held, ...writes.flatMap(({ fields }) => fields?.items ?? [])].map(
          ({ product_id }) => product_id,
        )
      },
    },

    async create(store, id, { items, user_id = '', ...fields }) {
      // Before products are locked, so that they are locked for a shorter time.
      const [next] = await drawNumber(store.connection)
      const reservation = await reserveStock(store, [], items, undefined)
      const order = await store.insert({ ...fields, ...reservation, ...next, id, user_id })
      await linkProducts(store.connection, id, [], reservation.items)
      return order
    },

    guard: guardMember,

    async change(store, current, { next, changed }) {
      const { connection } = store
      let reservation: Reservation | undefined
      if (changed.has('items')) {
        if (current.status !== 'pending') throw conflict('The items of an order', current, 'changed')
        reservation = await reserveStock(store, current.items, next.items, current.currency)
        await linkProducts(connection, current.id, current.items, reservation.items)
      }
      const order = await store.update(current, { ...next, ...reservation })
      if (isStockReleased(current.status, order.status)) await releaseStock(store, order.items)
      return order
    },

    async remove(store, current) {
      if (current.status !== 'pending' && current.status !== 'cancelled') {
        throw conflict('An order', current, 'deleted')
      }
      if (current.status === 'pending') await releaseStock(store, current.items)
      await store.remove(current)
    },
  },
})
