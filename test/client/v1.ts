/** A conversation in the words of the client generated from version 1; `client.test.ts` compiles it and has it held. */
import * as api from './api.ts'

/** All that was said, by step; what the types say of it is the compiler's to check. */
export async function converse(base: string, key: string) {
  api.defaults.baseUrl = base
  api.defaults.headers = { 'X-API-Key': key }

  const created = await api.createProduct({
    sku: 'TEA-V1',
    name: 'Tea',
    price_amount: 1999,
    status: 'active',
  })
  if (created.status !== 201) throw new Error(created.data.error.message)
  const product: api.Product = created.data.data
  const price: number = product.price_amount

  // @ts-expect-error a status that no product has
  const refused = await api.createProduct({ sku: 'TEA-V1', name: 'Tea', price_amount: -1, status: 'sold' })
  const violations = refused.status === 422 ? (refused.data.error.details ?? []) : []

  const read = await api.getProduct(product.id, { fields: ['name', 'stock'] })
  if (read.status !== 200) throw new Error('It is there')
  const name: string = read.data.data.name
  const tag = String(read.headers.get('etag'))
  const kept = await api.getProduct(product.id, { fields: ['name', 'stock'], ifNoneMatch: tag })

  const listed = await api.listProducts({ sort: ['-price_amount', 'name'], limit: 5, search: 'tea' })
  if (listed.status !== 200) throw new Error(listed.status === 400 ? listed.data.error.code : 'No list')
  const { pagination } = listed.data
  const more: boolean =
    'has_more' in pagination ? pagination.has_more : pagination.page < pagination.total_pages

  const ordered = await api.createOrder({
    items: [{ product_id: product.id, quantity: 1 }],
    shipping_address: null,
  })
  const missing = ordered.status === 409 ? ordered.data.error.details?.map(({ code }) => code) : undefined

  const changed = await api.updateProduct(product.id, { stock: 25 }, { ifMatch: tag })
  if (changed.status !== 200) throw new Error('The tag held')
  const stale = await api.updateProduct(product.id, { stock: 26 }, { ifMatch: tag })

  const order = await api.createOrder({ items: [{ product_id: product.id, quantity: 2 }] })
  if (order.status !== 201) throw new Error('There is stock now')
  const whole = await api.getOrder(order.data.data.id, { include: ['user', 'products'] })
  const owner = whole.status === 200 ? whole.data.data.user?.email : undefined

  const removed = await api.deleteProduct(product.id)
  return {
    price,
    violations: violations.map(({ field, code }) => `${field} ${code}`),
    name,
    kept: kept.status,
    listed: listed.data.data.map(({ sku }) => sku),
    more,
    missing,
    stock: changed.data.data.stock,
    stale: stale.status,
    total: order.data.data.total_amount,
    owner,
    removed: removed.status,
  }
}
