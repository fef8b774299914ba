/** A script for version 2, with the client of oazapfts: typed bodies, relationships, and a PUT of what was read. */
import * as api from '../.generated/clients/v2/oazapfts.ts'

/** Runs the script. Returns what happened at each step. */
export async function converse(base: string, key: string) {
  api.defaults.baseUrl = base
  api.defaults.headers = { 'X-API-Key': key }

  const attributes = { sku: 'OOLONG-V2', name: 'Oolong', price_amount: 1999, status: 'active' as const }
  const created = await api.createProduct({ data: { type: 'products', attributes } })
  if (created.status !== 201) throw new Error(created.data.error.message)
  const product: api.Product = created.data.data
  const price: number = product.attributes.price_amount

  const refused = await api.createProduct({
    data: { type: 'products', attributes: { ...attributes, price_amount: -1 } },
  })
  const violations = refused.status === 422 ? (refused.data.error.errors ?? []) : []

  // @ts-expect-error a type of another collection
  const mistaken = await api.createProduct({ data: { type: 'orders', attributes } })

  const read = await api.getProduct(product.id, { fields: ['name', 'stock'] })
  if (read.status !== 200) throw new Error('The product exists')
  const name: string = read.data.data.attributes.name
  const tag = String(read.headers.get('etag'))
  const kept = await api.getProduct(product.id, { fields: ['name', 'stock'], ifNoneMatch: tag })

  const listed = await api.listProducts({ page: 1, search: 'oolong' })
  if (listed.status !== 200)
    throw new Error(listed.status === 400 ? listed.data.error.code : 'The list failed')
  const { pagination } = listed.data
  const total = 'total' in pagination ? pagination.total : undefined

  const changed = await api.updateProduct(product.id, { stock: 25 }, { ifMatch: tag })
  if (changed.status !== 200) throw new Error('The tag is current')
  const stale = await api.updateProduct(product.id, { stock: 26 }, { ifMatch: tag })

  const again = await api.replaceProduct(product.id, {
    data: { ...changed.data.data, attributes: changed.data.data.attributes },
  })
  if (again.status !== 200) throw new Error('A resource can be replaced by what was read')

  const order = await api.createOrder({ items: [{ product_id: product.id, quantity: 2 }] })
  if (order.status !== 201) throw new Error('There is enough stock')
  const whole = await api.getOrder(order.data.data.id, { include: ['user', 'products'] })
  const relationships = whole.status === 200 ? whole.data.data.relationships : undefined

  const removed = await api.deleteProduct(product.id)
  return {
    price,
    violations: violations.map(({ field, code }) => `${field} ${code}`),
    mistaken: mistaken.status,
    name,
    kept: kept.status,
    total,
    stock: changed.data.data.attributes.stock,
    stale: stale.status,
    replaced: again.data.data.attributes.stock,
    owner: relationships?.user?.attributes.email,
    products: relationships?.products?.map(({ attributes: { sku } }) => sku),
    removed: removed.status,
  }
}
