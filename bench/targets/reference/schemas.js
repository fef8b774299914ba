/** The replies' schemas, which fast-json-stringify writes by. */
const text = { type: 'string' }
const integer = { type: 'integer' }
const orNull = (type) => ({ type: [type, 'null'] })
const object = (properties) => ({ type: 'object', properties })
const list = (items) => ({ type: 'array', items })

const dates = { created_at: text, updated_at: text }

const product = object({
  id: text,
  sku: text,
  name: text,
  description: orNull('string'),
  price_amount: integer,
  currency: text,
  stock: integer,
  status: text,
  ...dates,
})

const user = object({ id: text, name: text, email: text, role: text, status: text, ...dates })

const item = object({
  product_id: text,
  quantity: integer,
  sku: text,
  name: text,
  unit_amount: integer,
  total_amount: integer,
})

const address = object({
  name: text,
  line1: text,
  line2: orNull('string'),
  city: text,
  region: orNull('string'),
  postal_code: text,
  country: text,
})

const order = object({
  id: text,
  number: text,
  user_id: text,
  items: list(item),
  shipping_address: { ...address, type: ['object', 'null'] },
  note: orNull('string'),
  status: text,
  currency: text,
  total_amount: integer,
  ...dates,
  user,
})

const meta = object({ timestamp: text })
const pagination = object({ cursor: orNull('string'), has_more: { type: 'boolean' } })
const one = (resource) => object({ data: resource, meta })
const many = (resource) => object({ data: list(resource), pagination, meta })

export const replies = {
  product: { 200: one(product), 201: one(product) },
  products: { 200: many(product) },
  users: { 200: many(user) },
  orders: { 200: many(order) },
}

export const params = { ...object({ id: { type: 'string', format: 'uuid' } }), required: ['id'] }
