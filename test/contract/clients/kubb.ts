/** The client of Kubb. Its functions name the body of a success alone. */
import * as api from '../.generated/clients/v1/kubb/client.ts'
import type { Client } from './conversation.ts'
import { toPageReply, toReply } from './reply.ts'

export function createClient(baseURL: string): Client {
  return {
    signIn: async (email, password) => {
      const { status, headers, data } = await api.createToken(
        { grant_type: 'password', email, password },
        { baseURL },
      )
      return toReply(status, headers, data)
    },
    listProducts: async (credentials, query) => {
      const { status, headers, data } = await api.listProducts(query, {}, { baseURL, headers: credentials })
      return toPageReply(toReply(status, headers, data))
    },
    getProduct: async (credentials, id) => {
      const { status, headers, data } = await api.getProduct(id, {}, {}, { baseURL, headers: credentials })
      return toReply(status, headers, data)
    },
    createProduct: async (credentials, product, key) => {
      const own = key === undefined ? {} : { 'Idempotency-Key': key }
      const { status, headers, data } = await api.createProduct(product, own, {
        baseURL,
        headers: credentials,
      })
      return toReply(status, headers, data)
    },
    updateProduct: async (credentials, id, changes, tag) => {
      const own = tag === undefined ? {} : { 'If-Match': tag }
      const { status, headers, data } = await api.updateProduct(id, changes, own, {
        baseURL,
        headers: credentials,
      })
      return toReply(status, headers, data)
    },
  }
}
