/** The rows of orders and their items. */
import { orderNumbers, orderProducts, orders } from '../../drizzle/tables/orders.ts'
import type { products } from '../../drizzle/tables/products.ts'
import { orders as resource } from '../../plugins/orders.ts'
import type { OrderItem } from '../../schemas/orders.ts'
import { getProduct, PRODUCTS_PER_USER } from './products.ts'
import { Random } from './random.ts'
import {
  buildBase,
  countBefore,
  DAY_MS,
  getMoment,
  type RowOf,
  type SeedContext,
  type SeedStep,
} from './step.ts'
import { drawBuyer, type getPerson } from './users.ts'

const NOTES = [
  'Please ring twice.',
  'Deliver after 5 pm.',
  'This is a gift: no invoice in the parcel please.',
]

const ORDERS_PER_USER = 5

/** Status shares of orders that are less than two weeks old, and of older ones. */
const RECENT = { pending: 0.2, paid: 0.2, shipped: 0.4, completed: 0.1, cancelled: 0.08, refunded: 0.02 }
const OLD = { pending: 0.03, paid: 0.03, shipped: 0.06, completed: 0.76, cancelled: 0.08, refunded: 0.04 }
/** The number of changes that lead to a status. */
const CHANGES = { pending: 0, paid: 1, shipped: 2, completed: 3, cancelled: 1, refunded: 2 }

/** Random rows to try for a match. */
const MAX_ATTEMPTS = 60

/** Draws up to five different products of a currency; product 0 if there are none. */
function drawProducts(context: SeedContext, moment: number, currency: string, random: Random) {
  const count = countBefore(context, moment, context.users * PRODUCTS_PER_USER)
  const wanted = random.integer(1, 5)
  const found = new Map<string, RowOf<typeof products>>()
  for (let i = 0; i < MAX_ATTEMPTS && found.size < wanted; i++) {
    // Some products are ordered much more often than others.
    const { product, availableUntil } = getProduct(context, Math.floor(count * random.fraction() ** 1.5))
    if (product.status === 'draft' || moment > availableUntil || product.currency !== currency) continue
    found.set(product.id, product)
  }
  return found.size > 0 ? [...found.values()] : [getProduct(context, 0).product]
}

function drawAddress({ user, market }: ReturnType<typeof getPerson>, random: Random) {
  const line1 = random.pick(market.streets).replace('#', String(random.integer(1, 199)))
  return { name: user.name, line1, line2: null, ...random.pick(market.cities), country: market.country }
}

function buildOrder(context: SeedContext, index: number, number: number): RowOf<typeof orders> {
  const random = new Random(context.seed, 'order', index)
  const created = getMoment(context, index, context.users * ORDERS_PER_USER, random)
  const buyer = drawBuyer(context, created, random)
  const ordered = drawProducts(context, created, buyer.market.currency, random)
  const items = ordered.map(({ id: product_id, sku, name, price_amount }): OrderItem => {
    const quantity = random.chance(0.7) ? 1 : random.integer(2, 5)
    const total_amount = price_amount * quantity
    return { product_id, quantity, sku, name, unit_amount: price_amount, total_amount }
  })
  const status = random.share(context.until - created < 14 * DAY_MS ? RECENT : OLD)
  const changes = CHANGES[status]
  const updated = Math.min(created + changes * random.integer(DAY_MS / 24, 2 * DAY_MS), context.until)
  return {
    ...buildBase(random, created, updated, changes),
    number: `ORD-${String(number).padStart(10, '0')}`,
    note: random.chance(0.15) ? random.pick(NOTES) : null,
    user_id: buyer.user.id,
    items,
    currency: ordered[0]?.currency ?? buyer.market.currency,
    total_amount: items.reduce((sum, { total_amount }) => sum + total_amount, 0),
    shipping_address: random.chance(0.92) ? drawAddress(buyer, random) : null,
    status,
  }
}

export const orderRows: SeedStep = {
  resource,
  tables: { orders, items: orderProducts },
  indicesPerUser: ORDERS_PER_USER,
  sequence: orderNumbers,
  build(context, index, number) {
    const order = buildOrder(context, index, number)
    return {
      orders: [order],
      items: order.items.map(({ product_id }) => ({ order_id: order.id, product_id })),
    }
  },
}
