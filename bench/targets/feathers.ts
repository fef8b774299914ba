/** Feathers 5: REST over Koa and Knex. */
import { fileURLToPath } from 'node:url'
import type { Api, Resource, Target } from './target.ts'
import { newProduct } from './v1.ts'

const newest = (more: Record<string, string> = {}) =>
  new URLSearchParams({ $limit: '20', '$sort[created_at]': '-1', '$sort[id]': '-1', ...more }).toString()

const api: Api = {
  product: (id) => ({ method: 'GET', path: `/products/${id}` }),
  newestProducts: () => ({ method: 'GET', path: `/products?${newest()}` }),
  // It has no cursors: the bound is written as a client would. No two users of the data are of one moment.
  usersAfter: ({ created_at }) => ({
    method: 'GET',
    path: `/users?${newest({ status: 'active', 'created_at[$lt]': created_at })}`,
  }),
  newestOrdersWithUsers: () => ({ method: 'GET', path: `/orders?${newest({ include: 'user' })}` }),
  createProduct: () => ({ method: 'POST', path: '/products', body: JSON.stringify(newProduct) }),
  setStock: ({ id }) => ({ method: 'PATCH', path: `/products/${id}`, body: '{"stock":#########}' }),
  resources: (text) => {
    const body: Resource | Resource[] = JSON.parse(text)
    return Array.isArray(body) ? body : [body]
  },
  exact: false,
}

export const feathers: Target = {
  name: 'feathers',
  title: 'Feathers 5',
  folder: fileURLToPath(new URL('../peers/feathers', import.meta.url)),
  script: 'server.js',
  env: {},
  api,
}
