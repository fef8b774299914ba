/** Platformatic DB: REST, and GraphQL where only that can include a relation. */
import { fileURLToPath } from 'node:url'
import type { Api, Resource, Target } from './target.ts'
import { newProduct } from './v1.ts'

const folder = fileURLToPath(new URL('../peers/platformatic', import.meta.url))

const NEWEST = 'limit=20&orderby.createdAt=desc&orderby.id=desc'

const USER = 'user { id name email role status createdAt updatedAt }'
const ORDER = 'id number items shippingAddress note status currency totalAmount createdAt updatedAt'
const ORDERS = `{ orders(limit: 20, orderBy: [{field: createdAt, direction: DESC}, {field: id, direction: DESC}]) { ${ORDER} ${USER} } }`

const camel = (name: string) => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())
const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const renamed = (resource: Resource, rename: (name: string) => string): Resource =>
  Object.fromEntries(Object.entries(resource).map(([name, value]) => [rename(name), value]))

/** It tells integers of 64 bits as text. */
const NUMBERS = ['price_amount', 'stock', 'total_amount']

function told(resource: Resource): Resource {
  const { revision: _, user, ...members } = renamed(resource, snake)
  for (const name of NUMBERS) if (name in members) members[name] = Number(members[name])
  return typeof user === 'object' && user !== null
    ? { ...members, user: told({ ...user }), user_id: Reflect.get(user, 'id') }
    : members
}

interface Orders {
  data: { orders: Resource[] }
}

const isOrders = (body: object): body is Orders => 'data' in body

const api: Api = {
  product: (id) => ({ method: 'GET', path: `/products/${id}` }),
  newestProducts: () => ({ method: 'GET', path: `/products/?${NEWEST}` }),
  usersAfter: ({ created_at, id }) => {
    const at = JSON.stringify({ createdAt: new Date(created_at).toISOString(), id })
    const cursor = encodeURIComponent(Buffer.from(at).toString('base64'))
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
    // It makes no ids of its own, and fills in no defaults of a column.
    body: JSON.stringify({
      id: '01950000-0000-7000-8000-000#########',
      revision: 1,
      ...renamed(newProduct, camel),
    }),
  }),
  // It has PUT alone, which takes a whole resource.
  setStock: ({ id, created_at: _c, updated_at: _u, revision, ...members }) => ({
    method: 'PUT',
    path: `/products/${id}`,
    body: JSON.stringify({ ...renamed(members, camel), revision, stock: 0 }).replace(
      '"stock":0',
      '"stock":#########',
    ),
  }),
  resources: (text) => {
    const body: Resource | Resource[] | Orders = JSON.parse(text)
    if (Array.isArray(body)) return body.map(told)
    return isOrders(body) ? body.data.orders.map(told) : [told(body)]
  },
  exact: false,
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
