/** The schemas of products. */
import {
  Amount,
  Currency,
  common,
  Id,
  Integer,
  Line,
  Lines,
  Nullable,
  OneOf,
  Text,
} from '@resource-api/http/schemas'
import { Type } from '@sinclair/typebox'

const productStatuses = ['draft', 'active', 'archived'] as const

/** The maximum stock of a product, also after the cancellation of an order has returned its items. */
const MAX_STOCK = 1_000_000_000

const fields = {
  sku: Text({
    minLength: 1,
    maxLength: 64,
    pattern: '^[A-Za-z0-9._-]*$',
    description: 'The number of the article; no other product has it',
    examples: ['TEA-001'],
  }),
  name: Line(200, 'What customers see first', 'Green tea'),
  description: Nullable(Lines(5000, 'Details for customers, in one or more lines', 'Loose leaf, 100 g')),
  price_amount: Amount(1_000_000_000_000, 'In minor units of `currency`'),
  currency: { ...Currency(), default: 'USD' },
  stock: Integer(0, MAX_STOCK, { default: 0, description: 'Units available to order', examples: [25] }),
  status: OneOf(productStatuses, {
    title: 'ProductStatus',
    default: 'draft',
    description: 'Only active products can be ordered',
    examples: ['active'],
  }),
}

export const Product = Type.Object(
  { id: Id(), ...fields, ...common },
  { title: 'Product', description: 'Goods that can be ordered' },
)

export const ProductCreate = Type.Object(fields, { title: 'ProductCreate' })

export const ProductChange = Type.Object(fields, {
  title: 'ProductChange',
  examples: [{ price_amount: 1899, stock: 40 }],
})
