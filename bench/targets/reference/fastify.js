/**
 * The reference server: Fastify, hand-written SQL and response schemas. If API_KEY is set, it has the features of this
 * service, by hand.
 */
import { randomUUID } from 'node:crypto'
import Fastify from 'fastify'
import { addFeatures, recordedWrites } from './features.js'
import {
  createMeta,
  createProduct,
  listOrdersWithUsers,
  listProducts,
  listUsers,
  readProduct,
  setStock,
} from './queries.js'
import { bodies, params, queries, responses } from './schemas.js'

const apiKey = process.env.API_KEY
const app = Fastify({ ...(apiKey && { genReqId: () => randomUUID() }) })
if (apiKey) await addFeatures(app, apiKey)
const writes = apiKey ? recordedWrites : { createProduct, setStock }

const sendNotFound = (reply) => reply.code(404).send({ error: 'Product not found' })

/** @param requestParts schemas that only the server with features validates */
const schema = (response, requestParts) => ({ schema: { response, ...(apiKey && requestParts) } })

app.get('/products', schema(responses.products, { querystring: queries.list }), async () => ({
  ...(await listProducts()),
  meta: createMeta(),
}))

app.get('/products/:id', { schema: { params, response: responses.product } }, async (request, reply) => {
  const row = await readProduct(request.params.id)
  if (!row) return sendNotFound(reply)
  const etag = `"${row.revision}"`
  reply.header('etag', etag)
  if (request.headers['if-none-match'] === etag) return reply.code(304).send()
  return { data: row, meta: createMeta() }
})

app.post('/products', schema(responses.product, { body: bodies.newProduct }), async (request, reply) => {
  const row = await writes.createProduct(request.body, request)
  reply.code(201).header('location', `/products/${row.id}`)
  return { data: row, meta: createMeta() }
})

app.patch(
  '/products/:id',
  schema(responses.product, { params, body: bodies.changedProduct }),
  async (request, reply) => {
    const row = await writes.setStock(request.params.id, request.body.stock, request)
    return row ? { data: row, meta: createMeta() } : sendNotFound(reply)
  },
)

app.get('/users', schema(responses.users, { querystring: queries.list }), async ({ query }) => ({
  ...(await listUsers(query.status, query.cursor)),
  meta: createMeta(),
}))

app.get('/orders', schema(responses.orders, { querystring: queries.list }), async () => ({
  ...(await listOrdersWithUsers()),
  meta: createMeta(),
}))

await app.listen({ port: Number(process.env.PORT), host: process.env.HOST ?? '127.0.0.1' })

// Node.js writes a CPU profile only on a regular exit.
process.once('SIGTERM', () => process.exit())
