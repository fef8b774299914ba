/** A script for version 2, with the types of openapi-typescript: typed bodies, relationships, and a PUT of what was read. */
import createFetchClient from 'openapi-fetch'
import type { components, paths } from '../.generated/clients/v2/openapi-typescript.ts'

/** Runs the script. Returns what happened at each step. */
export async function converse(baseUrl: string, key: string) {
  const headers = { 'X-API-Key': key }
  const querySerializer = { array: { style: 'form', explode: false } } as const
  const api = createFetchClient<paths>({ baseUrl, headers, querySerializer })

  const attributes = { sku: 'OOLONG-V2', name: 'Oolong', price_amount: 1999, status: 'active' as const }
  const created = await api.POST('/api/v2/products', { body: { data: { type: 'products', attributes } } })
  if (!created.data) throw new Error(created.error.error.message)
  const product: components['schemas']['Product'] = created.data.data
  const price: number = product.attributes.price_amount
  const path = { id: product.id }

  const negative = { ...attributes, price_amount: -1 }
  const refused = await api.POST('/api/v2/products', {
    body: { data: { type: 'products', attributes: negative } },
  })
  const violations = refused.error?.error.errors ?? []

  // @ts-expect-error a type of another collection
  const mistaken = await api.POST('/api/v2/products', { body: { data: { type: 'orders', attributes } } })

  const query = { fields: ['name' as const, 'stock' as const] }
  const read = await api.GET('/api/v2/products/{id}', { params: { path, query } })
  const name: string | undefined = read.data?.data.attributes.name
  const tag = String(read.response.headers.get('etag'))
  const kept = await api.GET('/api/v2/products/{id}', {
    params: { path, query, header: { 'If-None-Match': tag } },
  })

  const listed = await api.GET('/api/v2/products', { params: { query: { page: 1, search: 'oolong' } } })
  const pagination = listed.data?.pagination
  const total = pagination && 'total' in pagination ? pagination.total : undefined

  const params = { path, header: { 'If-Match': tag } }
  const changed = await api.PATCH('/api/v2/products/{id}', { params, body: { stock: 25 } })
  if (!changed.data) throw new Error('The tag is current')
  const stale = await api.PATCH('/api/v2/products/{id}', { params, body: { stock: 26 } })
  const again = await api.PUT('/api/v2/products/{id}', {
    params: { path },
    body: { data: changed.data.data },
  })

  const order = await api.POST('/api/v2/orders', {
    body: { items: [{ product_id: product.id, quantity: 2 }] },
  })
  if (!order.data) throw new Error('There is enough stock')
  const whole = await api.GET('/api/v2/orders/{id}', {
    params: { path: { id: order.data.data.id }, query: { include: ['user', 'products'] } },
  })
  const relationships = whole.data?.data.relationships

  const removed = await api.DELETE('/api/v2/products/{id}', { params: { path } })
  return {
    price,
    violations: violations.map(({ field, code }) => `${field} ${code}`),
    mistaken: mistaken.response.status,
    name,
    kept: kept.response.status,
    total,
    stock: changed.data.data.attributes.stock,
    stale: stale.response.status,
    replaced: again.data?.data.attributes.stock,
    owner: relationships?.user?.attributes.email,
    products: relationships?.products?.map(({ attributes: { sku } }) => sku),
    removed: removed.response.status,
  }
}
