/** The table of products. */
import { common, folded, foldedLine, integer, text, trigrams } from '@resource-api/database'
import { sql } from 'drizzle-orm'
import { check, index, pgTable, uniqueIndex } from 'drizzle-orm/pg-core'

// The columns that change with every order of a product (stock, updated_at, revision) are in no index, so that those
// updates are heap-only (HOT).
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
    index('products_sku_prefix').on(foldedLine(t.search, 1)),
    index('products_name_prefix').on(foldedLine(t.search, 2)),
    trigrams('products_search', t.search),
    // Holds even if an order's own check of the stock fails.
    check('products_stock_not_negative', sql`${t.stock} >= 0`),
  ],
)
