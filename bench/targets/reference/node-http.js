/** The same queries under bare `node:http`: what Fastify itself costs, and gives. */
import { createServer } from 'node:http'
import {
  createProduct,
  listOrdersWithUsers,
  listProducts,
  listUsers,
  meta,
  readProduct,
  setStock,
} from './queries.js'

const send = (reply, status, body, headers = {}) => {
  const text = JSON.stringify(body)
  reply
    .writeHead(status, {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(text),
      ...headers,
    })
    .end(text)
}

const bodyOf = (request) =>
  new Promise((resolve, reject) => {
    let text = ''
    request.setEncoding('utf8')
    request.on('data', (part) => {
      text += part
    })
    request.on('end', () => resolve(JSON.parse(text)))
    request.on('error', reject)
  })

const one = ({ revision: _, ...data }) => ({ data, meta: meta() })
const many = (found) => ({ ...found, meta: meta() })
const missing = (reply) => send(reply, 404, { error: 'There is no such thing' })

async function member(request, reply, id) {
  if (request.method === 'PATCH') {
    const row = await setStock(id, (await bodyOf(request)).stock)
    return row ? send(reply, 200, one(row)) : missing(reply)
  }
  const row = await readProduct(id)
  if (!row) return missing(reply)
  const etag = `"${row.revision}"`
  if (request.headers['if-none-match'] === etag) return reply.writeHead(304, { etag }).end()
  return send(reply, 200, one(row), { etag })
}

async function collection(request, reply, path, query) {
  if (request.method === 'POST') {
    const row = await createProduct(await bodyOf(request))
    return send(reply, 201, one(row), { location: `/products/${row.id}` })
  }
  if (path === '/products') return send(reply, 200, many(await listProducts()))
  if (path === '/orders') return send(reply, 200, many(await listOrdersWithUsers()))
  if (path !== '/users') return missing(reply)
  const parameters = new URLSearchParams(query)
  const cursor = parameters.get('cursor') ?? undefined
  return send(reply, 200, many(await listUsers(parameters.get('status'), cursor)))
}

const answer = (request, reply) => {
  const [path, query] = request.url.split('?')
  return path.startsWith('/products/')
    ? member(request, reply, path.slice('/products/'.length))
    : collection(request, reply, path, query)
}

createServer((request, reply) => {
  answer(request, reply).catch((error) => {
    console.error(error)
    if (!reply.headersSent) send(reply, 500, { error: 'Something went wrong' })
  })
}).listen(Number(process.env.PORT), '127.0.0.1')

// So that a profile is written.
process.once('SIGTERM', () => process.exit())
