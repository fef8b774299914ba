/** Demo orders, of users and products that existed at the time; older orders have reached later statuses. */
import type { OrderItemRow, orderProducts, orders } from '../../../drizzle/tables.ts'
import { drawGoods, drawOffer, type Offer } from './products.ts'
import { Random } from './random.ts'
import type { SeedContext } from './seed-context.ts'
import { createUuid, DAY_MS, toIsoString } from './timeline.ts'
import { getPerson, type Person } from './users.ts'

type OrderRow = typeof orders.$inferSelect
type LinkRow = typeof orderProducts.$inferSelect
type Shares = Record<OrderRow['status'], number>

/** Status shares of orders that are less than two days old. */
const NEW: Shares = { pending: 0.4, paid: 0.4, shipped: 0.1, completed: 0, cancelled: 0.1, refunded: 0 }
/** Status shares of orders that are less than two weeks old. */
const RECENT: Shares = {
  pending: 0.1,
  paid: 0.2,
  shipped: 0.4,
  completed: 0.2,
  cancelled: 0.08,
  refunded: 0.02,
}
const OLD: Shares = {
  pending: 0.03,
  paid: 0.03,
  shipped: 0.06,
  completed: 0.76,
  cancelled: 0.08,
  refunded: 0.04,
}
/** The number of changes that lead to a status; each one increments the revision. */
const STEPS: Shares = { pending: 0, paid: 1, shipped: 2, completed: 3, cancelled: 1, refunded: 2 }

const NOTES = [
  'Please ring twice.',
  'Leave it with the neighbors if no one is at home.',
  'This is a gift: no invoice in the parcel, please.',
  'Deliver after 5 pm.',
  'The door code is 4711.',
]

/** Random rows to try for a match. */
const MAX_ATTEMPTS = 60

/** Draws a user who was active at the moment. */
function drawBuyer(context: SeedContext, moment: number, random: Random): Person {
  const count = context.timeline.countBefore(moment, context.counts.users)
  for (let i = 0; i < MAX_ATTEMPTS; i++) {
    const person = getPerson(context, Math.floor(count * random.fraction()))
    if (moment <= person.activeUntil) return person
  }
  return getPerson(context, 0)
}

/** Draws up to `wanted` different products of the buyer's currency; product 0 if there are none. */
function drawOffers(
  context: SeedContext,
  moment: number,
  currency: string,
  wanted: number,
  random: Random,
): Offer[] {
  const count = context.timeline.countBefore(moment, context.counts.products)
  const found = new Map<number, Offer>()
  for (let i = 0; i < MAX_ATTEMPTS && found.size < wanted; i++) {
    // Some products are ordered much more often than others.
    const offer = drawOffer(context, Math.floor(count * random.fraction() ** 1.5))
    if (offer.status === 'draft' || moment > offer.availableUntil || offer.currency !== currency) continue
    found.set(offer.index, offer)
  }
  return found.size > 0 ? [...found.values()] : [drawOffer(context, 0)]
}

function buildItem(context: SeedContext, offer: Offer, quantity: number): OrderItemRow {
  const { id, sku, name, price_amount } = drawGoods(context, offer)
  return {
    product_id: id,
    quantity,
    sku,
    name,
    unit_amount: price_amount,
    total_amount: price_amount * quantity,
  }
}

function getStatusShares(age: number): Shares {
  if (age < 2 * DAY_MS) return NEW
  return age < 14 * DAY_MS ? RECENT : OLD
}

/** @param number the order number, which the caller has taken from the sequence */
export function buildOrder(
  context: SeedContext,
  index: number,
  number: number,
): { order: OrderRow; links: LinkRow[] } {
  const { timeline, counts } = context
  const random = new Random(context.seed, 'order', index)
  const created = timeline.getMoment(index, counts.orders, random)
  const id = createUuid(created, random)
  const buyer = drawBuyer(context, created, random)
  const offers = drawOffers(context, created, buyer.market.currency, random.integer(1, 5), random)
  const items = offers.map((offer) =>
    buildItem(context, offer, random.chance(0.7) ? 1 : random.integer(2, 5)),
  )
  const status = random.share(getStatusShares(timeline.until - created))
  const steps = STEPS[status]
  const updated = Math.min(created + steps * random.integer(DAY_MS / 24, 2 * DAY_MS), timeline.until)
  const fields = {
    number: `ORD-${String(number).padStart(10, '0')}`,
    note: random.chance(0.15) ? random.pick(NOTES) : null,
  }
  const address = random.pick(buyer.market.places)
  const order: OrderRow = {
    id,
    created_at: toIsoString(created),
    updated_at: toIsoString(updated),
    revision: 1 + steps,
    ...fields,
    user_id: buyer.id,
    items,
    currency: offers[0]?.currency ?? buyer.market.currency,
    total_amount: items.reduce((sum, { total_amount }) => sum + total_amount, 0),
    shipping_address: random.chance(0.92)
      ? { name: buyer.name, ...address, line2: null, country: buyer.market.country }
      : null,
    status,
    search: context.getSearchText('orders', fields),
  }
  return { order, links: items.map(({ product_id }) => ({ order_id: id, product_id })) }
}
