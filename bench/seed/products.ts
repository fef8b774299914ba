/** The rows of products. */
import { products } from '../../drizzle/tables/products.ts'
import { products as resource } from '../../plugins/products.ts'
import { Random } from './random.ts'
import { buildBase, getMoment, type RowOf, type SeedContext, type SeedStep } from './step.ts'

const DEPARTMENTS = [
  'Books',
  'Games',
  'Garden',
  'Kitchen',
  'Music',
  'Office',
  'Outdoor',
  'Sports',
  'Tools',
  'Toys',
  'Baby',
]
const ADJECTIVES = [
  'Compact',
  'Elegant',
  'Foldable',
  'Handmade',
  'Heavy',
  'Large',
  'Light',
  'Modern',
  'Quiet',
  'Rustic',
  'Small',
]
const MATERIALS = [
  'Aluminum',
  'Bamboo',
  'Bronze',
  'Ceramic',
  'Concrete',
  'Cork',
  'Cotton',
  'Felt',
  'Glass',
  'Gold',
  'Linen',
]
const THINGS = [
  'Backpack',
  'Basket',
  'Bench',
  'Bottle',
  'Bowl',
  'Chair',
  'Clock',
  'Desk',
  'Hat',
  'Lamp',
  'Mirror',
  'Mug',
  'Pan',
  'Shelf',
]
const TEXTS = [
  'Made to last: tested for ten thousand hours.',
  'The new edition, with a longer warranty and a smaller package.',
  'Fits in every bag. Comes in three colors.',
  'Repairable: every part can be ordered for ten years.',
]

export const PRODUCTS_PER_USER = 2

const PRODUCT_STATUSES = {
  active: 0.88,
  archived: 0.07,
  draft: 0.05,
}
const CURRENCIES = { USD: 0.57, EUR: 0.28, GBP: 0.15 }

/** Returns a product, and the moment in epoch milliseconds after which it cannot be ordered. */
export function getProduct(context: SeedContext, index: number) {
  const random = new Random(context.seed, 'product', index)
  const created = getMoment(context, index, context.users * PRODUCTS_PER_USER, random)
  // The first product can always be ordered, so that every catalog has one for an order.
  const status = index === 0 ? 'active' : random.share(PRODUCT_STATUSES)
  const isArchived = status === 'archived'
  const updated = isArchived ? random.integer(created, context.until) : created
  const department = random.pick(DEPARTMENTS).slice(0, 3).toUpperCase()
  const product: RowOf<typeof products> = {
    ...buildBase(random, created, updated, isArchived ? 1 : 0),
    sku: `${department}-${context.seed}-${String(index + 1).padStart(6, '0')}`,
    name: `${random.pick(ADJECTIVES)} ${random.pick(MATERIALS)} ${random.pick(THINGS)}`,
    description: random.chance(0.9) ? random.pick(TEXTS) : null,
    // Many cheap products and few expensive ones; every price ends in 99.
    price_amount: Math.floor(2 + 500 * random.fraction() ** 3) * 100 - 1,
    currency: random.share(CURRENCIES),
    // The remaining stock, after all orders.
    stock: random.chance(0.06) ? 0 : Math.floor(500 * random.fraction() ** 2) + 1,
    status,
  }
  return { product, availableUntil: isArchived ? updated : context.until }
}

export const productRows: SeedStep = {
  resource,
  tables: { products },
  indicesPerUser: PRODUCTS_PER_USER,
  build: (context, index) => ({ products: [getProduct(context, index).product] }),
}
