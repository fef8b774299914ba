/** The response schemas, from which fast-json-stringify compiles serializers. */
const text = { type: 'string' }
const integer = { type: 'integer' }
const nullable = (type) => ({ type: [type, 'null'] })
const object = (properties) => ({ type: 'object', properties })
const list = (items) => ({ type: 'array', items })

const timestamps = { created_at: text, updated_at: text }

const product = object({
  id: text,
  sku: text,
  name: text,
  description: nullable('string'),
  price_amount: integer,
  currency: text,
  stock: integer,
  status: text,
  ...timestamps,
})

const user = object({ id: text, name: text, email: text, role: text, status: text, ...timestamps })

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
  line2: nullable('string'),
  city: text,
  region: nullable('string'),
  postal_code: text,
  country: text,
})

const order = object({
  id: text,
  number: text,
  user_id: text,
  items: list(item),
  shipping_address: { ...address, type: ['object', 'null'] },
  note: nullable('string'),
  status: text,
  currency: text,
  total_amount: integer,
  ...timestamps,
  user,
})

const meta = object({ timestamp: text })
const pagination = object({ cursor: nullable('string'), has_more: { type: 'boolean' } })
const toEnvelope = (resource) => object({ data: resource, meta })
const toListEnvelope = (resource) => object({ data: list(resource), pagination, meta })

export const responses = {
  product: { 200: toEnvelope(product), 201: toEnvelope(product) },
  products: { 200: toListEnvelope(product) },
  users: { 200: toListEnvelope(user) },
  orders: { 200: toListEnvelope(order) },
}

export const params = { ...object({ id: { type: 'string', format: 'uuid' } }), required: ['id'] }

const newProduct = {
  sku: { type: 'string', minLength: 1, maxLength: 64 },
  name: { type: 'string', minLength: 1, maxLength: 200 },
  description: { type: ['string', 'null'], maxLength: 10_000 },
  price_amount: { type: 'integer', minimum: 0 },
  currency: { type: 'string', pattern: '^[A-Z]{3}$' },
  stock: { type: 'integer', minimum: 0 },
  status: { enum: ['draft', 'active', 'archived'] },
}
const closed = (properties) => ({ ...object(properties), additionalProperties: false })

export const bodies = {
  newProduct: { ...closed(newProduct), required: ['sku', 'name', 'price_amount'] },
  changedProduct: { ...closed(newProduct), minProperties: 1 },
}

export const queries = {
  list: closed({ status: { enum: ['active', 'disabled'] }, cursor: text, include: { const: 'user' } }),
}
