/** Feathers 5: REST over Koa and Knex. */
import { fileURLToPath } from 'node:url'
import type { Api, Resource, Target } from './target.ts'
import { newProduct } from './version1-api.ts'

const createQuery = (parameters: Record<string, string> = {}) =>
  new URLSearchParams({
    $limit: '20',
    '$sort[created_at]': '-1',
    '$sort[id]': '-1',
    ...parameters,
  }).toString()

const api: Api = {
  product: (id) => ({ method: 'GET', path: `/products/${id}` }),
  newestProducts: () => ({ method: 'GET', path: `/products?${createQuery()}` }),
  // Feathers has no cursors; the client sends the bound. No two users of the data have equal timestamps.
  usersAfter: ({ created_at }) => ({
    method: 'GET',
    path: `/users?${createQuery({ status: 'active', 'created_at[$lt]': created_at })}`,
  }),
  newestOrdersWithUsers: () => ({ method: 'GET', path: `/orders?${createQuery({ include: 'user' })}` }),
  createProduct: () => ({ method: 'POST', path: '/products', body: JSON.stringify(newProduct) }),
  setStock: ({ id }) => ({ method: 'PATCH', path: `/products/${id}`, body: '{"stock":#########}' }),
  resources: (text) => {
    const body: Resource | Resource[] = JSON.parse(text)
    return Array.isArray(body) ? body : [body]
  },
  hasVersion1Envelope: false,
}

export const feathers: Target = {
  name: 'feathers',
  title: 'Feathers 5',
  folder: fileURLToPath(new URL('../peers/feathers', import.meta.url)),
  script: 'server.js',
  env: {},
  api,
}
