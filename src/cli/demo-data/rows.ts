/** The demo rows of each resource, computed from the seed and the index of the row. */
import type { PgTable } from 'drizzle-orm/pg-core'
import { type OrderItemRow, orderProducts, orders } from '../../../drizzle/tables/orders.ts'
import { posts } from '../../../drizzle/tables/posts.ts'
import { products } from '../../../drizzle/tables/products.ts'
import { userProfiles, users } from '../../../drizzle/user-tables.ts'
import { Random } from './random.ts'
import { goods, type Market, markets, prose } from './words.ts'

const DAY_MS = 86_400_000
/** Rows are spread evenly over two years: the higher a row's index, the later its creation. */
const SPAN_MS = 730 * DAY_MS
const PRODUCTS_PER_USER = 2
export const ORDERS_PER_USER = 5

export interface SeedContext {
  /** The same seed creates the same data. */
  seed: number
  /** The number of users, from which all other numbers follow. */
  users: number
  /** The end of the two years over which the data is spread, in epoch milliseconds. */
  until: number
  firstOrderNumber: number
}

/** One kind of demo rows. A step whose resource is not registered in src/app.ts is skipped. */
export interface SeedStep {
  resource: string
  /** The tables, by the label of their rows in the summary. */
  tables: Readonly<Record<string, PgTable>>
  indicesPerUser: number
  /**
   * Returns the rows of an index, by label, with a value for every column, since defaults are not applied. Only `search`
   * is filled in afterwards.
   */
  build(context: SeedContext, index: number): Readonly<Record<string, readonly object[]>>
}

type RowOf<T extends PgTable> = Omit<T['$inferSelect'], 'search'>

/** Returns the creation time of a row: a moment in one of `count` equal slots; row 0 gets the start of its slot. */
function getMoment({ until }: SeedContext, index: number, count: number, random: Random): number {
  const offset = random.fraction()
  return until - SPAN_MS + Math.floor(((index + (index === 0 ? 0 : offset)) / count) * SPAN_MS)
}

/** Returns how many of `count` rows have been created by a moment; at least 1. */
const countBefore = ({ until }: SeedContext, moment: number, count: number): number =>
  Math.max(1, Math.floor(((moment - until + SPAN_MS) / SPAN_MS) * count))

const toIsoString = (moment: number): string => new Date(moment).toISOString()

/** Returns the columns that every resource has, of a row that was changed `changes` times, at last at `updated`. */
const buildBase = (random: Random, created: number, updated = created, changes = 0) => ({
  id: random.uuid(created),
  created_at: toIsoString(created),
  updated_at: toIsoString(updated),
  revision: 1 + changes,
})

const COUNTRIES = { US: 0.57, GB: 0.15, DE: 0.16, FR: 0.12 }
// No admins: only the operator creates those.
const ROLES = { member: 0.975, manager: 0.025 }
const USER_STATUSES = { active: 0.93, inactive: 0.05, suspended: 0.02 }

const slug = (name: string) =>
  name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z]/g, '')

/** Returns a user, and what other rows depend on; the user creates nothing after `activeUntil`. */
export function getPerson(context: SeedContext, index: number) {
  const random = new Random(context.seed, 'user', index)
  const created = getMoment(context, index, context.users, random)
  const status = random.share(USER_STATUSES)
  const isChanged = status !== 'active' || random.chance(0.3)
  const updated = isChanged ? random.integer(created, context.until) : created
  const market: Market = markets[random.share(COUNTRIES)]
  const [firstName, lastName] = [random.pick(market.firstNames), random.pick(market.lastNames)]
  const user: RowOf<typeof users> = {
    ...buildBase(random, created, updated, isChanged ? 1 : 0),
    name: `${firstName} ${lastName}`,
    // Unique: the number is the user's, the domain is the seed's.
    email: `${slug(firstName)}.${slug(lastName)}${index + 1}@s${context.seed}.example.com`,
    email_is_confirmed: false,
    // Sign-in is impossible until a password is set.
    password_hash: null,
    role: random.share(ROLES),
    status,
  }
  return { user, firstName, market, created, activeUntil: status === 'active' ? context.until : updated }
}

