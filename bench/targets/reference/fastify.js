/** The reference server: Fastify, hand-written SQL and response schemas, without authentication, limits and validation. */
import Fastify from 'fastify'
import {
  createMeta,
  createProduct,
  listOrdersWithUsers,
  listProducts,
  listUsers,
  readProduct,
  setStock,
} from './queries.js'
import { params, responses } from './schemas.js'

const app = Fastify()

const sendNotFound = (reply) => reply.code(404).send({ error: 'Product not found' })

app.get('/products', { schema: { response: responses.products } }, async () => ({
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

app.post('/products', { schema: { response: responses.product } }, async (request, reply) => {
  const row = await createProduct(request.body)
  reply.code(201).header('location', `/products/${row.id}`)
  return { data: row, meta: createMeta() }
})

app.patch('/products/:id', { schema: { params, response: responses.product } }, async (request, reply) => {
  const row = await setStock(request.params.id, request.body.stock)
  return row ? { data: row, meta: createMeta() } : sendNotFound(reply)
})

app.get('/users', { schema: { response: responses.users } }, async ({ query: { status, cursor } }) => ({
  ...(await listUsers(status, cursor)),
  meta: createMeta(),
}))

app.get('/orders', { schema: { response: responses.orders } }, async () => ({
  ...(await listOrdersWithUsers()),
  meta: createMeta(),
}))

await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' })

// Node.js writes a CPU profile only on a regular exit.
process.once('SIGTERM', () => process.exit())
