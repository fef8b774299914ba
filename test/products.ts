/** Products for tests. */
import type { Json, VersionedClient } from '@resource-api/testing'

let count = 0

/** Creates a product that can be ordered. */
export async function createActiveProduct(
  by: VersionedClient,
  fields: Record<string, unknown> = {},
): Promise<Json> {
  count += 1
  const product = { sku: `TEST-${count}`, name: 'Tea', price_amount: 500, stock: 10, status: 'active' }
  const { status, data, text } = await by.post('/products', { ...product, ...fields })
  if (status !== 201) throw new Error(`The product was not created: ${text}`)
  return data
}

export const readStock = async (by: VersionedClient, id: string): Promise<number> =>
  (await by.get(`/products/${id}`)).data.stock
