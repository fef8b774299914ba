/**
 * The sample configurations of nginx, Caddy and HAProxy: TLS, the address of the client, /metrics, large requests, and
 * that no write is sent twice.
 */
import { spawnSync } from 'node:child_process'
import { createServer } from 'node:http'
import t, { type Test } from 'tap'
import { listen } from '../../packages/testing/helpers/network.ts'
import { createServerSettings, startServer } from '../../packages/testing/helpers/process.ts'
import { waitUntil } from '../../packages/testing/helpers/time.ts'
import { proxies, startProxy } from './start-proxy.ts'

const METRICS_TOKEN = 'metrics-token-metrics-token'
const { url, output } = await startServer(t, {
  ...(await createServerSettings(t)),
  NODE_ENV: 'production',
  TRUST_PROXY: '127.0.0.1',
  HOST: '127.0.0.1',
  SHUTDOWN_DELAY: '0',
  ADMIN_API_KEY: 'key-of-the-proxy-test-key-of-the-proxy-test',
  METRICS_TOKEN,
})
const service = Number(new URL(url).port)
const KEY = { 'X-API-Key': 'key-of-the-proxy-test-key-of-the-proxy-test' }

/** Starts a service that closes the connection of each request to `/lost`, and refuses those to `/busy` with 503. */
async function startFailingService(t: Test) {
  const received: string[] = []
  const server = createServer((request, response) => {
    if (request.url === '/readyz') return response.end()
    received.push(`${request.method} ${request.url}`)
    request.resume().on('end', () => {
      if (request.url === '/lost') request.socket.destroy()
      else response.writeHead(503).end()
    })
  })
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { received, port: await listen(server) }
}

for (const proxy of proxies) {
  t.test(`${proxy.name} sends no write twice that a process may have carried out`, async (t) => {
    const { received, port } = await startFailingService(t)
    const { read } = await startProxy(t, proxy, port)
    // HAProxy closes the client's connection too, if the process closed one that had served a request.
    const send = (method: string, path: string) =>
      read({ method, path }).then(
        ({ status }) => status,
        (error: NodeJS.ErrnoException) => error.code,
      )
    for (const method of ['PUT', 'DELETE', 'POST', 'PATCH']) {
      for (const path of ['/lost', '/busy']) {
        // After a failure, nginx sends the process nothing for 2 s.
        await waitUntil(async () => (await send('GET', '/readyz')) === 200)
        received.length = 0
        const status = await send(method, path)
        t.ok(
          (path === '/lost' ? [502, 'ECONNRESET'] : [503]).includes(status ?? 0),
          `${method} ${path}: ${status}`,
        )
        t.same(received, [`${method} ${path}`])
      }
    }
  })

  t.test(`the sample of ${proxy.name} works`, async (t) => {
    t.equal(
      spawnSync(proxy.command('', '')[0], ['-v'], { env: { PATH: `${process.env.PATH}:/usr/sbin` } }).error,
      undefined,
    )
    const { read, readPlain } = await startProxy(t, proxy, service)

    const list = await read({ path: '/products', headers: { ...KEY, 'X-Request-Id': `list-${proxy.name}` } })
    t.equal(list.status, 200, 'a request over HTTPS')
    t.ok(list.headers['strict-transport-security'])

    const plain = await readPlain('/products?limit=5')
    t.equal(plain.status, 308)
    t.equal(new URL(String(plain.headers.location)).pathname, '/products')
    t.match(plain.headers.location, /^https:/)

    t.equal(
      (await read({ path: '/metrics', headers: { Authorization: `Bearer ${METRICS_TOKEN}` } })).status,
      404,
    )

    const spoofed = await read({
      path: '/products',
      headers: { ...KEY, 'X-Forwarded-For': '203.0.113.7', 'X-Request-Id': `spoofed-${proxy.name}` },
    })
    t.equal(spoofed.status, 200)
    await waitUntil(() => output.out.includes(`spoofed-${proxy.name}`))
    t.notMatch(output.out, '203.0.113.7', 'the address in the log is that of the connection')

    const big = JSON.stringify({ sku: 'BIG', name: 'x'.repeat(1_100_000), price_amount: 1 })
    // Not once: where the service closes the connection while the body arrives, a few are lost.
    for (let i = 0; i < 20; i++) {
      const refused = await read(
        { path: '/products', method: 'POST', headers: { ...KEY, 'Content-Type': 'application/json' } },
        big,
      )
      t.match(
        [refused.status, refused.body],
        [413, /PAYLOAD_TOO_LARGE/],
        "a large body has the service's error",
      )
    }

    const { headers } = await read({ path: '/users/me', headers: KEY })
    const conditional = { ...KEY, 'If-None-Match': String(headers.etag) }
    t.equal((await read({ path: '/users/me', headers: conditional })).status, 304)
  })
}
