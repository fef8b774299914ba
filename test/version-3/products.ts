/** Products whose fields differ in version 3. */
import { Type } from '@sinclair/typebox'
import { collection } from '../../plugins/collection/definition.ts'
import { Product, ProductChange, ProductCreate } from '../fixtures/schemas/products.ts'
import { products } from '../fixtures/tables/products.ts'

const staff = { admin: true, manager: true } as const
const visible = { ...staff, member: [{ status: 'active' }] } as const

export const productsResource = collection({
  description: 'Goods that can be ordered',
  table: products,
  schemas: { read: Product, create: ProductCreate, change: ProductChange },
  lists: {
    filters: ['status', 'sku', 'currency'],
    negations: ['status'],
    nullChecks: ['description'],
    prefixes: ['name', 'sku'],
    ranges: ['price_amount'],
    unindexed: ['description_null'],
    sorts: ['name', 'sku', 'price_amount', 'created_at'],
    search: ['sku', 'name', 'description'],
  },
  versions: {
    3: {
      rename: { name: 'title', sku: 'code' },
      hide: ['stock'],
      add: {
        label: {
          schema: Type.String({ description: 'Code and title', examples: ['TEA-001 Green tea'] }),
          value: ({ sku, name }) => `${sku} ${name}`,
        },
      },
    },
  },
  access: { list: visible, read: visible, create: staff, replace: staff, update: staff, remove: staff },
})