function buildProfile(context: SeedContext, index: number): RowOf<typeof userProfiles> {
  const { user, firstName, market, created: joined, activeUntil } = getPerson(context, index)
  const random = new Random(context.seed, 'profile', index)
  const bio = `${random.pick(prose.occupations)}, ${random.pick(prose.traits)}`
  return {
    ...buildBase(random, random.integer(joined, Math.min(joined + DAY_MS, activeUntil))),
    user_id: user.id,
    display_name: random.chance(0.9) ? firstName : null,
    bio: random.chance(0.7) ? bio : null,
    avatar_url: random.chance(0.5) ? `https://example.com/avatars/${user.id}.png` : null,
    website_url: random.chance(0.3) ? `https://${slug(user.name)}.example.com` : null,
    location: random.chance(0.8) ? random.pick(market.cities).city : null,
    time_zone: random.chance(0.8) ? market.zone : null,
    locale: random.chance(0.9) ? market.locale : null,
  }
}

const POST_STATUSES = { published: 0.75, draft: 0.15, archived: 0.1 }

/** Returns one to three texts, joined. */
const repeat = (random: Random, separator: string, draw: () => string) =>
  Array.from({ length: random.integer(1, 3) }, draw).join(separator)

function buildPost(context: SeedContext, index: number): RowOf<typeof posts> {
  const random = new Random(context.seed, 'post', index)
  const created = getMoment(context, index, context.users, random)
  const authors = countBefore(context, created, context.users)
  // A few authors write most of the posts.
  const author = getPerson(context, Math.floor(authors * random.fraction() ** 2))
  const status = random.share(POST_STATUSES)
  const isArchived = status === 'archived'
  const isPublished = status === 'published' || (isArchived && random.chance(0.8))
  const published = isPublished ? random.integer(created, Math.min(created + DAY_MS, context.until)) : created
  const updated = isArchived ? random.integer(published, context.until) : published
  const drawSentence = () => `${random.pick(prose.subjects)} ${random.pick(prose.predicates)}.`
  return {
    ...buildBase(random, created, updated, Number(isPublished) + Number(isArchived)),
    user_id: author.user.id,
    title: `${random.pick(prose.topics)} ${random.pick(prose.themes)}`,
    body: repeat(random, '\n\n', () => repeat(random, ' ', drawSentence)),
    status,
    published_at: isPublished ? toIsoString(published) : null,
  }
}

const PRODUCT_STATUSES = {
  active: 0.88,
  archived: 0.07,
  draft: 0.05,
}
const CURRENCIES = { USD: 0.57, EUR: 0.28, GBP: 0.15 }

/** Returns a product, and the moment in epoch milliseconds after which it cannot be ordered. */
function getProduct(context: SeedContext, index: number) {
  const random = new Random(context.seed, 'product', index)
  const created = getMoment(context, index, context.users * PRODUCTS_PER_USER, random)
  // The first product can always be ordered, so that every catalog has one for an order.
  const status = index === 0 ? 'active' : random.share(PRODUCT_STATUSES)
  const isArchived = status === 'archived'
  const updated = isArchived ? random.integer(created, context.until) : created
  const department = random.pick(goods.departments).slice(0, 3).toUpperCase()
  const product: RowOf<typeof products> = {
    ...buildBase(random, created, updated, isArchived ? 1 : 0),
    sku: `${department}-${context.seed}-${String(index + 1).padStart(6, '0')}`,
    name: `${random.pick(goods.adjectives)} ${random.pick(goods.materials)} ${random.pick(goods.things)}`,
    description: random.chance(0.9) ? random.pick(goods.texts) : null,
    // Many cheap products and few expensive ones; every price ends in 99.
    price_amount: Math.floor(2 + 500 * random.fraction() ** 3) * 100 - 1,
    currency: random.share(CURRENCIES),
    // The remaining stock, after all orders.
    stock: random.chance(0.06) ? 0 : Math.floor(500 * random.fraction() ** 2) + 1,
    status,
  }
  return { product, availableUntil: isArchived ? updated : context.until }
}

