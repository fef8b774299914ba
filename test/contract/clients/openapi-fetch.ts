/** The types of openapi-typescript with openapi-fetch. */
import createFetchClient from 'openapi-fetch'
import type { paths } from '../.generated/clients/v1/openapi-typescript.ts'
import type { Client, Failure, Reply } from './conversation.ts'
import { toPageReply } from './reply.ts'

const toReply = <Body>(result: {
  data?: Body
  error?: { error: Failure }
  response: Response
}): Reply<Body> => ({
  status: result.response.status,
  headers: result.response.headers,
  body: result.data,
  error: result.error?.error,
})

const LISTS = { array: { style: 'form', explode: false } } as const

export function createClient(baseUrl: string): Client {
  const api = createFetchClient<paths>({ baseUrl, querySerializer: LISTS })
  return {
    signIn: async (email, password) =>
      toReply(await api.POST('/api/v1/tokens', { body: { grant_type: 'password', email, password } })),
    listProducts: async (headers, query) =>
      toPageReply(toReply(await api.GET('/api/v1/products', { headers, params: { query } }))),
    getProduct: async (headers, id) =>
      toReply(await api.GET('/api/v1/products/{id}', { headers, params: { path: { id } } })),
    createProduct: async (headers, body, key) => {
      const header = key === undefined ? {} : { 'Idempotency-Key': key }
      return toReply(await api.POST('/api/v1/products', { headers, body, params: { header } }))
    },
    updateProduct: async (headers, id, body, tag) => {
      const header = tag === undefined ? {} : { 'If-Match': tag }
      const params = { path: { id }, header }
      return toReply(await api.PATCH('/api/v1/products/{id}', { headers, body, params }))
    },
  }
}
