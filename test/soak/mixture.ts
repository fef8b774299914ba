/** The mix of requests of a load: the workloads of `bench/`, with equal shares. */
import { startFlags } from '../../bench/flags.ts'
import { type Client, createClient } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { type RunningProcess, startModule, startServer } from '../helpers/process.ts'

const KEY = 'soak-admin-key-soak-admin-key-soak-admin-key'
const WITHOUT_LIMIT = '1000000000'
const OPEN = {
  PORT: '0',
  ADMIN_API_KEY: KEY,
  LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn',
  RATE_LIMIT: WITHOUT_LIMIT,
  RATE_LIMIT_BURST: WITHOUT_LIMIT,
  RATE_LIMIT_ANONYMOUS: WITHOUT_LIMIT,
}
const USERS = '1000'
/** Of each workload. */
const DIFFERENT = 100

export interface Loaded {
  server: RunningProcess
  port: number
  admin: Client
  /** The head line that requests of the admin carry. */
  credential: string
  requests: string[]
}

export interface Served {
  settings: NodeJS.ProcessEnv
  /** The module that is run: `server.ts`, or `server.js` for what was built. */
  file: string
}

interface Page {
  data: { id: string }[]
  pagination: { cursor: string | null }
}

const credential = `X-API-Key: ${KEY}\r\n`

const text = (method: string, path: string, { body = '', head = '' } = {}) =>
  `${method} /api/v1${path} HTTP/1.1\r\nHost: localhost\r\n${credential}${head}` +
  `${body && `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`}\r\n${body}`

async function mixture(admin: Client): Promise<string[]> {
  const get = async (path: string) => {
    const { status, body, headers } = await admin.get(path)
    if (status !== 200) throw new Error(`GET ${path} is ${status}`)
    const page: Page = body
    return { page, headers }
  }
  const { page: products } = await get(`/products?limit=${DIFFERENT}`)
  const cursors: string[] = []
  for (let cursor: string | null = ''; cursor !== null && cursors.length < DIFFERENT; ) {
    const path: string = `/users?status=active&limit=5${cursor && `&cursor=${cursor}`}`
    cursor = (await get(path)).page.pagination.cursor
    if (cursor !== null) cursors.push(cursor)
  }
  const requests: string[] = []
  for (const [i, { id }] of products.data.entries()) {
    const member = `/products/${id}`
    // Half of them stay as they are, so that the tags of these stay good.
    const changed = `/products/${products.data[i - (i % 2)]?.id}`
    const kept = `/products/${products.data[i - (i % 2) + 1]?.id}`
    const etag = (await get(kept)).headers.get('etag')
    requests.push(text('GET', member))
    requests.push(text('GET', '/products'))
    requests.push(text('GET', `/users?status=active&cursor=${cursors[i % cursors.length]}`))
    requests.push(text('GET', '/orders?include=user'))
    requests.push(
      text('POST', '/users/me/posts', {
        body: JSON.stringify({ title: `Soaked ${i}`, body: 'x'.repeat(200) }),
      }),
    )
    requests.push(text('PATCH', changed, { body: JSON.stringify({ stock: 1_000 + i }) }))
    requests.push(text('GET', kept, { head: `If-None-Match: ${etag}\r\n` }))
  }
  return requests
}

/** A server on a seeded database, without limits, and what it can be asked for. */
export async function loaded(t: Owner, { settings, file }: Served): Promise<Loaded> {
  const { ended, output } = startModule(t, 'cli.js', settings, ['seed', '--users', USERS])
  const { code } = await ended
  if (code !== 0) throw new Error(`seed: ${output.err}`)
  const server = await startServer(t, { ...settings, ...OPEN }, file, startFlags)
  const admin = createClient(server.url, { 'x-api-key': KEY })
  return { server, port: Number(new URL(server.url).port), admin, credential, requests: await mixture(admin) }
}
