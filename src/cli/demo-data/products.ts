/** Demo products: a catalog in three currencies, with few drafts and archived products. */
import { products } from '../../../drizzle/tables.ts'
import type { Currency } from './pools.ts'
import { Random } from './random.ts'
import { PRODUCTS_PER_USER, type SeedContext } from './seed-context.ts'
import { createSeedStep } from './seed-step.ts'
import { createUuid, toIsoString } from './timeline.ts'

type ProductRow = typeof products.$inferSelect

const STATUSES: Record<ProductRow['status'], number> = { active: 0.88, archived: 0.07, draft: 0.05 }
const CURRENCIES: Record<Currency, number> = { USD: 0.57, EUR: 0.28, GBP: 0.15 }

/** The properties that decide whether a product can be ordered; drawn first, because an order considers many products. */
export interface Offer {
  index: number
  created: number
  status: ProductRow['status']
  currency: Currency
  /** Epoch milliseconds after which it cannot be ordered. */
  availableUntil: number
  random: Random
}

export function drawOffer({ seed, counts, timeline }: SeedContext, index: number): Offer {
  const random = new Random(seed, 'product', index)
  const created = timeline.getMoment(index, counts.products, random)
  // The first product can always be ordered, so that every catalog has one for an order.
  const status = index === 0 ? 'active' : random.share(STATUSES)
  const currency = random.share(CURRENCIES)
  const availableUntil = status === 'archived' ? random.integer(created, timeline.until) : timeline.until
  return { index, created, status, currency, availableUntil, random }
}

/** Draws the fields that an order item copies. Call it once per offer: it continues the offer's stream. */
export function drawGoods({ seed, pools: { goods } }: SeedContext, { index, created, random }: Offer) {
  const id = createUuid(created, random)
  const words = [goods.adjectives, goods.materials, goods.things].map((pool) => random.pick(pool))
  const department = random.pick(goods.departments).slice(0, 3).toUpperCase()
  // Many cheap products and few expensive ones; every price ends in 99.
  const price = Math.floor(2 + 500 * random.fraction() ** 3) * 100 - 1
  return {
    id,
    sku: `${department}-${seed}-${String(index + 1).padStart(6, '0')}`,
    name: words.join(' '),
    price_amount: price,
  }
}

function buildProduct(context: SeedContext, index: number): ProductRow {
  const offer = drawOffer(context, index)
  const { id, ...goods } = drawGoods(context, offer)
  const { random, created, status, currency, availableUntil } = offer
  const updated = status === 'archived' ? availableUntil : created
  const description = random.chance(0.9) ? random.pick(context.pools.goods.texts) : null
  return {
    id,
    created_at: toIsoString(created),
    updated_at: toIsoString(updated),
    revision: status === 'archived' ? 2 : 1,
    ...goods,
    description,
    currency,
    // The remaining stock, after all orders.
    stock: random.chance(0.06) ? 0 : Math.floor(500 * random.fraction() ** 2) + 1,
    status,
    search: context.getSearchText('products', { ...goods, description }),
  }
}

export const productsStep = createSeedStep({
  resource: 'products',
  label: 'products',
  table: products,
  stage: 1,
  indicesPerUser: PRODUCTS_PER_USER,
  build: (context, index) => [buildProduct(context, index)],
})
