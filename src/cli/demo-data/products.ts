/** Products: a catalogue in three currencies, of which little is a draft or archived. */
import type { products } from '../../../drizzle/tables.ts'
import type { Currency } from './pools.ts'
import { Random } from './random.ts'
import { iso, uuidAt } from './timeline.ts'
import type { World } from './world.ts'

type ProductRow = typeof products.$inferSelect

const STATUSES: Record<ProductRow['status'], number> = { active: 0.88, archived: 0.07, draft: 0.05 }
const CURRENCIES: Record<Currency, number> = { USD: 0.57, EUR: 0.28, GBP: 0.15 }

/** What decides whether a product can be ordered; drawn first, since an order looks at many. */
export interface Offer {
  index: number
  created: number
  status: ProductRow['status']
  currency: Currency
  /** Epoch milliseconds after which it cannot be had any more. */
  ends: number
  random: Random
}

export function offerOf({ seed, counts, timeline }: World, index: number): Offer {
  const random = new Random(seed, 'product', index)
  const created = timeline.momentOf(index, counts.products, random)
  // The first one can be ordered, whatever comes: no catalogue is too small for an order.
  const status = index === 0 ? 'active' : random.share(STATUSES)
  const currency = random.share(CURRENCIES)
  const ends = status === 'archived' ? random.integer(created, timeline.until) : timeline.until
  return { index, created, status, currency, ends, random }
}

/** An offer in full, as an order's item shows it. It draws from the offer's stream: once for each offer. */
export function goodsOf({ seed, pools: { goods } }: World, { index, created, random }: Offer) {
  const id = uuidAt(created, random)
  const words = [goods.adjectives, goods.materials, goods.things].map((choices) => random.pick(choices))
  const department = random.pick(goods.departments).slice(0, 3).toUpperCase()
  // Cheap things are many, dear ones few; a price ends in 99.
  const price = Math.floor(2 + 500 * random.fraction() ** 3) * 100 - 1
  return {
    id,
    sku: `${department}-${seed}-${String(index + 1).padStart(6, '0')}`,
    name: words.join(' '),
    price_amount: price,
  }
}

export function productOf(world: World, index: number): ProductRow {
  const offer = offerOf(world, index)
  const { id, ...goods } = goodsOf(world, offer)
  const { random, created, status, currency, ends } = offer
  const updated = status === 'archived' ? ends : created
  const description = random.chance(0.9) ? random.pick(world.pools.goods.texts) : null
  return {
    id,
    created_at: iso(created),
    updated_at: iso(updated),
    revision: status === 'archived' ? 2 : 1,
    ...goods,
    description,
    currency,
    // What is left of it: every order has taken its own already.
    stock: random.chance(0.06) ? 0 : Math.floor(500 * random.fraction() ** 2) + 1,
    status,
    search: world.search.products({ ...goods, description }),
  }
}
