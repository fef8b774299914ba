/** The client of orval. It calls the server that the document names. */
import * as api from '../.generated/clients/v1/orval/api.ts'
import type { Client } from './conversation.ts'
import { toPageReply, toReply } from './reply.ts'

export function createClient(): Client {
  return {
    signIn: async (email, password) => {
      const { status, headers, data } = await api.createToken({ grant_type: 'password', email, password })
      return toReply<api.TokenReply>(status, headers, data)
    },
    listProducts: async (credentials, query) => {
      const { status, headers, data } = await api.listProducts(query, { headers: credentials })
      return toPageReply(toReply<api.ProductPage>(status, headers, data ?? undefined))
    },
    getProduct: async (credentials, id) => {
      const { status, headers, data } = await api.getProduct(id, {}, { headers: credentials })
      return toReply<api.ProductReply>(status, headers, data ?? undefined)
    },
    createProduct: async (credentials, product, key) => {
      const all = key === undefined ? credentials : { ...credentials, 'Idempotency-Key': key }
      const { status, headers, data } = await api.createProduct(product, { headers: all })
      return toReply<api.ProductReply>(status, headers, data)
    },
    updateProduct: async (credentials, id, changes, tag) => {
      const all = tag === undefined ? credentials : { ...credentials, 'If-Match': tag }
      const { status, headers, data } = await api.updateProduct(id, changes, { headers: all })
      return toReply<api.ProductReply>(status, headers, data)
    },
  }
}
