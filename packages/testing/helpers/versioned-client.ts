/** Clients of one version, and products for them. */
import type { Json } from '../src/client.ts'
import { createUniqueName, type VersionedClient } from '../src/versioned-client.ts'

export {
  createUniqueName,
  createVersionedClient,
  VERSIONS,
  type VersionedClient,
} from '../src/versioned-client.ts'

/** Returns a resource without its id, as a body. */
export const omitId = ({ id: _, ...members }: Json): Json => members

/** Returns a valid body of a new product. */
export const newProduct = (fields: Json = {}): Json => ({
  ...{ sku: createUniqueName('sku'), name: 'Tea', price_amount: 1 },
  ...fields,
})

/** Creates a product that can be ordered. */
export const createActiveProduct = async (
  by: VersionedClient,
  members: Record<string, unknown> = {},
): Promise<Json> => {
  const sku = createUniqueName('SKU')
  const reply = await by.post('/products', {
    sku,
    name: sku,
    price_amount: 500,
    stock: 10,
    status: 'active',
    ...members,
  })
  if (reply.status !== 201) throw new Error(`The product was not created: ${reply.text}`)
  return reply.data
}
