/** The tables of orders and of their products. */
import { common, folded, integer, text, trigrams, users } from '@resource-api/database'
import { sql } from 'drizzle-orm'
import { index, jsonb, pgSequence, pgTable, primaryKey, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import { products } from './products.ts'

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
