/** HTTPS is served or required as configured; only trusted proxies may name the protocol and the client's address. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type IncomingMessage, request as plain } from 'node:http'
import { request as encrypted } from 'node:https'
import { connect as connectPlain } from 'node:net'
import { connect, type SecureVersion } from 'node:tls'
import t from 'tap'
import { ADMIN_KEY, testApp } from '../../../testing/helpers/app.ts'
import { keepOpen, testDatabase, testFolder } from '../../../testing/helpers/database.ts'
import { createCertificate } from '../../../testing/helpers/network.ts'

const database = await testDatabase(t)
const kept = { database: keepOpen(database) }

const folder = testFolder(t)
const TLS = createCertificate(folder)
const ca = readFileSync(TLS.TLS_CERT)

const METRICS_TOKEN = 'metrics-token-metrics-token'
const PRODUCTION = { NODE_ENV: 'production', SHUTDOWN_DELAY: '0', METRICS_TOKEN }
const HSTS = 'strict-transport-security'

interface Ask {
  port: number
  path?: string
  method?: string
  headers?: Record<string, string | string[]>
  /** The client's own address; all of 127.0.0.0/8 is this machine. */
  from?: string
  body?: string
}

/** One request on a connection of its own. */
async function ask(
  send: typeof plain,
  { port, path = '/livez', method = 'GET', headers = {}, from, body }: Ask,
) {
  const address = { host: '127.0.0.1', servername: 'localhost', ca, port, path }
  const local = from === undefined ? {} : { localAddress: from }
  const sent = send({ ...address, ...local, method, headers, agent: false })
  sent.end(body)
  const [reply]: IncomingMessage[] = await once(sent, 'response')
  if (!reply) throw new Error('no reply')
  const text = Buffer.concat(await reply.toArray()).toString()
  return {
    status: reply.statusCode,
    headers: reply.headers,
    body: /json/.test(String(reply.headers['content-type'])) ? JSON.parse(text) : text,
  }
}

const PRODUCTS = '/api/v1/products'
const KEY = { 'x-api-key': ADMIN_KEY }

