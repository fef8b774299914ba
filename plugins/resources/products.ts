/** Defines products: the goods that orders contain. */
import { products } from '../../drizzle/tables/products.ts'
import { Product, ProductChange, ProductCreate } from '../../schemas/products.ts'
import { defineResource, type ResourceDefinition } from '../collection/definition.ts'

const relations = {} as const

declare module '../collection/known-relations.ts' {
  interface KnownRelations {
    products: { table: typeof products; relations: typeof relations }
  }
}

const staff = { admin: true, manager: true } as const
const visible = { ...staff, member: [{ status: 'active' }] } as const

export const productsResource: ResourceDefinition = defineResource({
  name: 'products',
  singular: 'Product',
  plural: 'Products',
  description: 'Goods that can be ordered',
  table: products,
  schemas: { read: Product, create: ProductCreate, change: ProductChange },
  filters: ['status', 'sku', 'currency'],
  negations: ['status'],
  nullChecks: ['description'],
  prefixes: ['name', 'sku'],
  ranges: ['price_amount'],
  // An index of each would slow down every write.
  unindexed: ['description_null'],
  sorts: {
    name: products.name,
    sku: products.sku,
    price_amount: products.price_amount,
    created_at: products.created_at,
  },
  search: ['sku', 'name', 'description'],
  relations,
  access: { list: visible, read: visible, create: staff, replace: staff, update: staff, remove: staff },
})
