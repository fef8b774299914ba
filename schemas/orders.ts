/** Orders: products in quantities, as they were when ordered. */
import { Type } from '@sinclair/typebox'
import { Amount, Currency, common, Id, Integer, MAX_INTEGER, Nullable, OneOf, Text } from './types.ts'

const orderStatuses = ['pending', 'paid', 'shipped', 'completed', 'cancelled', 'refunded'] as const

const MAX_ITEMS = 100

const ordered = { product_id: Id('The product'), quantity: Integer(1, 1000, { examples: [2] }) }

const OrderItem = Type.Object(
  {
    ...ordered,
    sku: Type.String({ maxLength: 64, examples: ['TEA-001'] }),
    name: Type.String({ maxLength: 200, examples: ['Green tea'] }),
    unit_amount: Amount(MAX_INTEGER, 'The price of one when it was ordered'),
    total_amount: Amount(MAX_INTEGER, '`unit_amount` times `quantity`', 3998),
  },
  { title: 'OrderItem' },
)

const OrderItemInput = Type.Object(ordered, { title: 'OrderItemInput' })

const line = (maxLength: number, example: string) => Text({ minLength: 1, maxLength, examples: [example] })

const Address = Type.Object(
  {
    name: line(200, 'Ada Lovelace'),
    line1: line(200, '12 St James Square'),
    line2: Nullable(Text({ maxLength: 200, examples: ['2nd floor'] })),
    city: line(100, 'London'),
    region: Nullable(Text({ maxLength: 100, examples: ['Greater London'] })),
    postal_code: line(20, 'SW1Y 4JH'),
    country: Text({ pattern: '^[A-Z]{2}$', description: 'An ISO 3166-1 alpha-2 code', examples: ['GB'] }),
  },
  { title: 'Address' },
)

const members = {
  items: Type.Array(OrderItemInput, {
    minItems: 1,
    maxItems: MAX_ITEMS,
    'x-unique-by': 'product_id',
    description: 'No product twice. They change only while the order is pending',
  }),
  shipping_address: Nullable(Address),
  note: Nullable(Text({ maxLength: 1000, 'x-multiline': true, examples: ['Ring twice'] })),
  status: OneOf(orderStatuses, {
    default: 'pending',
    description:
      'pending -> paid, cancelled; paid -> shipped, refunded; shipped -> completed, refunded; completed -> refunded',
  }),
}

const owner = Id('Who ordered; cannot be changed')

export const Order = Type.Object(
  {
    id: Id(),
    number: Type.String({ description: 'Unique and rising', examples: ['ORD-0000000042'] }),
    user_id: owner,
    ...members,
    items: Type.Array(OrderItem, { maxItems: MAX_ITEMS }),
    currency: Currency("The items' own"),
    total_amount: Amount(MAX_INTEGER, 'The sum of the items, in minor units of `currency`', 3998),
    ...common,
  },
  { title: 'Order' },
)

export const OrderCreate = Type.Object(
  { user_id: Type.Optional({ ...owner, description: 'Who orders; the caller when absent' }), ...members },
  { title: 'OrderCreate' },
)

export const OrderChange = Type.Object(members, { title: 'OrderChange' })
