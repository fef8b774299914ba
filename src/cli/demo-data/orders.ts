/** Orders: of users and products that were there at the time, in the user's currency, the older the further along. */
import type { OrderItemRow, orderProducts, orders } from '../../../drizzle/tables.ts'
import { goodsOf, type Offer, offerOf } from './products.ts'
import { Random } from './random.ts'
import { DAY, iso, uuidAt } from './timeline.ts'
import { type Person, personOf } from './users.ts'
import type { World } from './world.ts'

type OrderRow = typeof orders.$inferSelect
type LinkRow = typeof orderProducts.$inferSelect
type Shares = Record<OrderRow['status'], number>

const NEW: Shares = { pending: 0.4, paid: 0.4, shipped: 0.1, completed: 0, cancelled: 0.1, refunded: 0 }
const FRESH: Shares = {
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
/** Changes that lead to a state, each of which counts in the revision. */
const STEPS: Shares = { pending: 0, paid: 1, shipped: 2, completed: 3, cancelled: 1, refunded: 2 }

const NOTES = [
  'Please ring twice.',
  'Leave it with the neighbours if nobody is at home.',
  'This is a gift: no invoice in the parcel, please.',
  'Deliver after 5 pm.',
  'The door code is 4711.',
]

/** Looks for what a buyer would look at before giving up. */
const GLANCES = 60

/** A user and a product who were there: not gone, not yet archived. */
function buyerAt(world: World, moment: number, random: Random): Person {
  const count = world.timeline.countBefore(moment, world.counts.users)
  for (let i = 0; i < GLANCES; i++) {
    const person = personOf(world, Math.floor(count * random.fraction()))
    if (moment <= person.left) return person
  }
  return personOf(world, 0)
}

/** Up to `wanted` different products of one currency: the buyer's, where there are any. */
function basketAt(world: World, moment: number, currency: string, wanted: number, random: Random): Offer[] {
  const count = world.timeline.countBefore(moment, world.counts.products)
  const found = new Map<number, Offer>()
  for (let i = 0; i < GLANCES && found.size < wanted; i++) {
    // Some things are bought much more often than others.
    const offer = offerOf(world, Math.floor(count * random.fraction() ** 1.5))
    if (offer.status === 'draft' || moment > offer.ends || offer.currency !== currency) continue
    found.set(offer.index, offer)
  }
  return found.size > 0 ? [...found.values()] : [offerOf(world, 0)]
}

function itemOf(world: World, offer: Offer, quantity: number): OrderItemRow {
  const { id, sku, name, price_amount } = goodsOf(world, offer)
  return {
    product_id: id,
    quantity,
    sku,
    name,
    unit_amount: price_amount,
    total_amount: price_amount * quantity,
  }
}

function sharesAt(age: number): Shares {
  if (age < 2 * DAY) return NEW
  return age < 14 * DAY ? FRESH : OLD
}

/** @param number of the order: the caller has taken it from the database's own */
export function orderOf(world: World, index: number, number: number): { order: OrderRow; links: LinkRow[] } {
  const { timeline, counts } = world
  const random = new Random(world.seed, 'order', index)
  const created = timeline.momentOf(index, counts.orders, random)
  const id = uuidAt(created, random)
  const buyer = buyerAt(world, created, random)
  const offers = basketAt(world, created, buyer.market.currency, random.integer(1, 5), random)
  const items = offers.map((offer) => itemOf(world, offer, random.chance(0.7) ? 1 : random.integer(2, 5)))
  const status = random.share(sharesAt(timeline.until - created))
  const steps = STEPS[status]
  const updated = Math.min(created + steps * random.integer(DAY / 24, 2 * DAY), timeline.until)
  const members = {
    number: `ORD-${String(number).padStart(10, '0')}`,
    note: random.chance(0.15) ? random.pick(NOTES) : null,
  }
  const place = random.pick(buyer.market.places)
  const order: OrderRow = {
    id,
    created_at: iso(created),
    updated_at: iso(updated),
    revision: 1 + steps,
    ...members,
    user_id: buyer.id,
    items,
    currency: offers[0]?.currency ?? buyer.market.currency,
    total_amount: items.reduce((sum, { total_amount }) => sum + total_amount, 0),
    shipping_address: random.chance(0.92)
      ? { name: buyer.name, ...place, line2: null, country: buyer.market.country }
      : null,
    status,
    search: world.search.orders(members),
  }
  return { order, links: items.map(({ product_id }) => ({ order_id: id, product_id })) }
}
