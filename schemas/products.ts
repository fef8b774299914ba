/** The schemas of products. */
import { Type } from '@sinclair/typebox'
import { Amount, Currency, common, Id, Integer, Nullable, OneOf, Text } from './types.ts'

const productStatuses = ['draft', 'active', 'archived'] as const

/** The maximum stock of a product, also after the cancellation of an order has returned its items. */
export const MAX_STOCK = 1_000_000_000

const fields = {
  sku: Text({
    minLength: 1,
    maxLength: 64,
    pattern: '^[A-Za-z0-9._-]*$',
    description: 'Unique',
    examples: ['TEA-001'],
  }),
  name: Text({ minLength: 1, maxLength: 200, examples: ['Green tea'] }),
  description: Nullable(Text({ maxLength: 5000, 'x-multiline': true, examples: ['Loose leaf, 100 g'] })),
  price_amount: Amount(1_000_000_000_000, 'In minor units of `currency`'),
  currency: { ...Currency(), default: 'USD' },
  stock: Integer(0, MAX_STOCK, { default: 0, description: 'Units available to order', examples: [25] }),
  status: OneOf(productStatuses, { default: 'draft', description: 'Only active products can be ordered' }),
}

export const Product = Type.Object({ id: Id(), ...fields, ...common }, { title: 'Product' })

export const ProductInput = Type.Object(fields, { title: 'ProductInput' })
