/** The client of Hey API. It validates request bodies with Zod before it sends them. */
import { createClient as createFetchClient } from '../.generated/clients/v1/hey-api/client/index.ts'
import * as sdk from '../.generated/clients/v1/hey-api/sdk.gen.ts'
import type { Client, Failure, Reply } from './conversation.ts'
import { toPageReply } from './reply.ts'

const toReply = <Body>(result: {
  data?: Body
  error?: { error: Failure } | undefined
  response?: Response
}): Reply<Body> => ({
  status: result.response?.status ?? 0,
  headers: result.response?.headers ?? new Headers(),
  body: result.data,
  error: result.error?.error,
})

export function createClient(baseUrl: string): Client {
  const client = createFetchClient({ baseUrl })
  return {
    signIn: async (email, password) =>
      toReply(await sdk.createToken({ client, body: { grant_type: 'password', email, password } })),
    listProducts: async (headers, query) =>
      toPageReply(toReply(await sdk.listProducts({ client, headers, query }))),
    getProduct: async (headers, id) => toReply(await sdk.getProduct({ client, headers, path: { id } })),
    createProduct: async (headers, body, key) => {
      const all = key === undefined ? headers : { ...headers, 'Idempotency-Key': key }
      return toReply(await sdk.createProduct({ client, headers: all, body }))
    },
    updateProduct: async (headers, id, body, tag) => {
      const all = tag === undefined ? headers : { ...headers, 'If-Match': tag }
      return toReply(await sdk.updateProduct({ client, headers: all, path: { id }, body }))
    },
  }
}
