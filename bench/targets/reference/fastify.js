/** The reference: bare Fastify, hand-written SQL, response schemas; no credentials, limits, headers or checks. */
import Fastify from 'fastify'
import {
  createProduct,
  listOrdersWithUsers,
  listProducts,
  listUsers,
  meta,
  readProduct,
  setStock,
} from './queries.js'
import { params, replies } from './schemas.js'

const app = Fastify()

const missing = (reply) => reply.code(404).send({ error: 'There is no such product' })

app.get('/products', { schema: { response: replies.products } }, async () => ({
  ...(await listProducts()),
  meta: meta(),
}))

app.get('/products/:id', { schema: { params, response: replies.product } }, async (request, reply) => {
  const row = await readProduct(request.params.id)
  if (!row) return missing(reply)
  const tag = `"${row.revision}"`
  reply.header('etag', tag)
  if (request.headers['if-none-match'] === tag) return reply.code(304).send()
  return { data: row, meta: meta() }
})

app.post('/products', { schema: { response: replies.product } }, async (request, reply) => {
  const row = await createProduct(request.body)
  reply.code(201).header('location', `/products/${row.id}`)
  return { data: row, meta: meta() }
})

app.patch('/products/:id', { schema: { params, response: replies.product } }, async (request, reply) => {
  const row = await setStock(request.params.id, request.body.stock)
  return row ? { data: row, meta: meta() } : missing(reply)
})

app.get('/users', { schema: { response: replies.users } }, async ({ query: { status, cursor } }) => ({
  ...(await listUsers(status, cursor)),
  meta: meta(),
}))

app.get('/orders', { schema: { response: replies.orders } }, async () => ({
  ...(await listOrdersWithUsers()),
  meta: meta(),
}))

await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' })

// So that a profile is written.
process.once('SIGTERM', () => process.exit())
