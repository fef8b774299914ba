/** The reference server without Fastify: the same queries on `node:http`. */
import { createServer } from 'node:http'
import {
  createMeta,
  createProduct,
  listOrdersWithUsers,
  listProducts,
  listUsers,
  readProduct,
  setStock,
} from './queries.js'

const send = (response, status, body, headers = {}) => {
  const text = JSON.stringify(body)
  response
    .writeHead(status, {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(text),
      ...headers,
    })
    .end(text)
}

const readBody = (request) =>
  new Promise((resolve, reject) => {
    let text = ''
    request.setEncoding('utf8')
    request.on('data', (chunk) => {
      text += chunk
    })
    request.on('end', () => resolve(JSON.parse(text)))
    request.on('error', reject)
  })

const toEnvelope = ({ revision: _, ...data }) => ({ data, meta: createMeta() })
const toListEnvelope = (page) => ({ ...page, meta: createMeta() })
const sendNotFound = (response) => send(response, 404, { error: 'Not found' })

async function handleProduct(request, response, id) {
  if (request.method === 'PATCH') {
    const row = await setStock(id, (await readBody(request)).stock)
    return row ? send(response, 200, toEnvelope(row)) : sendNotFound(response)
  }
  const row = await readProduct(id)
  if (!row) return sendNotFound(response)
  const etag = `"${row.revision}"`
  if (request.headers['if-none-match'] === etag) return response.writeHead(304, { etag }).end()
  return send(response, 200, toEnvelope(row), { etag })
}

async function handleCollection(request, response, path, query) {
  if (request.method === 'POST') {
    const row = await createProduct(await readBody(request))
    return send(response, 201, toEnvelope(row), { location: `/products/${row.id}` })
  }
  if (path === '/products') return send(response, 200, toListEnvelope(await listProducts()))
  if (path === '/orders') return send(response, 200, toListEnvelope(await listOrdersWithUsers()))
  if (path !== '/users') return sendNotFound(response)
  const parameters = new URLSearchParams(query)
  const cursor = parameters.get('cursor') ?? undefined
  return send(response, 200, toListEnvelope(await listUsers(parameters.get('status'), cursor)))
}

const handleRequest = (request, response) => {
  const [path, query] = request.url.split('?')
  return path.startsWith('/products/')
    ? handleProduct(request, response, path.slice('/products/'.length))
    : handleCollection(request, response, path, query)
}

createServer((request, response) => {
  handleRequest(request, response).catch((error) => {
    console.error(error)
    if (!response.headersSent) send(response, 500, { error: 'Internal server error' })
  })
}).listen(Number(process.env.PORT), '127.0.0.1')

// Node.js writes a CPU profile only on a regular exit.
process.once('SIGTERM', () => process.exit())
