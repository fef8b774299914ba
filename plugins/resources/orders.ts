/** Orders: they price their items, and take and return stock, in the transaction of the write itself. */

import type { Connection } from '../../drizzle/client/types.ts'
import { orderProducts, orders } from '../../drizzle/tables.ts'
import type { Violation } from '../../schemas/error.ts'
import { Order, OrderChange, OrderCreate } from '../../schemas/orders.ts'
import { type Actor, CALLER } from '../access/index.ts'
import { type Change, defineResource, type ResourceDefinition } from '../collection/definition.ts'
import type { Mode } from '../collection/request/body.ts'
import { apiError } from '../errors/index.ts'
import { link, release, reserve } from './orders/stock.ts'

type OrderRow = typeof orders.$inferSelect
type Status = OrderRow['status']

const own = [{ user_id: CALLER }] as const
const mine = { admin: true, manager: true, member: own } as const

/** Whether a move gives the stock back: cancelling does, and refunding what was not shipped. */
const givesBack = (from: Status, to: Status) =>
  (from === 'pending' && to === 'cancelled') || (from === 'paid' && to === 'refunded')

const checkFirstStatus = ({ status }: { status?: Status }, mode: Mode): Violation[] =>
  mode === 'create' && status !== undefined && status !== 'pending'
    ? [{ field: 'status', message: 'an order begins pending', code: 'INVALID_VALUE' }]
    : []

/** Asked for before any product is locked, so that those are held no longer than need be. */
async function nextNumber(connection: Connection): Promise<string> {
  const [row] = await connection.run(
    `select 'ORD-' || lpad(nextval('order_numbers')::text, 10, '0') as number`,
  )
  return String(row?.number)
}

/** What members may change of their own order: its content while it is pending, and then to cancel it. */
function guardMember(current: OrderRow, { next, changed }: Change<Pick<OrderRow, 'status'>>, actor: Actor) {
  if (actor.role !== 'member' || changed.size === 0) return
  const allowed = current.status === 'pending' && (next.status === 'pending' || next.status === 'cancelled')
  if (!allowed) throw apiError('FORBIDDEN', { message: 'Members change an order only while it is pending' })
}

export const ordersResource: ResourceDefinition = defineResource({
  name: 'orders',
  singular: 'Order',
  plural: 'Orders',
  description: 'Products in quantities, as they were when ordered. Creating one takes its stock',
  table: orders,
  schemas: { read: Order, create: OrderCreate, change: OrderChange },
  immutable: ['user_id'],
  kept: ['status'],
  filters: ['status', 'user_id'],
  sorts: {
    number: orders.number,
    total_amount: orders.total_amount,
    created_at: orders.created_at,
    updated_at: orders.updated_at,
  },
  search: ['number', 'note'],
  relations: {
    user: { to: 'users', local: 'user_id', foreign: 'id', many: false },
    products: {
      to: 'products',
      local: 'id',
      foreign: 'order_id',
      through: { table: orderProducts, foreign: orderProducts.order_id, other: orderProducts.product_id },
      many: true,
      all: true,
    },
  },
  access: { list: mine, read: mine, create: mine, replace: mine, update: mine, remove: { admin: true } },
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
  check: checkFirstStatus,
  actions: {
    async create(store, id, { items, user_id = '', ...members }) {
      const number = await nextNumber(store.connection)
      const reserved = await reserve(store.connection, [], items, undefined)
      const order = await store.insert({ ...members, ...reserved, number, id, user_id })
      await link(store.connection, id, [], reserved.items)
      return order
    },

    guard: guardMember,

    async change(store, current, { next, changed }) {
      const reordered = changed.has('items')
      if (reordered && current.status !== 'pending') {
        throw apiError('RESOURCE_CONFLICT', {
          message: 'The items of an order change only while it is pending',
        })
      }
      const reserved = reordered
        ? await reserve(store.connection, current.items, next.items, current.currency)
        : undefined
      if (reserved) await link(store.connection, current.id, current.items, reserved.items)
      const order = await store.update(current, { ...next, ...reserved })
      if (givesBack(current.status, order.status)) await release(store.connection, order.items)
      return order
    },

    async remove(store, current) {
      if (current.status !== 'pending' && current.status !== 'cancelled') {
        throw apiError('RESOURCE_CONFLICT', { message: `An order that is ${current.status} stays` })
      }
      if (current.status === 'pending') await release(store.connection, current.items)
      await store.remove(current)
    },
  },
})
