/** Starts nginx, Caddy and HAProxy with their sample configurations in front of a service. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request as requestHttp } from 'node:http'
import { type RequestOptions, request as requestHttps } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Owner } from '../../packages/testing/helpers/database.ts'
import { createCertificate, findFreePort } from '../../packages/testing/helpers/network.ts'
import { waitUntil } from '../../packages/testing/helpers/time.ts'

export const HOST = 'api.example.com'

interface Ports {
  http: number
  https: number
  /** The ports of the two processes of the service. */
  one: number
  two: number
}

export interface ProxySample {
  name: string
  sample: string
  /** Returns the sample with the ports and the folder of the test. Throws if a text to replace is not in it. */
  adapt(sample: string, ports: Ports, folder: string): string
  /** The command line that starts the proxy in the foreground. */
  command(file: string, folder: string): readonly [string, ...string[]]
  /** Whether it stops sending requests to a process whose `/readyz` is 503. */
  checksReadiness: boolean
}

/** Replaces each text, which must occur. */
const replaceAll = (text: string, replacements: readonly (readonly [string, string])[]): string =>
  replacements.reduce((changed, [from, to]) => {
    if (!changed.includes(from)) throw new Error(`The sample has no "${from}"`)
    return changed.replaceAll(from, to)
  }, text)

export const proxies: readonly ProxySample[] = [
  {
    name: 'nginx',
    sample: 'nginx/resource-api.conf',
    adapt: (sample, { http, https, one, two }, folder) => {
      const site = replaceAll(sample, [
        ['listen 80;', `listen 127.0.0.1:${http};`],
        ['listen 443 ssl', `listen 127.0.0.1:${https} ssl`],
        ['127.0.0.1:3001', `127.0.0.1:${one}`],
        ['127.0.0.1:3002', `127.0.0.1:${two}`],
        ['/etc/ssl/resource-api/fullchain.pem', join(folder, 'cert.pem')],
        ['/etc/ssl/resource-api/privkey.pem', join(folder, 'key.pem')],
      ])
      const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
      return `daemon off; user root; worker_processes 1; error_log stderr; pid ${folder}/pid; events {}
http { access_log off; ${folders.map((name) => `${name}_temp_path ${folder}/${name};`).join(' ')}
${site} }`
    },
    command: (file, folder) => ['nginx', '-p', folder, '-c', file],
    checksReadiness: false,
  },
  {
    name: 'Caddy',
    sample: 'caddy/Caddyfile',
    adapt: (sample, { http, https, one, two }, folder) =>
      `{
	admin off
	auto_https disable_certs
	http_port ${http}
	https_port ${https}
	storage file_system ${folder}
}
${replaceAll(sample, [
  ['api.example.com {', `https://api.example.com {\n\ttls ${folder}/cert.pem ${folder}/key.pem`],
  ['reverse_proxy 127.0.0.1:3001 127.0.0.1:3002', `reverse_proxy 127.0.0.1:${one} 127.0.0.1:${two}`],
])}`,
    command: (file) => ['caddy', 'run', '--config', file, '--adapter', 'caddyfile'],
    checksReadiness: true,
  },
  {
    name: 'HAProxy',
    sample: 'haproxy/haproxy.cfg',
    adapt: (sample, { http, https, one, two }, folder) =>
      replaceAll(sample, [
        ['bind :80', `bind 127.0.0.1:${http}`],
        ['bind :443', `bind 127.0.0.1:${https}`],
        ['127.0.0.1:3001', `127.0.0.1:${one}`],
        ['127.0.0.1:3002', `127.0.0.1:${two}`],
        ['/etc/ssl/resource-api/fullchain-and-key.pem', join(folder, 'both.pem')],
      ]),
    command: (file) => ['haproxy', '-db', '-f', file],
    checksReadiness: true,
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

/**
 * Starts a proxy with its sample configuration in front of a service, and stops it after the test.
 * @param one the port of the first process
 * @param two the port of the second one; by default, the same process is both
 */
export async function startProxy(t: Owner, proxy: ProxySample, one: number, two = one) {
  const folder = mkdtempSync(join(tmpdir(), 'proxy-'))
  const ports = { http: await findFreePort(), https: await findFreePort(), one, two }
  const { TLS_KEY, TLS_CERT } = createCertificate(folder)
  writeFileSync(join(folder, 'both.pem'), readFileSync(TLS_CERT, 'utf8') + readFileSync(TLS_KEY, 'utf8'))
  const sample = readFileSync(fileURLToPath(new URL(`../${proxy.sample}`, import.meta.url)), 'utf8')
  const file = join(folder, 'configuration')
  writeFileSync(file, proxy.adapt(sample, ports, folder))
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
  return { port: ports.https, read, readPlain }
}
