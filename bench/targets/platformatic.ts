/** Platformatic DB 3: REST, and GraphQL for the workload that includes a relation. */
import { fileURLToPath } from 'node:url'
import type { Api, Resource, Target } from './target.ts'
import { newProduct } from './version1-api.ts'

const folder = fileURLToPath(new URL('../peers/platformatic', import.meta.url))

const NEWEST = 'limit=20&orderby.createdAt=desc&orderby.id=desc'

const USER = 'user { id name email role status createdAt updatedAt }'
const ORDER = 'id number items shippingAddress note status currency totalAmount createdAt updatedAt'
const ORDERS = `{ orders(limit: 20, orderBy: [{field: createdAt, direction: DESC}, {field: id, direction: DESC}]) { ${ORDER} ${USER} } }`

const toCamelCase = (name: string) => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())
const toSnakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const renameFields = (resource: Resource, rename: (name: string) => string): Resource =>
  Object.fromEntries(Object.entries(resource).map(([name, value]) => [rename(name), value]))

/** 64-bit integers, which Platformatic returns as strings. */
const BIGINT_FIELDS = ['price_amount', 'stock', 'total_amount']

/** Converts a resource of Platformatic to the fields of version 1. */
function toVersion1Resource(resource: Resource): Resource {
  const { revision: _, user, ...fields } = renameFields(resource, toSnakeCase)
  for (const name of BIGINT_FIELDS) if (name in fields) fields[name] = Number(fields[name])
  return typeof user === 'object' && user !== null
    ? { ...fields, user: toVersion1Resource({ ...user }), user_id: Reflect.get(user, 'id') }
    : fields
}

interface OrdersResponse {
  data: { orders: Resource[] }
}

const isOrders = (body: object): body is OrdersResponse => 'data' in body

const api: Api = {
  product: (id) => ({ method: 'GET', path: `/products/${id}` }),
  newestProducts: () => ({ method: 'GET', path: `/products/?${NEWEST}` }),
  usersAfter: ({ created_at, id }) => {
    const position = JSON.stringify({ createdAt: new Date(created_at).toISOString(), id })
    const cursor = encodeURIComponent(Buffer.from(position).toString('base64'))
    return { method: 'GET', path: `/users/?${NEWEST}&where.status.eq=active&startAfter=${cursor}` }
  },
  newestOrdersWithUsers: () => ({
    method: 'POST',
    path: '/graphql',
    body: JSON.stringify({ query: ORDERS }),
  }),
  createProduct: () => ({
    method: 'POST',
    path: '/products/',
    // Platformatic generates no ids and applies no column defaults.
    body: JSON.stringify({
      id: '01950000-0000-7000-8000-000#########',
      revision: 1,
      ...renameFields(newProduct, toCamelCase),
    }),
  }),
  // Platformatic has no PATCH; PUT replaces the whole resource.
  setStock: ({ id, created_at: _c, updated_at: _u, revision, ...fields }) => ({
    method: 'PUT',
    path: `/products/${id}`,
    body: JSON.stringify({ ...renameFields(fields, toCamelCase), revision, stock: 0 }).replace(
      '"stock":0',
      '"stock":#########',
    ),
  }),
  resources: (text) => {
    const body: Resource | Resource[] | OrdersResponse = JSON.parse(text)
    if (Array.isArray(body)) return body.map(toVersion1Resource)
    return isOrders(body) ? body.data.orders.map(toVersion1Resource) : [toVersion1Resource(body)]
  },
  hasVersion1Envelope: false,
}

export const platformatic: Target = {
  name: 'platformatic',
  title: 'Platformatic DB 3',
  folder,
  script: 'server.js',
  node: fileURLToPath(new URL('../peers/platformatic/node_modules/node/bin/node', import.meta.url)),
  env: {},
  api,
}
