/** Starts a server on a seeded database, and prepares the requests of the bench workloads as bytes, in equal parts. */
import { startFlags } from '../../bench/start-flags.ts'
import { ADMIN_KEY, type Client } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { createDatabaseSettings, seedDatabase, startSoakServer } from './server.ts'

const SEEDED_USERS = 1_000
const REQUESTS_PER_WORKLOAD = 100

interface Page {
  data: { id: string }[]
  pagination: { cursor: string | null }
}

/** The header line with the administrator's key. */
export const CREDENTIAL = `X-API-Key: ${ADMIN_KEY}\r\n`

const formatRequest = (method: string, path: string, { body = '', headers = '' } = {}) =>
  `${method} /api/v1${path} HTTP/1.1\r\nHost: localhost\r\n${CREDENTIAL}${headers}` +
  `${body && `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`}\r\n${body}`

async function readPage(admin: Client, path: string) {
  const { status, body, headers } = await admin.get(path)
  if (status !== 200) throw new Error(`GET ${path} returned ${status}`)
  const page: Page = body
  return { page, headers }
}

async function readUserCursors(admin: Client): Promise<string[]> {
  const cursors: string[] = []
  for (let cursor: string | null = ''; cursor !== null && cursors.length < REQUESTS_PER_WORKLOAD; ) {
    const path: string = `/users?status=active&limit=5${cursor && `&cursor=${cursor}`}`
    cursor = (await readPage(admin, path)).page.pagination.cursor
    if (cursor !== null) cursors.push(cursor)
  }
  return cursors
}

async function createRequests(admin: Client): Promise<string[]> {
  const { page: products } = await readPage(admin, `/products?limit=${REQUESTS_PER_WORKLOAD}`)
  const cursors = await readUserCursors(admin)
  const requests: string[] = []
  for (const [i, { id }] of products.data.entries()) {
    // Half of the products are never changed, so that their entity tags stay valid.
    const changedPath = `/products/${products.data[i - (i % 2)]?.id}`
    const unchangedPath = `/products/${products.data[i - (i % 2) + 1]?.id}`
    const etag = (await readPage(admin, unchangedPath)).headers.get('etag')
    const post = JSON.stringify({ title: `Post ${i}`, body: 'x'.repeat(200) })
    requests.push(
      formatRequest('GET', `/products/${id}`),
      formatRequest('GET', '/products'),
      formatRequest('GET', `/users?status=active&cursor=${cursors[i % cursors.length]}`),
      formatRequest('GET', '/orders?include=user'),
      formatRequest('POST', '/users/me/posts', { body: post }),
      formatRequest('PATCH', changedPath, { body: JSON.stringify({ stock: 1_000 + i }) }),
      formatRequest('GET', unchangedPath, { headers: `If-None-Match: ${etag}\r\n` }),
    )
  }
  return requests
}

/** Seeds a new database, starts a server without rate limits on it, and creates the requests. */
export async function startSeededServer(t: Owner) {
  const settings = await createDatabaseSettings(t)
  await seedDatabase(t, settings, SEEDED_USERS)
  const server = await startSoakServer(t, { LOG_LEVEL: 'warn', ...settings }, startFlags)
  return { server, requests: await createRequests(server.admin) }
}
