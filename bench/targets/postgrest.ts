/** PostgREST 13, for `npm run bench:addresses`: it is no program of Node.js, so that `npm run bench` does not start it. */
import type { Api, Resource, Target } from './target.ts'
import { newProduct } from './version1-api.ts'

const TIMES = 'created_at,updated_at'
const PRODUCT = `id,sku,name,description,price_amount,currency,stock,status,${TIMES}`
const USER = `id,name,email,role,status,${TIMES}`
const ORDER = `id,number,user_id,items,shipping_address,note,status,currency,total_amount,${TIMES}`
const NEWEST = 'order=created_at.desc,id.desc&limit=20'

/** A single row instead of a list of one. */
const ONE = { Accept: 'application/vnd.pgrst.object+json' }
const WRITTEN = { ...ONE, Prefer: 'return=representation' }

const toText = (name: string) => String(newProduct[name])

/** PostgREST applies the defaults of columns; the client sends what the service derives. */
const createdProduct = {
  id: '01950000-0000-7000-8000-000#########',
  ...newProduct,
  search: [toText('sku'), toText('name'), toText('description')].join('\n').toLowerCase(),
}

/** Converts `2026-01-01T10:00:00.123456+00:00` to milliseconds and UTC. */
const toTimestamp = (name: string, value: unknown) =>
  /^(?:created|updated)_at$/.test(name) ? new Date(String(value)).toISOString() : value

const api: Api = {
  product: (id) => ({ method: 'GET', path: `/products?select=${PRODUCT}&id=eq.${id}`, headers: ONE }),
  newestProducts: () => ({ method: 'GET', path: `/products?select=${PRODUCT}&${NEWEST}` }),
  usersAfter: ({ created_at, id }) => {
    const time = encodeURIComponent(`"${created_at}"`)
    const after = `or=(created_at.lt.${time},and(created_at.eq.${time},id.lt.${id}))`
    return { method: 'GET', path: `/users?select=${USER}&status=eq.active&${after}&${NEWEST}` }
  },
  newestOrdersWithUsers: () => ({
    method: 'GET',
    path: `/orders?select=${ORDER},user:users!orders_user_id_users_id_fk(${USER})&${NEWEST}`,
  }),
  createProduct: () => ({
    method: 'POST',
    path: `/products?select=${PRODUCT}`,
    headers: WRITTEN,
    body: JSON.stringify(createdProduct),
  }),
  setStock: ({ id }) => ({
    method: 'PATCH',
    path: `/products?id=eq.${id}&select=${PRODUCT}`,
    headers: WRITTEN,
    body: '{"stock":#########,"updated_at":"now"}',
  }),
  resources: (text) => {
    const body: Resource | Resource[] = JSON.parse(text, toTimestamp)
    return Array.isArray(body) ? body : [body]
  },
  hasVersion1Envelope: false,
}

export const postgrest: Target = {
  name: 'postgrest',
  title: 'PostgREST 13',
  folder: '.',
  script: '',
  env: {},
  api,
}
