/** A view of what customers have ordered, and its collection. */
import { Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { getViewConfig, PgDialect, pgView, uuid } from 'drizzle-orm/pg-core'
import { CALLER } from '../../api/src/rules/rules.ts'
import {
  Amount,
  common,
  Id,
  Integer,
  Line,
  MAX_INTEGER,
  OneOf,
  Timestamp,
} from '../../api/src/schemas/types.ts'
import type { Database } from '../../database/src/client/index.ts'
import { folded, integer, moment, text } from '../../database/src/columns.ts'
import { users } from '../../database/src/user-tables.ts'
import { collection } from '../../resources/src/definition/definition.ts'
import { defineResource } from '../../resources/src/routes/plugin.ts'
import { aggregate, list, read } from '../../resources/src/routes/routes.ts'

export const customerSales = pgView('customer_sales', {
  id: uuid().notNull(),
  name: text().notNull(),
  status: text().$type<'active' | 'inactive' | 'suspended'>().notNull(),
  orders: integer().notNull(),
  total_amount: integer().notNull(),
  last_order_at: moment(),
  created_at: moment().notNull(),
  updated_at: moment().notNull(),
  search: folded(),
}).as(sql`select u.id, u.name, u.status, o.orders, o.total_amount, o.last_order_at, u.created_at,
    greatest(u.updated_at, o.updated_at) as updated_at, u.search
  from users u cross join lateral (
    select count(*) as orders, coalesce(sum(total_amount), 0)::bigint as total_amount, max(created_at) as last_order_at,
      max(updated_at) as updated_at
    from orders where user_id = u.id
  ) o`)

/** Creates the view, as the migration that drizzle-kit writes does. */
export const createCustomerSales = (database: Database) =>
  database.run(
    `create view customer_sales as ${new PgDialect().sqlToQuery(getViewConfig(customerSales).query ?? sql``).sql}`,
  )

export const CustomerSales = Type.Object(
  {
    id: Id('The user'),
    name: Line(200, 'The name', 'Ada'),
    status: OneOf(['active', 'inactive', 'suspended'], { description: 'The status of the user' }),
    orders: Integer(0, MAX_INTEGER, { description: 'The number of orders', examples: [3] }),
    total_amount: Amount(MAX_INTEGER, 'The sum of the orders'),
    last_order_at: Type.Unsafe<string | null>({ ...Timestamp('The last order'), type: ['string', 'null'] }),
    ...common,
  },
  { title: 'CustomerSales', description: 'What a customer has ordered' },
)

const visible = { admin: true, manager: true, member: [{ id: CALLER }] } as const

const customerSalesResource = collection({
  view: customerSales,
  description: 'What customers have ordered',
  schemas: { read: CustomerSales },
  lists: {
    filters: ['status'],
    ranges: ['total_amount'],
    nullChecks: ['last_order_at'],
    // The sums are computed of all customers.
    unindexed: ['total_amount', 'last_order_at_null'],
    sorts: ['name', 'total_amount', 'created_at'],
    search: ['name'],
    aggregates: { measures: ['orders', 'total_amount'], groups: ['status'] },
  },
  relations: { user: { to: users, local: 'id', foreign: 'id', many: false } },
  access: { list: visible, read: visible },
})

export default defineResource(customerSalesResource, async (app, resource) => {
  app.get('/customer-sales', list(resource))
  app.get('/customer-sales/aggregates', aggregate(resource))
  app.get('/customer-sales/:id', read(resource))
})
