/** Checks that the Zod schemas of PATCH bodies add nothing to what the caller gives. */
import { createClient } from '../.generated/clients/v1/hey-api/client/index.ts'
import * as sdk from '../.generated/clients/v1/hey-api/sdk.gen.ts'
import * as schemas from '../.generated/clients/v1/hey-api/zod.gen.ts'
import type { Credentials } from './hey-api.ts'

/** Returns the names of the schemas that change an empty body. */
function findChangingSchemas(): string[] {
  return Object.entries(schemas)
    .filter(([name]) => /^zUpdate\w+Body$/.test(name))
    .filter(([, schema]) => JSON.stringify(schema.parse({})) !== '{}')
    .map(([name]) => name)
}

/** Changes the note of an order that has an address. Returns what the order has afterwards. */
export async function checkUpdates(baseUrl: string, headers: Credentials) {
  const client = createClient({ baseUrl })
  const product = await sdk.createProduct({
    client,
    headers,
    body: { sku: 'ZOD-1', name: 'Tea', price_amount: 1, stock: 5, status: 'active' },
    throwOnError: true,
  })
  const order = await sdk.createOrder({
    client,
    headers,
    body: {
      items: [{ product_id: product.data.data.id, quantity: 1 }],
      shipping_address: {
        name: 'Ada',
        line1: 'Main Street 1',
        city: 'Bern',
        postal_code: '3000',
        country: 'CH',
      },
    },
    throwOnError: true,
  })
  const changed = await sdk.updateOrder({
    client,
    headers,
    path: { id: order.data.data.id },
    body: { note: 'leave at the door' },
    throwOnError: true,
  })
  const { shipping_address, note } = changed.data.data
  return { changed: findChangingSchemas(), address: shipping_address?.name, note }
}
