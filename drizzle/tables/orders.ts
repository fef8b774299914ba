/** The tables of orders and of their products. */
import { common, folded, integer, text, trigrams, users } from '@resource-api/database'
import type { Static } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { index, jsonb, pgSequence, pgTable, primaryKey, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import type { Order } from '../../schemas/orders.ts'
import { products } from './products.ts'

export const orderNumbers = pgSequence('order_numbers')

type Fields = Static<typeof Order>

export const orders = pgTable(
  'orders',
  {
    ...common(),
    // As PostgreSQL writes the expression, so that `drizzle-kit push` sees no difference.
    number: text()
      .notNull()
      .default(sql`('ORD-'::text || lpad((nextval('order_numbers'::regclass))::text, 10, '0'::text))`),
    user_id: uuid()
      .notNull()
      .references(() => users.id),
    items: jsonb().$type<Fields['items']>().notNull(),
    currency: text().notNull(),
    total_amount: integer().notNull(),
    shipping_address: jsonb().$type<Fields['shipping_address']>(),
    note: text(),
    status: text().$type<Fields['status']>().notNull().default('pending'),
    search: folded(),
  },
  (t) => [
    uniqueIndex('orders_number_unique').on(t.number),
    index('orders_created_at').on(t.created_at, t.id),
    index('orders_updated_at').on(t.updated_at, t.id),
    index('orders_total_amount').on(t.total_amount, t.id),
    index('orders_status').on(t.status, t.created_at, t.id),
    index('orders_user_id').on(t.user_id, t.created_at, t.id),
    trigrams('orders_search', t.search),
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
