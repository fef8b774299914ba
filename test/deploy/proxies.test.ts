/** The sample configurations of nginx, Caddy and HAProxy: TLS, the address of the client, /metrics, large requests. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request as requestHttp } from 'node:http'
import { type RequestOptions, request as requestHttps } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { createCertificate } from '../helpers/certificate.ts'
import { findFreePort } from '../helpers/listen.ts'
import { createServerSettings, startServer } from '../helpers/process.ts'
import { waitUntil } from '../helpers/wait-until.ts'
import { writeText } from './render-chart.ts'

const HOST = 'api.example.com'

interface Ports {
  http: number
  https: number
  /** The port of the service. */
  service: number
}

interface Proxy {
  name: string
  sample: string
  /** Returns the sample with the ports and the folder of the test. Throws if a text to replace is not in it. */
  adapt(sample: string, ports: Ports, folder: string): string
  /** The command line that starts the proxy in the foreground. */
  command(file: string, folder: string): readonly [string, ...string[]]
  /** How it answers plain HTTP. */
  redirect: number
}

/** Replaces each text, which must occur. */
const replaceAll = (text: string, replacements: readonly (readonly [string, string])[]): string =>
  replacements.reduce((changed, [from, to]) => {
    if (!changed.includes(from)) throw new Error(`The sample has no "${from}"`)
    return changed.replaceAll(from, to)
  }, text)

const proxies: Proxy[] = [
  {
    name: 'nginx',
    sample: 'nginx/resource-api.conf',
    adapt: (sample, { http, https, service }, folder) => {
      const site = replaceAll(sample, [
        ['listen 80;', `listen 127.0.0.1:${http};`],
        ['listen 443 ssl', `listen 127.0.0.1:${https} ssl`],
        ['127.0.0.1:3001', `127.0.0.1:${service}`],
        ['server 127.0.0.1:3002;', ''],
        ['/etc/ssl/resource-api/fullchain.pem', join(folder, 'cert.pem')],
        ['/etc/ssl/resource-api/privkey.pem', join(folder, 'key.pem')],
      ])
      const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
      return `daemon off; user root; worker_processes 1; error_log stderr; pid ${folder}/pid; events {}
http { access_log off; ${folders.map((name) => `${name}_temp_path ${folder}/${name};`).join(' ')}
${site} }`
    },
    command: (file, folder) => ['nginx', '-p', folder, '-c', file],
    redirect: 308,
  },
  {
    name: 'Caddy',
    sample: 'caddy/Caddyfile',
    adapt: (sample, { http, https, service }, folder) =>
      `{
	admin off
	auto_https disable_certs
	http_port ${http}
	https_port ${https}
	storage file_system ${folder}
}
${replaceAll(sample, [
  ['api.example.com {', `https://api.example.com {\n\ttls ${folder}/cert.pem ${folder}/key.pem`],
  ['reverse_proxy 127.0.0.1:3001 127.0.0.1:3002', `reverse_proxy 127.0.0.1:${service}`],
])}`,
    command: (file) => ['caddy', 'run', '--config', file, '--adapter', 'caddyfile'],
    redirect: 308,
  },
  {
    name: 'HAProxy',
    sample: 'haproxy/haproxy.cfg',
    adapt: (sample, { http, https, service }, folder) =>
      replaceAll(sample, [
        ['bind :80', `bind 127.0.0.1:${http}`],
        ['bind :443', `bind 127.0.0.1:${https}`],
        ['127.0.0.1:3001', `127.0.0.1:${service}`],
        ['  server two 127.0.0.1:3002 check inter 2s\n', ''],
        ['/etc/ssl/resource-api/fullchain-and-key.pem', join(folder, 'both.pem')],
      ]),
    command: (file) => ['haproxy', '-db', '-f', file],
    redirect: 308,
  },
]

interface Reply {
  status: number
  headers: NodeJS.Dict<string | string[]>
  body: string
}

async function send(
  request: typeof requestHttps | typeof requestHttp,
  options: RequestOptions,
  body = '',
): Promise<Reply> {
  const sent = request({ host: '127.0.0.1', rejectUnauthorized: false, servername: HOST, ...options })
  sent.end(body)
  const [response] = await once(sent, 'response')
  let text = ''
  for await (const chunk of response.setEncoding('utf8')) text += chunk
  return { status: response.statusCode, headers: response.headers, body: text }
}

/** Starts a proxy with its sample configuration in front of a service. Returns functions that send requests to it. */
async function startProxy(t: Test, proxy: Proxy, service: number) {
  const folder = mkdtempSync(join(tmpdir(), 'proxy-'))
  const ports = { http: await findFreePort(), https: await findFreePort(), service }
  const { TLS_KEY, TLS_CERT } = createCertificate(folder)
  writeText(folder, 'both.pem', readFileSync(TLS_CERT, 'utf8') + readFileSync(TLS_KEY, 'utf8'))
  const sample = readFileSync(fileURLToPath(new URL(`../../deploy/${proxy.sample}`, import.meta.url)), 'utf8')
  const file = writeText(folder, 'configuration', proxy.adapt(sample, ports, folder))
  const [program, ...args] = proxy.command(file, folder)
  const environment = { PATH: `${process.env.PATH}:/usr/sbin`, HOME: folder }
  const child = spawn(program, args, { env: environment, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text))
  const ended = once(child, 'close')
  t.teardown(async () => {
    child.kill()
    await ended
    rmSync(folder, { recursive: true })
  })
  const read = (options: RequestOptions = {}, body = '') =>
    send(requestHttps, { port: ports.https, ...options, headers: { Host: HOST, ...options.headers } }, body)
  await waitUntil(async () => {
    if (child.exitCode !== null) throw new Error(output)
    return read({ path: '/readyz' }).then(
      ({ status }) => status === 200,
      () => false,
    )
  })
  const readPlain = (path: string) => send(requestHttp, { port: ports.http, path, headers: { Host: HOST } })
  return { read, readPlain }
}

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

for (const proxy of proxies) {
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
    t.equal(plain.status, proxy.redirect)
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
    const refused = await read(
      { path: '/products', method: 'POST', headers: { ...KEY, 'Content-Type': 'application/json' } },
      big,
    )
    t.match(
      [refused.status, refused.body],
      [413, /PAYLOAD_TOO_LARGE/],
      "a large body has the service's error",
    )

    const tag = await read({ path: '/users/me', headers: KEY })
    const again = await read({
      path: '/users/me',
      headers: { ...KEY, 'If-None-Match': String(tag.headers.etag) },
    })
    t.equal(again.status, 304)
  })
}
