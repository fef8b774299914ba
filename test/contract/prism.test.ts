/** Prism stands between a client and the server, and finds no request and no response outside the document. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import type { Owner } from '../helpers/database.ts'
import { findFreePort } from '../helpers/network.ts'
import { waitUntil } from '../helpers/time.ts'
import { ADMIN, saveDocument, startFreshServer } from './documents.ts'
import { folder } from './run-tool.ts'

/** Starts the validating proxy. Returns its address. */
async function startProxy(t: Owner, document: string, upstream: string): Promise<string> {
  const port = String(await findFreePort())
  const prism = spawn(
    `${folder}node_modules/.bin/prism`,
    ['proxy', document, upstream, '--port', port, '--errors', '--verboseLevel', 'error'],
    { stdio: 'inherit' },
  )
  const ended = once(prism, 'close')
  t.teardown(async () => {
    prism.kill()
    await ended
  })
  const url = `http://127.0.0.1:${port}`
  await waitUntil(() =>
    fetch(`${url}/livez`).then(
      ({ ok }) => ok,
      () => false,
    ),
  )
  return url
}

interface Exchange {
  request: string
  status: number
  /** What Prism objects to. */
  violations: unknown
  etag: string | undefined
  data: Record<string, unknown>
}

async function send(url: string, method: string, path: string, body?: unknown): Promise<Exchange> {
  const headers = {
    'x-api-key': ADMIN.key,
    ...(body !== undefined && { 'content-type': 'application/json' }),
  }
  const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) }
  const response = await fetch(`${url}/api/v1${path}`, init)
  const text = await response.text()
  const reply = text === '' ? {} : JSON.parse(text)
  return {
    request: `${method} ${path}`,
    status: response.status,
    violations: response.headers.get('content-type')?.includes('problem') ? reply : undefined,
    etag: response.headers.get('etag') ?? undefined,
    data: reply.data ?? {},
  }
}

t.test('Prism accepts requests and responses, and a PUT of what was read', async (t) => {
  const upstream = await startFreshServer(t)
  const url = await startProxy(t, await saveDocument(upstream, 'v1', 'prism'), upstream)
  const product = { sku: 'TEA', name: 'Tea', price_amount: 1999, stock: 10, status: 'active' }

  /** Creates, lists, reads, replaces with what was read, changes and deletes a resource. */
  const checkResource = async (path: string, body: unknown, changes: unknown) => {
    const created = await send(url, 'POST', path, body)
    const own = `${path}/${created.data.id}`
    const read = await send(url, 'GET', own)
    const exchanges = [
      created,
      read,
      await send(url, 'GET', `${path}?limit=1`),
      await send(url, 'GET', `${path}?page=1`),
      await send(url, 'PUT', own, read.data),
      await send(url, 'PATCH', own, changes),
      await send(url, 'DELETE', own),
    ]
    for (const { request, status, violations } of exchanges) {
      const expected = request.startsWith('POST') ? 201 : request.startsWith('DELETE') ? 204 : 200
      t.strictSame({ status, violations }, { status: expected, violations: undefined }, request)
    }
  }

  await checkResource('/users', { name: 'Ada', email: 'ada@example.com' }, { name: 'Ada Lovelace' })
  await checkResource('/users/me/posts', { title: 'First', body: 'Text' }, { status: 'published' })
  await checkResource('/user-profiles', { display_name: 'Ada' }, { bio: null })
  await checkResource('/products', product, { stock: 25 })
  const { data } = await send(url, 'POST', '/products', { ...product, sku: 'COFFEE' })
  const address = { name: 'Ada', line1: 'Main Street 1', city: 'Bern', postal_code: '3000', country: 'CH' }
  const order = { items: [{ product_id: data.id, quantity: 1 }], shipping_address: address }
  await checkResource('/orders', order, { note: 'leave at the door' })
})
