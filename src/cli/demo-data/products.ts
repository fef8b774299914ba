/** Demo products: a catalog in three currencies, with few drafts and archived products. */
import { products } from '../../../drizzle/tables.ts'
import { Random } from './random.ts'
import { getMoment, PRODUCTS_PER_USER, type SeedContext, type SeedStep, toIsoString } from './seed-context.ts'
import { type Currency, goods } from './words.ts'

type ProductRow = typeof products.$inferSelect

const STATUSES: Record<ProductRow['status'], number> = { active: 0.88, archived: 0.07, draft: 0.05 }
const CURRENCIES: Record<Currency, number> = { USD: 0.57, EUR: 0.28, GBP: 0.15 }

/** A product without the fields that orders do not need. */
export function getProduct(context: SeedContext, index: number) {
  const random = new Random(context.seed, 'product', index)
  const created = getMoment(context, index, context.users * PRODUCTS_PER_USER, random)
  // The first product can always be ordered, so that every catalog has one for an order.
  const status = index === 0 ? 'active' : random.share(STATUSES)
  const updated = status === 'archived' ? random.integer(created, context.until) : created
  const department = random.pick(goods.departments).slice(0, 3).toUpperCase()
  const product = {
    id: random.uuid(created),
    created_at: toIsoString(created),
    updated_at: toIsoString(updated),
    revision: status === 'archived' ? 2 : 1,
    sku: `${department}-${context.seed}-${String(index + 1).padStart(6, '0')}`,
    name: `${random.pick(goods.adjectives)} ${random.pick(goods.materials)} ${random.pick(goods.things)}`,
    // Many cheap products and few expensive ones; every price ends in 99.
    price_amount: Math.floor(2 + 500 * random.fraction() ** 3) * 100 - 1,
    currency: random.share(CURRENCIES),
    status,
  } as const
  /** Epoch milliseconds after which it cannot be ordered. */
  const availableUntil = status === 'archived' ? updated : context.until
  return { product, availableUntil, random }
}

function buildProduct(context: SeedContext, index: number): ProductRow {
  const { product, random } = getProduct(context, index)
  const description = random.chance(0.9) ? random.pick(goods.texts) : null
  return {
    ...product,
    description,
    // The remaining stock, after all orders.
    stock: random.chance(0.06) ? 0 : Math.floor(500 * random.fraction() ** 2) + 1,
    search: context.getSearchText('products', { ...product, description }),
  }
}

export const productsStep: SeedStep = {
  resource: 'products',
  tables: { products },
  stage: 1,
  indicesPerUser: PRODUCTS_PER_USER,
  build: (context, index) => ({ products: [buildProduct(context, index)] }),
}
