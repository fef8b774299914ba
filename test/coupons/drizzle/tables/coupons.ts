/** The table of the coupons of `docs/adding-a-resource.md`. */
import { sql } from 'drizzle-orm'
import { date, index, pgTable, uniqueIndex } from 'drizzle-orm/pg-core'
import { common, folded, integer, text, trigrams } from '../../../../drizzle/columns.ts'

export const coupons = pgTable(
  'coupons',
  {
    ...common(),
    code: text().notNull(),
    description: text(),
    kind: text().$type<'percent' | 'amount'>().notNull(),
    value: integer().notNull(),
    currency: text(),
    starts_on: date(),
    ends_on: date(),
    max_redemptions: integer(),
    status: text().$type<'draft' | 'active' | 'paused' | 'archived'>().notNull().default('draft'),
    search: folded(),
  },
  (t) => [
    uniqueIndex('coupons_code_unique').on(t.code),
    index('coupons_created_at').on(t.created_at, t.id),
    index('coupons_updated_at').on(t.updated_at, t.id),
    index('coupons_code').on(t.code, t.id),
    index('coupons_ends_on_asc').on(sql`(coalesce(${t.ends_on}, 'infinity'::date))`, t.id),
    index('coupons_ends_on_desc').on(sql`(coalesce(${t.ends_on}, '-infinity'::date))`, t.id),
    index('coupons_status').on(t.status, t.created_at, t.id),
    trigrams('coupons_search', sql`${t.search}`),
  ],
)
