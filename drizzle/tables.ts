/** The tables of the resources. A column has the name of its field in the API; a column that is in no schema is never sent. */
import { type SQL, sql } from 'drizzle-orm'
import {
  boolean,
  check,
  index,
  jsonb,
  pgSequence,
  pgTable,
  primaryKey,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core'
import { common, folded, integer, moment, text } from './columns.ts'

// Every sort of a list has an index with `id` as the last column in the same direction, unless the column is unique.
// PostgreSQL scans it in either direction, and a page costs the same at any depth. The columns that change with every
// order of a product (stock, updated_at, revision) are in no index, so that those updates are heap-only (HOT).

const trigrams = (name: string, column: SQL) => index(name).using('gin', sql`${column} gin_trgm_ops`)

export const users = pgTable(
  'users',
  {
    ...common(),
    name: text().notNull(),
    email: text().notNull(),
    /**
     * Whether the email address was set by an admin, the command line or the bootstrap. Only then may the first token
     * of an identity provider link the account by that address: an address that a user has set is not verified. Not
     * in the API.
     */
    email_is_confirmed: boolean().notNull().default(false),
    password_hash: text(),
    role: text().$type<'member' | 'manager' | 'admin'>().notNull().default('member'),
    status: text().$type<'active' | 'inactive' | 'suspended'>().notNull().default('active'),
    search: folded(),
  },
  (t) => [
    uniqueIndex('users_email_unique').on(t.email),
    index('users_created_at').on(t.created_at, t.id),
    index('users_updated_at').on(t.updated_at, t.id),
    index('users_name').on(t.name, t.id),
    index('users_status').on(t.status, t.created_at, t.id),
    index('users_role').on(t.role, t.created_at, t.id),
    trigrams('users_search', sql`${t.search}`),
  ],
)

/** The user whose row it is. It is deleted with the user. */
export const userId = () =>
  uuid()
    .notNull()
    .references(() => users.id, { onDelete: 'cascade' })

export const userProfiles = pgTable(
  'user_profiles',
  {
    ...common(),
    user_id: userId(),
    display_name: text(),
    bio: text(),
    avatar_url: text(),
    website_url: text(),
    location: text(),
    time_zone: text(),
    locale: text(),
    search: folded(),
  },
  (t) => [
    uniqueIndex('user_profiles_user_id_unique').on(t.user_id),
    index('user_profiles_created_at').on(t.created_at, t.id),
    index('user_profiles_updated_at').on(t.updated_at, t.id),
    index('user_profiles_display_name_asc').on(sql`(coalesce('0' || ${t.display_name}, '1'))`, t.id),
    index('user_profiles_display_name_desc').on(sql`(coalesce(${t.display_name}, ''))`, t.id),
    trigrams('user_profiles_search', sql`${t.search}`),
  ],
)

export const posts = pgTable(
  'posts',
  {
    ...common(),
    user_id: userId(),
    title: text().notNull(),
    body: text().notNull(),
    status: text().$type<'draft' | 'published' | 'archived'>().notNull().default('draft'),
    published_at: moment(),
    search: folded(),
  },
  (t) => [
    index('posts_created_at').on(t.user_id, t.created_at, t.id),
    index('posts_updated_at').on(t.user_id, t.updated_at, t.id),
    index('posts_title').on(t.user_id, t.title, t.id),
    index('posts_published_at_asc').on(
      t.user_id,
      sql`(coalesce(${t.published_at}, 'infinity'::timestamptz))`,
      t.id,
    ),
    index('posts_published_at_desc').on(
      t.user_id,
      sql`(coalesce(${t.published_at}, '-infinity'::timestamptz))`,
      t.id,
    ),
    index('posts_status').on(t.user_id, t.status, t.created_at, t.id),
    // No trigram index on `search`: posts are searched within one user, whose rows the indexes above find. With a
    // body of 100,000 characters, each update of the row, of whatever column, would write up to 14 MB of index
    // entries.
  ],
)

export const products = pgTable(
  'products',
  {
    ...common(),
    sku: text().notNull(),
    name: text().notNull(),
    description: text(),
    price_amount: integer().notNull(),
    currency: text().notNull().default('USD'),
    stock: integer().notNull().default(0),
    status: text().$type<'draft' | 'active' | 'archived'>().notNull().default('draft'),
    search: folded(),
  },
  (t) => [
    uniqueIndex('products_sku_unique').on(t.sku),
    index('products_created_at').on(t.created_at, t.id),
    index('products_name').on(t.name, t.id),
    index('products_price_amount').on(t.price_amount, t.id),
    index('products_status').on(t.status, t.created_at, t.id),
    index('products_currency').on(t.currency, t.created_at, t.id),
    trigrams('products_search', sql`${t.search}`),
    // Holds even if an order's own check of the stock fails.
    check('products_stock_not_negative', sql`${t.stock} >= 0`),
  ],
)

export const orderNumbers = pgSequence('order_numbers')

/** An item of an order, with the product's data at the time of the order. */
export interface OrderItemRow {
  product_id: string
  quantity: number
  sku: string
  name: string
  unit_amount: number
  total_amount: number
}

interface AddressRow {
  name: string
  line1: string
  line2: string | null
  city: string
  region: string | null
  postal_code: string
  country: string
}

export const orders = pgTable(
  'orders',
  {
    ...common(),
    number: text().notNull().default(sql`'ORD-' || lpad(nextval('order_numbers')::text, 10, '0')`),
    user_id: uuid()
      .notNull()
      .references(() => users.id),
    items: jsonb().$type<OrderItemRow[]>().notNull(),
    currency: text().notNull(),
    total_amount: integer().notNull(),
    shipping_address: jsonb().$type<AddressRow>(),
    note: text(),
    status: text()
      .$type<'pending' | 'paid' | 'shipped' | 'completed' | 'cancelled' | 'refunded'>()
      .notNull()
      .default('pending'),
    search: folded(),
  },
  (t) => [
    uniqueIndex('orders_number_unique').on(t.number),
    index('orders_created_at').on(t.created_at, t.id),
    index('orders_updated_at').on(t.updated_at, t.id),
    index('orders_total_amount').on(t.total_amount, t.id),
    index('orders_status').on(t.status, t.created_at, t.id),
    index('orders_user_id').on(t.user_id, t.created_at, t.id),
    trigrams('orders_search', sql`${t.search}`),
  ],
)

/**
 * The products of each order. Its foreign key keeps an ordered product from being deleted. Quantities and prices are in
 * `orders.items` only.
 */
export const orderProducts = pgTable(
  'order_products',
  {
    order_id: uuid()
      .notNull()
      .references(() => orders.id, { onDelete: 'cascade' }),
    product_id: uuid()
      .notNull()
      .references(() => products.id),
  },
  (t) => [
    primaryKey({ columns: [t.order_id, t.product_id] }),
    index('order_products_product_id').on(t.product_id),
  ],
)