/** Status shares of orders that are less than two weeks old, and of older ones. */
const RECENT = { pending: 0.2, paid: 0.2, shipped: 0.4, completed: 0.1, cancelled: 0.08, refunded: 0.02 }
const OLD = { pending: 0.03, paid: 0.03, shipped: 0.06, completed: 0.76, cancelled: 0.08, refunded: 0.04 }
/** The number of changes that lead to a status. */
const CHANGES = { pending: 0, paid: 1, shipped: 2, completed: 3, cancelled: 1, refunded: 2 }

/** Random rows to try for a match. */
const MAX_ATTEMPTS = 60

/** Draws a user who was active at the moment. */
function drawBuyer(context: SeedContext, moment: number, random: Random) {
  const count = countBefore(context, moment, context.users)
  for (let i = 0; i < MAX_ATTEMPTS; i++) {
    const person = getPerson(context, Math.floor(count * random.fraction()))
    if (moment <= person.activeUntil) return person
  }
  return getPerson(context, 0)
}

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

function buildOrder(context: SeedContext, index: number): RowOf<typeof orders> {
  const random = new Random(context.seed, 'order', index)
  const created = getMoment(context, index, context.users * ORDERS_PER_USER, random)
  const buyer = drawBuyer(context, created, random)
  const ordered = drawProducts(context, created, buyer.market.currency, random)
  const items = ordered.map(({ id: product_id, sku, name, price_amount }): OrderItemRow => {
    const quantity = random.chance(0.7) ? 1 : random.integer(2, 5)
    const total_amount = price_amount * quantity
    return { product_id, quantity, sku, name, unit_amount: price_amount, total_amount }
  })
  const status = random.share(context.until - created < 14 * DAY_MS ? RECENT : OLD)
  const changes = CHANGES[status]
  const updated = Math.min(created + changes * random.integer(DAY_MS / 24, 2 * DAY_MS), context.until)
  return {
    ...buildBase(random, created, updated, changes),
    number: `ORD-${String(context.firstOrderNumber + index).padStart(10, '0')}`,
    note: random.chance(0.15) ? random.pick(prose.notes) : null,
    user_id: buyer.user.id,
    items,
    currency: ordered[0]?.currency ?? buyer.market.currency,
    total_amount: items.reduce((sum, { total_amount }) => sum + total_amount, 0),
    shipping_address: random.chance(0.92) ? drawAddress(buyer, random) : null,
    status,
  }
}

/** The share of users who have a profile. */
const PROFILE_SHARE = 0.7
const hasProfile = (index: number): boolean =>
  Math.ceil((index + 1) * PROFILE_SHARE) > Math.ceil(index * PROFILE_SHARE)

const usersStep: SeedStep = {
  resource: 'users',
  tables: { users },
  indicesPerUser: 1,
  build: (context, index) => ({ users: [getPerson(context, index).user] }),
}
const profilesStep: SeedStep = {
  resource: 'user-profiles',
  tables: { profiles: userProfiles },
  indicesPerUser: 1,
  build: (context, index) => ({ profiles: hasProfile(index) ? [buildProfile(context, index)] : [] }),
}
const postsStep: SeedStep = {
  resource: 'posts',
  tables: { posts },
  indicesPerUser: 1,
  build: (context, index) => ({ posts: [buildPost(context, index)] }),
}
const productsStep: SeedStep = {
  resource: 'products',
  tables: { products },
  indicesPerUser: PRODUCTS_PER_USER,
  build: (context, index) => ({ products: [getProduct(context, index).product] }),
}
const ordersStep: SeedStep = {
  resource: 'orders',
  tables: { orders, items: orderProducts },
  indicesPerUser: ORDERS_PER_USER,
  build(context, index) {
    const order = buildOrder(context, index)
    return {
      orders: [order],
      items: order.items.map(({ product_id }) => ({ order_id: order.id, product_id })),
    }
  },
}

/** The steps in stages: rows refer only to rows of earlier stages. */
export const stages = [[usersStep], [profilesStep, postsStep, productsStep], [ordersStep]]
