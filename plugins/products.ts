/** Products: the goods that orders contain. */
import { toReads, toWrites } from '@resource-api/api/rules'
import {
  aggregate,
  collection,
  create,
  defineResource,
  list,
  read,
  remove,
  replace,
  restore,
  update,
} from '@resource-api/resources'
import { products as table } from '../drizzle/tables/products.ts'
import { Product, ProductChange, ProductCreate } from '../schemas/products.ts'

const staff = { admin: true, manager: true } as const

export const products = collection({
  table,
  description: 'Goods that can be ordered',
  schemas: { read: Product, create: ProductCreate, change: ProductChange },
  lists: {
    filters: ['status', 'sku', 'currency'],
    negations: ['status'],
    nullChecks: ['description'],
    prefixes: ['name', 'sku'],
    ranges: ['price_amount'],
    // An index would slow down every write.
    unindexed: ['description_null'],
    sorts: ['name', 'sku', 'price_amount', 'created_at'],
    search: ['sku', 'name', 'description'],
    aggregates: { measures: ['price_amount', 'stock'], groups: ['status', 'currency'] },
  },
  access: {
    ...toReads({ ...staff, member: [{ status: 'active' }] }),
    ...toWrites(staff),
    restore: staff,
  },
})

export default defineResource(products, async (app, resource) => {
  app.get('/products', list(resource))
  app.get('/products/aggregates', aggregate(resource))
  app.get('/products/:id', read(resource))
  app.post('/products', create(resource))
  app.put('/products/:id', replace(resource))
  app.patch('/products/:id', update(resource))
  app.delete('/products/:id', remove(resource))
  app.post('/products/:id/restores', restore(resource))
})
