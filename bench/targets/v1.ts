/** The API of version 1, which the reference speaks too; only prefix and cursors differ. */
import type { Api, Position, Resource } from './target.ts'

const NEW = {
  sku: 'BENCH-#########',
  name: 'Practical Cotton Bench',
  description: 'Featuring unparalleled standard performance, with a seat for two',
  price_amount: 16_399,
  currency: 'USD',
  stock: 25,
  status: 'active',
}

/** What a created product is, by the members of version 1. */
export const newProduct: Resource = NEW

interface Envelope {
  data: Resource | Resource[]
}

export function version1(prefix: string, cursorOf: (position: Position) => string): Api {
  return {
    product: (id) => ({ method: 'GET', path: `${prefix}/products/${id}` }),
    newestProducts: () => ({ method: 'GET', path: `${prefix}/products` }),
    usersAfter: (position) => ({
      method: 'GET',
      path: `${prefix}/users?status=active&cursor=${cursorOf(position)}`,
    }),
    newestOrdersWithUsers: () => ({ method: 'GET', path: `${prefix}/orders?include=user` }),
    createProduct: () => ({ method: 'POST', path: `${prefix}/products`, body: JSON.stringify(NEW) }),
    setStock: ({ id }) => ({
      method: 'PATCH',
      path: `${prefix}/products/${id}`,
      body: '{"stock":#########}',
    }),
    resources: (text) => {
      const { data }: Envelope = JSON.parse(text)
      return Array.isArray(data) ? data : [data]
    },
    exact: true,
  }
}
