/** The schemas of orders. An item keeps the product's SKU, name and price at the time of the order. */
import { Type } from '@sinclair/typebox'
import { Amount, Currency, common, Id, Integer, MAX_INTEGER, Nullable, OneOf, Text } from './types.ts'

const orderStatuses = ['pending', 'paid', 'shipped', 'completed', 'cancelled', 'refunded'] as const

const MAX_ITEMS = 100

const itemInput = { product_id: Id('The product'), quantity: Integer(1, 1000, { examples: [2] }) }

const OrderItem = Type.Object(
  {
    ...itemInput,
    sku: Type.String({ maxLength: 64, examples: ['TEA-001'] }),
    name: Type.String({ maxLength: 200, examples: ['Green tea'] }),
    unit_amount: Amount(MAX_INTEGER, 'The price of one unit at the time of the order'),
    total_amount: Amount(MAX_INTEGER, '`unit_amount` times `quantity`', 3998),
  },
  { title: 'OrderItem' },
)

const OrderItemInput = Type.Object(itemInput, { title: 'OrderItemInput' })

const addressLine = (maxLength: number, example: string) =>
  Text({ minLength: 1, maxLength, examples: [example] })

const Address = Type.Object(
  {
    name: addressLine(200, 'Ada Lovelace'),
    line1: addressLine(200, '12 St James Square'),
    line2: Nullable(Text({ maxLength: 200, examples: ['2nd floor'] })),
    city: addressLine(100, 'London'),
    region: Nullable(Text({ maxLength: 100, examples: ['Greater London'] })),
    postal_code: addressLine(20, 'SW1Y 4JH'),
    country: Text({ pattern: '^[A-Z]{2}$', description: 'An ISO 3166-1 alpha-2 code', examples: ['GB'] }),
  },
  { title: 'Address' },
)

const fields = {
  items: Type.Array(OrderItemInput, {
    minItems: 1,
    maxItems: MAX_ITEMS,
    'x-unique-by': 'product_id',
    description: 'No product may be repeated. Can be changed only while the order is pending',
  }),
  shipping_address: Nullable(Address),
  note: Nullable(Text({ maxLength: 1000, 'x-multiline': true, examples: ['Ring twice'] })),
  status: OneOf(orderStatuses, {
    default: 'pending',
    description:
      'pending -> paid, cancelled; paid -> shipped, refunded; shipped -> completed, refunded; completed -> refunded',
  }),
}

const owner = Id('The customer; cannot be changed')

export const Order = Type.Object(
  {
    id: Id(),
    number: Type.String({ description: 'Unique and increasing', examples: ['ORD-0000000042'] }),
    user_id: owner,
    ...fields,
    items: Type.Array(OrderItem, { maxItems: MAX_ITEMS }),
    currency: Currency('The currency of the items'),
    total_amount: Amount(MAX_INTEGER, 'The sum of the items, in minor units of `currency`', 3998),
    ...common,
  },
  { title: 'Order' },
)

export const OrderCreate = Type.Object(
  { user_id: Type.Optional({ ...owner, description: 'The customer; by default the caller' }), ...fields },
  { title: 'OrderCreate' },
)

export const OrderChange = Type.Object(fields, { title: 'OrderChange' })
