/** The schemas of orders. An item keeps the product's SKU, name and price at the time of the order. */
import {
  Amount,
  Currency,
  common,
  exampleId,
  Id,
  Integer,
  Line,
  Lines,
  MAX_INTEGER,
  Nullable,
  OneOf,
  Shown,
  Text,
} from '@resource-api/api/schemas'
import { type Static, Type } from '@sinclair/typebox'

const orderStatuses = ['pending', 'paid', 'shipped', 'completed', 'cancelled', 'refunded'] as const

const MAX_ITEMS = 100

const itemInput = {
  product_id: Id('The product'),
  quantity: Integer(1, 1000, { description: 'The number of units', examples: [2] }),
}

const OrderItem = Type.Object(
  {
    ...itemInput,
    sku: Type.String({
      maxLength: 64,
      description: 'The SKU at the time of the order',
      examples: ['TEA-001'],
    }),
    name: Type.String({
      maxLength: 200,
      description: 'The name at the time of the order',
      examples: ['Green tea'],
    }),
    unit_amount: Amount(MAX_INTEGER, 'The price of one unit at the time of the order'),
    total_amount: Amount(MAX_INTEGER, '`unit_amount` times `quantity`', 3998),
  },
  { title: 'OrderItem', description: 'A product in an order' },
)
export type OrderItem = Static<typeof OrderItem>

const OrderItemInput = Type.Object(itemInput, { title: 'OrderItemInput', description: 'A product to order' })

const Address = Type.Object(
  {
    name: Line(200, 'The recipient', 'Ada Lovelace'),
    line1: Line(200, 'The street and the number', '12 St James Square'),
    line2: Nullable(
      Text({ maxLength: 200, description: 'A second line, such as the floor', examples: ['2nd floor'] }),
    ),
    city: Line(100, 'The town', 'London'),
    region: Nullable(
      Text({ maxLength: 100, description: 'A state, province or county', examples: ['Greater London'] }),
    ),
    postal_code: Line(20, 'The postal code', 'SW1Y 4JH'),
    country: Text({ pattern: '^[A-Z]{2}$', description: 'An ISO 3166-1 alpha-2 code', examples: ['GB'] }),
  },
  { title: 'Address', description: 'A postal address' },
)

const fields = {
  items: Type.Array(OrderItemInput, {
    minItems: 1,
    maxItems: MAX_ITEMS,
    'x-unique-by': 'product_id',
    description: 'No product may be repeated. Can be changed only while the order is pending',
  }),
  shipping_address: Nullable(Address),
  note: Nullable(Lines(1000, 'A text of one or more lines for the delivery', 'Ring twice')),
  status: OneOf(orderStatuses, {
    title: 'OrderStatus',
    default: 'pending',
    description:
      'pending -> paid, cancelled; paid -> shipped, refunded; shipped -> completed, refunded; completed -> refunded',
  }),
}

const owner = Id('The customer; cannot be changed')

export const Order = Type.Object(
  {
    id: Id(),
    number: Shown('Unique and increasing', 'ORD-0000000042'),
    user_id: owner,
    ...fields,
    items: Type.Array(OrderItem, { maxItems: MAX_ITEMS, description: 'The ordered products' }),
    currency: Currency('The currency of the items'),
    total_amount: Amount(MAX_INTEGER, 'The sum of the items, in minor units of `currency`', 3998),
    ...common,
  },
  { title: 'Order', description: 'An order of products, with their prices at that time' },
)

const { items, shipping_address, note } = fields

export const OrderCreate = Type.Object(
  {
    user_id: Type.Optional({ ...owner, description: 'The customer; by default the caller' }),
    items,
    shipping_address,
    note,
    status: OneOf(['pending'], { default: 'pending', description: 'A new order is pending' }),
  },
  {
    title: 'OrderCreate',
    examples: [
      { items: [{ product_id: exampleId, quantity: 2 }], shipping_address: null, note: 'Ring twice' },
    ],
  },
)

export const OrderChange = Type.Object(fields, {
  title: 'OrderChange',
  examples: [{ status: 'cancelled', note: 'Ordered by mistake' }],
})
