/** The tables. A column has the name of its member in the API; a column that is in no schema is never sent. */
import { type SQL, sql } from 'drizzle-orm'
import {
  boolean,
  check,
  index,
  jsonb,
  pgSequence,
  pgTable,
  primaryKey,
  smallint,
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

export const userProfiles = pgTable(
  'user_profiles',
  {
    ...common(),
    user_id: uuid()
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
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
    user_id: uuid()
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
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

/** API keys. Only the SHA-256 hash of a key is stored. */
export const apiKeys = pgTable(
  'api_keys',
  {
    ...common(),
    user_id: uuid()
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    name: text().notNull(),
    prefix: text().notNull(),
    key_hash: text().notNull(),
    scopes: jsonb().$type<string[]>().notNull(),
    expires_at: moment().notNull(),
    rate_limit: integer(),
    last_used_at: moment(),
  },
  (t) => [
    uniqueIndex('api_keys_key_hash_unique').on(t.key_hash),
    index('api_keys_created_at').on(t.created_at, t.id),
    index('api_keys_user_id').on(t.user_id, t.created_at, t.id),
  ],
)

/**
 * Sign-in sessions. A session that has ended is deleted. Of the refresh tokens, only the SHA-256 hash of the current
 * one is stored.
 */
export const sessions = pgTable(
  'sessions',
  {
    ...common(),
    user_id: uuid()
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    /** How often the refresh token was rotated. Each token contains its number. */
    generation: integer().notNull().default(0),
    refresh_hash: text().notNull(),
    /** The times of the latest rotations, newest first, of tokens that may still be used again. */
    rotations: moment().array().notNull().default([]),
    last_used_at: moment().notNull().defaultNow(),
    /** When the session ends if it is not used before; never later than `ends_at`. */
    expires_at: moment().notNull(),
    /** When the session ends even if it is used. */
    ends_at: moment().notNull(),
    ip: text(),
    user_agent: text(),
  },
  (t) => [
    index('sessions_created_at').on(t.created_at, t.id),
    index('sessions_user_id').on(t.user_id, t.created_at, t.id),
    index('sessions_expires_at').on(t.expires_at),
  ],
)

/** Links between users and the subjects of identity providers (`iss` and `sub` of a token). */
export const userIdentities = pgTable(
  'user_identities',
  {
    user_id: uuid()
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    issuer: text().notNull(),
    subject: text().notNull(),
    created_at: moment().notNull().defaultNow(),
  },
  (t) => [
    primaryKey({ columns: [t.user_id, t.issuer] }),
    uniqueIndex('user_identities_subject_unique').on(t.issuer, t.subject),
  ],
)

/**
 * IP addresses from which a user signed in, each as a keyed hash of email address and IP address
 * (`plugins/auth/sign-in-addresses.ts`). The hash is the primary key,
 * so that a lookup costs the same whether the account exists or not.
 */
export const signInAddresses = pgTable(
  'sign_in_addresses',
  {
    address_hash: text().primaryKey(),
    user_id: uuid()
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    signed_in_at: moment().notNull().defaultNow(),
  },
  (t) => [
    index('sign_in_addresses_user_id').on(t.user_id, t.signed_in_at),
    index('sign_in_addresses_signed_in_at').on(t.signed_in_at),
  ],
)

/**
 * Replies to writes that changed nothing, stored once for all idempotency keys with the same reply. Without this
 * table, a short request could store the whole resource each time.
 */
export const idempotencyReplies = pgTable(
  'idempotency_replies',
  {
    user_id: uuid()
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    /** The hash of the body. */
    id: text().notNull(),
    /** Without the time in `meta.timestamp`, which each idempotency key stores for itself. */
    body: text().notNull(),
    last_used_at: moment().notNull().defaultNow(),
  },
  (t) => [
    primaryKey({ columns: [t.user_id, t.id] }),
    index('idempotency_replies_last_used_at').on(t.last_used_at),
  ],
)

/**
 * Replies by idempotency key, for repeated requests (`plugins/idempotency/index.ts`). Of the key and of the request
 * body, only the hashes are stored.
 */
export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    user_id: uuid()
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    /** The hash of user, method, path and idempotency key. */
    id: text().notNull(),
    body_hash: text().notNull(),
    status: smallint().notNull(),
    location: text(),
    etag: text().notNull(),
    /** Null if the body is in `idempotency_replies`. */
    body: text(),
    reply_id: text(),
    reply_timestamp: text(),
    created_at: moment().notNull().defaultNow(),
  },
  // The user first: the rows that are deleted with a user are found without a further index.
  (t) => [primaryKey({ columns: [t.user_id, t.id] }), index('idempotency_keys_created_at').on(t.created_at)],
)