t.test('with TLS_KEY and TLS_CERT the service uses HTTPS, with Strict-Transport-Security', async (t) => {
  const { port } = await testApp(t, TLS, kept)
  for (const [path, headers, status] of [
    [PRODUCTS, KEY, 200],
    [PRODUCTS, {}, 401],
    ['/docs/', {}, 200],
  ] as const) {
    const reply = await ask(encrypted, { port, path, headers })
    t.same([reply.status, reply.headers[HSTS]], [status, 'max-age=31536000'])
  }

  const hello = async (version: SecureVersion) => {
    const address = { port, host: '127.0.0.1', servername: 'localhost', ca }
    const versions = { minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' }
    const socket = connect({ ...address, ...versions })
    await once(socket, 'secureConnect')
    const spoken = socket.getProtocol()
    socket.destroy()
    return spoken
  }
  for (const version of ['TLSv1.3', 'TLSv1.2'] as const) t.equal(await hello(version), version)
  await t.rejects(hello('TLSv1.1'), { message: /alert protocol version/ })

  await t.rejects(ask(plain, { port }), 'plain HTTP is closed')
  const since = performance.now()
  const socket = connectPlain(port, '127.0.0.1').on('error', () => {})
  const patience = setTimeout(() => socket.destroy(), 60_000)
  await once(socket, 'close')
  clearTimeout(patience)
  const took = performance.now() - since
  t.ok(took > 4_900 && took < 30_000, `without a handshake: ${took} ms`)
  t.equal((await ask(encrypted, { port })).status, 200, 'other connections are not affected')
})

t.test('without TLS and proxy there is no Strict-Transport-Security', async (t) => {
  const { port } = await testApp(t, {}, kept)
  const reply = await ask(plain, { port, headers: { 'x-forwarded-proto': 'https' } })
  t.same([reply.status, reply.headers[HSTS]], [200, undefined], 'whatever the client says')
})

t.test('plain HTTP behind a proxy is accepted if configured, and outside production', async (t) => {
  for (const settings of [{ ...PRODUCTION, INSECURE_HTTP: 'true' }, { NODE_ENV: 'test' }]) {
    const { port } = await testApp(t, { ...settings, TRUST_PROXY: '127.0.0.1' }, kept)
    const headers = { ...KEY, 'x-forwarded-proto': 'http' }
    const reply = await ask(plain, { port, path: PRODUCTS, headers })
    t.same([reply.status, reply.headers[HSTS]], [200, undefined], settings.NODE_ENV)
    t.ok((await ask(plain, { port, headers: { 'x-forwarded-proto': 'https' } })).headers[HSTS])
  }
})

const lines: string[] = []
const logs = { write: (line: string) => void lines.push(line) }
const startTrusting = async (trust: string) => {
  const settings = { ...PRODUCTION, MCP: 'true', LOG_LEVEL: 'info', TRUST_PROXY: trust }
  // One of the apps has no metrics.
  const metrics = trust === '1' ? { METRICS_TOKEN: '' } : {}
  return (await testApp(t, { ...settings, ...metrics }, { ...kept, logs })).port
}
const ports = new Map<string, Promise<number>>()
/** Returns the port of an app in production that trusts these proxies. */
const getPort = (trust: string) => {
  const port = ports.get(trust) ?? startTrusting(trust)
  ports.set(trust, port)
  return port
}

t.test('in production a request that reached the proxy over plain HTTP is refused', async (t) => {
  const port = await getPort('127.0.0.1')
  const by = (proto?: string, path = PRODUCTS, headers: Ask['headers'] = KEY) =>
    ask(plain, {
      ...{ port, path },
      headers: { ...headers, ...(proto !== undefined && { 'x-forwarded-proto': proto }) },
    })

  // The word of the proxy itself stands last.
  for (const proto of ['https', 'HTTPS', 'http, https']) {
    const { status, headers } = await by(proto)
    t.same([status, headers[HSTS]], [200, 'max-age=31536000'], proto)
  }
  for (const proto of ['http', undefined, '', 'ws', 'httpsx', 'https, http']) {
    const reply = await by(proto)
    t.equal(reply.status, 403, String(proto))
    t.match(reply.body, {
      error: { code: 'FORBIDDEN', message: 'HTTPS is required', request_id: reply.headers['x-request-id'] },
    })
    t.match(reply.headers, {
      ...{ 'cache-control': 'no-store', 'api-version': '1', vary: 'Accept, Authorization, X-API-Key' },
      ...{ 'x-ratelimit-limit': /./, [HSTS]: undefined },
    })
  }
  const forwarded = await by(undefined, PRODUCTS, { ...KEY, forwarded: 'proto=https' })
  t.equal(forwarded.status, 403, 'RFC 7239 is not read')
  for (const path of ['/docs', '/openapi/v1.json', '/nothing', '/v2/users'])
    t.equal((await by('http', path)).status, 403, path)
  for (const path of ['/livez', '/readyz']) t.equal((await by(undefined, path)).status, 200, path)
  const token = { authorization: `Bearer ${METRICS_TOKEN}` }
  t.equal((await by(undefined, '/metrics', token)).status, 200)
  const bare = await ask(plain, { port: await getPort('1'), path: '/metrics' })
  t.equal(bare.status, 404, 'where there are no metrics')
  const untrusted = { ...KEY, 'x-forwarded-proto': 'https' }
  const reply = await ask(plain, { port, path: PRODUCTS, headers: untrusted, from: '127.0.0.2' })
  t.same([reply.status, reply.headers[HSTS]], [403, undefined], 'headers from an untrusted address')
})

t.test('the protocol is the entry of the same hop as the address', async (t) => {
  const client = '203.0.113.7'
  const LIST = '127.0.0.1, 198.51.100.1'
  for (const [trust, address, proto, status] of [
    ['2', `${client}, 198.51.100.1`, 'https, http', 200],
    ['2', `${client}, 198.51.100.1`, 'http, https', 403],
    ['2', `${client}, 198.51.100.1`, 'https, http, https', 403],
    ['2', `${client}, 198.51.100.1`, 'https', 200],
    ['2', `${client}, 198.51.100.1`, 'http', 403],
    ['2', `unknown, 198.51.100.1`, 'https, http', 200],
    ['2', client, 'https, http', 403],
    ['1', `${client}, 198.51.100.1`, 'https, http', 403],
    [LIST, `${client}:1, 198.51.100.1:2`, 'HTTPS,http', 200],
    [LIST, `${client}, 198.51.100.1`, 'http,https', 403],
    [LIST, `${client}, 198.51.100.2`, 'https,http', 403],
    ['true', `${client}, 198.51.100.1`, 'https,http', 200],
    ['true', `${client}, 198.51.100.1`, 'http,https', 403],
    ['true', `${client}, 198.51.100.1, 198.51.100.2`, 'http,https', 403],
    ['1', client, ' , ', 403],
  ] as const) {
    const headers = { ...KEY, 'x-forwarded-for': address, 'x-forwarded-proto': proto }
    const reply = await ask(plain, { port: await getPort(trust), path: PRODUCTS, headers })
    t.equal(reply.status, status, `${trust}: ${address}; ${proto}`)
  }
})

t.test('a request within a request has the same address and protocol', async (t) => {
  const headers = {
    ...KEY,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'x-forwarded-for': '203.0.113.7:1, 198.51.100.1:2',
    'x-forwarded-proto': 'https, http',
  }
  const params = { name: 'products_list', arguments: {} }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  const reply = await ask(plain, { port: await getPort('2'), path: '/mcp', method: 'POST', headers, body })
  t.equal(reply.status, 200)
  t.notMatch(JSON.stringify(reply.body), 'HTTPS is required')
  t.match(JSON.stringify(reply.body), 'has_more')
})

t.test('sessions and logs have the client address that trusted proxies report', async (t) => {
  const LIST = '127.0.0.1, 198.51.100.1'
  const RANGE = '127.0.0.0/30'
  const cases: [trust: string, from: string, forwarded: string, seen: string][] = [
    ['127.0.0.1', '127.0.0.1', '203.0.113.7', '203.0.113.7'],
    ['127.0.0.1', '127.0.0.2', '203.0.113.7', '127.0.0.2'],
    ['127.0.0.1', '127.0.0.1', '198.51.100.1, 203.0.113.7', '203.0.113.7'],
    [LIST, '127.0.0.1', '203.0.113.7, 198.51.100.1', '203.0.113.7'],
    [RANGE, '127.0.0.3', '203.0.113.7, 127.0.0.2', '203.0.113.7'],
    [RANGE, '127.0.0.4', '203.0.113.7', '127.0.0.4'],
    [RANGE, '127.0.0.1', '2001:db8::1', '2001:db8::1'],
    ['1', '127.0.0.2', '198.51.100.1, 203.0.113.7', '203.0.113.7'],
    ['2', '127.0.0.2', '198.51.100.1, 203.0.113.7', '198.51.100.1'],
    ['true', '127.0.0.2', '198.51.100.1, 203.0.113.7', '198.51.100.1'],
    ['1', '127.0.0.2', '203.0.113.7:51234', '203.0.113.7'],
    ['1', '127.0.0.2', '[2001:DB8:0::7]:443', '2001:db8::7'],
    ['1', '127.0.0.2', '"[2001:db8::7]:443"', '2001:db8::7'],
    ['1', '127.0.0.2', '[2001:db8::7]', '2001:db8::7'],
    ['1', '127.0.0.2', 'fe80::7%eth0', 'fe80::7'],
    ['1', '127.0.0.2', '::ffff:203.0.113.7', '203.0.113.7'],
    [RANGE, '127.0.0.1', '203.0.113.7:1, 127.0.0.2:2', '203.0.113.7'],
    [RANGE, '127.0.0.1', '203.0.113.7, [::ffff:127.0.0.2]:2', '203.0.113.7'],
    ['1', '127.0.0.2', 'call 0800 123456', '127.0.0.2'],
    ['1', '127.0.0.2', '203.0.113.7, unknown', '127.0.0.2'],
    ['1', '127.0.0.2', '0x7f.1', '127.0.0.2'],
    ['1', '127.0.0.2', 'x'.repeat(10_000), '127.0.0.2'],
    ['2', '127.0.0.2', 'unknown, 203.0.113.7', '203.0.113.7'],
    ['true', '127.0.0.2', '198.51.100.1, unknown, 203.0.113.7', '203.0.113.7'],
  ]
  const { admin, port } = await testApp(t, { LOG_LEVEL: 'info' }, { ...kept, logs })
  const password = 'nine brass cogs, turning'
  await admin.post('/users', { name: 'Walter', email: 'walter@example.com', password })
  const grant = JSON.stringify({ grant_type: 'password', email: 'walter@example.com', password })
  const check = async (port: number, from: string, forwarded: string, seen: string) => {
    lines.length = 0
    const headers = {
      ...{ 'content-type': 'application/json', 'x-forwarded-for': forwarded },
      'x-forwarded-proto': 'https',
    }
    const reply = await ask(plain, { port, path: '/tokens', method: 'POST', headers, from, body: grant })
    const logged = lines.some((line) => line.includes(`"remote_address":"${seen}"`))
    t.ok(logged, `${from} ${forwarded}: ${lines}`)
    // HTTPS is required of an address that is not trusted.
    if (reply.status === 403) return t.equal(seen, from)
    const session = await admin.get(`/sessions/${reply.body.data.session_id}`)
    t.equal(session.body.data.ip, seen, `${from} ${forwarded}`)
  }
  await check(port, '127.0.0.1', '203.0.113.7', '127.0.0.1')
  for (const [trust, from, forwarded, seen] of cases) await check(await getPort(trust), from, forwarded, seen)
})
