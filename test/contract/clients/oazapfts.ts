/** The client of oazapfts. */
import * as api from '../.generated/clients/v1/oazapfts.ts'
import type { Client } from './conversation.ts'
import { toPageReply, toReply } from './reply.ts'

export function createClient(baseUrl: string): Client {
  return {
    signIn: async (email, password) => {
      const grant = { grant_type: 'password' as const, email, password }
      const { status, headers, data } = await api.createToken(grant, { baseUrl })
      return toReply<api.TokenReply>(status, headers, data)
    },
    listProducts: async (headers, query) => {
      const reply = await api.listProducts(query, { baseUrl, headers })
      return toPageReply(
        toReply<api.ProductPage>(reply.status, reply.headers, 'data' in reply ? reply.data : undefined),
      )
    },
    getProduct: async (headers, id) => {
      const reply = await api.getProduct(id, {}, { baseUrl, headers })
      return toReply<api.ProductReply>(reply.status, reply.headers, 'data' in reply ? reply.data : undefined)
    },
    createProduct: async (headers, product, idempotencyKey) => {
      const reply = await api.createProduct(product, { idempotencyKey }, { baseUrl, headers })
      return toReply<api.ProductReply>(reply.status, reply.headers, reply.data)
    },
    updateProduct: async (headers, id, changes, ifMatch) => {
      const reply = await api.updateProduct(id, changes, { ifMatch }, { baseUrl, headers })
      return toReply<api.ProductReply>(reply.status, reply.headers, reply.data)
    },
  }
}
