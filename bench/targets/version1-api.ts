/** Creates the requests of version 1 of this API, which the reference servers implement as well. */
import type { Position } from '../rows.ts'
import type { Api, Resource } from './target.ts'

const NEW_PRODUCT = {
  sku: 'BENCH-#########',
  name: 'Practical Cotton Bench',
  description: 'Featuring unparalleled standard performance, with a seat for two',
  price_amount: 16_399,
  currency: 'USD',
  stock: 25,
  status: 'active',
}

/** The body of a creation; `sku` has a placeholder. */
export const newProduct: Resource = NEW_PRODUCT

interface Envelope {
  data: Resource | Resource[]
}

/** Removes the field of users that the other targets do not have. */
const omitOwnField = (name: string, value: unknown) => (name === 'email_verified_at' ? undefined : value)

/** @param getCursor returns the cursor of the page after a position */
export function createVersion1Api(prefix: string, getCursor: (position: Position) => string): Api {
  return {
    product: (id) => ({ method: 'GET', path: `${prefix}/products/${id}` }),
    newestProducts: () => ({ method: 'GET', path: `${prefix}/products` }),
    usersAfter: (position) => ({
      method: 'GET',
      path: `${prefix}/users?status=active&cursor=${getCursor(position)}`,
    }),
    newestOrdersWithUsers: () => ({ method: 'GET', path: `${prefix}/orders?include=user` }),
    createProduct: () => ({ method: 'POST', path: `${prefix}/products`, body: JSON.stringify(NEW_PRODUCT) }),
    setStock: ({ id }) => ({
      method: 'PATCH',
      path: `${prefix}/products/${id}`,
      body: '{"stock":#########}',
    }),
    resources: (text) => {
      const { data }: Envelope = JSON.parse(text, omitOwnField)
      return Array.isArray(data) ? data : [data]
    },
    hasVersion1Envelope: true,
  }
}
