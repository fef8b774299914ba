/** An attempt ends within its timeout, keeps the beginning of the response, and holds up no other endpoint. */
import { execFile } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { Resolver } from 'node:dns/promises'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { testFolder } from '../../../testing/helpers/database.ts'
import { createCertificate, findFreePort, listen } from '../../../testing/helpers/network.ts'
import { createDeferred, waitUntil } from '../../../testing/helpers/time.ts'
import { createAddressPolicy } from '../../src/webhooks/delivery/addresses.ts'
import { createLookup } from '../../src/webhooks/delivery/lookup.ts'
import { createWebhookSender, type SendResult } from '../../src/webhooks/delivery/sender.ts'

const policy = createAddressPolicy({ allowsPrivate: false, allowsLoopback: true })
const hook = { headers: { 'content-type': 'application/json' }, body: '{"type":"test"}' }

/** Long enough for a busy machine. Attempts that must not time out have it. */
const LONG_MS = 60_000
/** For an attempt that must time out after a response has begun, on a busy machine too. */
const BODY_MS = 5_000
/** For attempts that time out before. */
const SHORT_MS = 300

function startSender(t: Test, options: Partial<Parameters<typeof createWebhookSender>[0]> = {}) {
  const sender = createWebhookSender({ policy, timeoutMs: LONG_MS, ...options })
  t.teardown(() => sender.close())
  return sender
}

/** Makes a server listen on loopback, and counts its connections. */
async function start(t: Test, server: Server) {
  const state = { port: 0, sockets: new Set<Socket>(), opened: 0 }
  server.on('connection', (socket: Socket) => {
    state.opened += 1
    state.sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => state.sockets.delete(socket))
  })
  state.port = await listen(server)
  t.teardown(async () => {
    for (const socket of state.sockets) socket.destroy()
    server.close()
    await once(server, 'close')
  })
  return state
}

const startHttp = (t: Test, listener: RequestListener) => start(t, createServer(listener))
const startTcp = (t: Test, onConnection: (socket: Socket) => void) => start(t, createTcpServer(onConnection))
/** Starts a server that reads and never answers. */
const startSilent = (t: Test) => startTcp(t, (socket) => socket.resume())
/** Starts a server that answers each connection's first bytes by hand. */
const startRaw = (t: Test, onData: (socket: Socket) => void) =>
  startTcp(t, (socket) => socket.once('data', () => onData(socket)))

const outcome = ({ durationMs: _, ...result }: SendResult) => result

/** The outcome of an attempt without a response. */
const withoutResponse = (error: string) => ({ responseStatus: null, responseBody: null, error })
const TIMED_OUT = withoutResponse('the request timed out after 0.3 s')
const CANCELED = withoutResponse('the attempt was canceled')

const toUrl = ({ port }: { port: number }) => `http://127.0.0.1:${port}/`

/** Sends one webhook to a raw server. */
async function sendToRaw(t: Test, onData: (socket: Socket) => void, timeoutMs = LONG_MS) {
  const server = await startRaw(t, onData)
  const result = await startSender(t, { timeoutMs }).send({ ...hook, url: toUrl(server) })
  return { ...outcome(result), server }
}

/** Writes a text again and again until the connection is closed. */
function drip(socket: Socket, text: string) {
  const timer = setInterval(() => socket.write(text), 20)
  socket.on('close', () => clearInterval(timer))
}

const OK = 'HTTP/1.1 200 OK\r\n'
const CHUNKED = `${OK}Transfer-Encoding: chunked\r\n\r\n`

t.test('a webhook is a POST with its headers, body and path', async (t) => {
  const received: unknown[] = []
  const server = await startHttp(t, async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const { method, url, headers } = request
    received.push({ method, url, headers, body: Buffer.concat(chunks).toString() })
    response.writeHead(201).end('created')
  })
  const body = '{"name":"Zoë 🦊"}'
  const headers = { 'content-type': 'application/json', 'webhook-id': 'msg_1' }
  const url = `http://127.0.0.1:${server.port}/hooks/a%20b?key=1&x=/`
  const result = await startSender(t).send({ url, headers, body })
  t.same(outcome(result), { responseStatus: 201, responseBody: 'created', error: null })
  t.ok(Number.isInteger(result.durationMs) && result.durationMs >= 0)
  const sent = { ...headers, host: `127.0.0.1:${server.port}`, 'content-length': '20' }
  t.match(received, [{ method: 'POST', url: '/hooks/a%20b?key=1&x=/', headers: sent, body }])
})

t.test('the first 1024 characters of the body are kept, as a text that PostgreSQL accepts', async (t) => {
  const bodies: readonly (readonly [sent: string | Buffer, kept: string])[] = [
    ['x'.repeat(1_024), 'x'.repeat(1_024)],
    ['x'.repeat(60_000), 'x'.repeat(1_024)],
    ['🦊'.repeat(1_025), '🦊'.repeat(1_024)],
    [`x${'🦊'.repeat(2_000)}`, `x${'🦊'.repeat(1_023)}`],
    ['a\0b\0\0c', 'abc'],
    [Buffer.from([0x61, 0xff, 0x62, 0xe2, 0x82]), 'a\ufffdb\ufffd'],
    [Buffer.concat([Buffer.alloc(4_094), Buffer.from('🦊🦊')]), ''],
  ]
  const server = await startHttp(t, (request, response) => {
    response.end(bodies[Number(request.url?.slice(1))]?.[0])
  })
  const sender = startSender(t)
  for (const [index, [, kept]] of bodies.entries()) {
    const result = await sender.send({ ...hook, url: `${toUrl(server)}${index}` })
    t.match(result, { error: null, responseBody: kept }, `body ${index}`)
  }
  t.equal(server.opened, 1, 'bodies of up to 64 KiB leave the connection open')
})

t.test('no part of a response is read without end', async (t) => {
  const tooLarge = 'the response is too large'
  const interim = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
  for (const [name, beginning, repeated, error] of [
    ['interim responses', '', interim, tooLarge],
    ['a reason phrase', 'HTTP/1.1 200 ', 'x'.repeat(1_000), tooLarge],
    ['the extensions of a chunk', `${CHUNKED}5;`, 'x'.repeat(1_000), tooLarge],
    ['large chunks', CHUNKED, `10000\r\n${'y'.repeat(65_536)}\r\n`, null],
    ['tiny chunks', CHUNKED, '1\r\nx\r\n', null],
    ['trailers', `${CHUNKED}0\r\n`, 'X-A: b\r\n', 'the headers of the response are too large'],
  ] as const) {
    let written = 0
    const { server, ...result } = await sendToRaw(t, (socket) => {
      socket.write(beginning)
      const chunk = repeated.repeat(Math.ceil(65_536 / repeated.length))
      const write = () => {
        while (!socket.destroyed) {
          written += chunk.length
          if (!socket.write(chunk)) break
        }
      }
      socket.on('drain', write)
      write()
    })
    t.equal(result.error, error, name)
    if (name === 'large chunks') t.equal(result.responseBody, 'y'.repeat(1_024))
    await waitUntil(() => server.sockets.size === 0)
    // The buffers of both sockets are filled in addition.
    t.ok(written < 20_000_000, `${name}: ${written} bytes were written`)
  }
  t.match(await sendToRaw(t, (socket) => drip(socket, interim)), { error: tooLarge }, 'slowly, too')
  const ten = `${interim.repeat(10)}${OK}Content-Length: 2\r\n\r\nok`
  t.match(await sendToRaw(t, (socket) => socket.end(ten)), {
    responseStatus: 200,
    responseBody: 'ok',
    error: null,
  })
})

t.test('a compressed body is not decompressed', async (t) => {
  const bomb = gzipSync(Buffer.alloc(2 ** 24))
  const server = await startHttp(t, (_request, response) => {
    response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': bomb.length }).end(bomb)
  })
  const result = await startSender(t).send({ ...hook, url: toUrl(server) })
  t.match(result, { responseStatus: 200, error: null })
  t.ok((result.responseBody ?? '').length <= 1_024)
  t.notMatch(result.responseBody, '\0')
})

t.test('an attempt ends at its timeout, at whatever step', async (t) => {
  const silent = await startSilent(t)
  const url = toUrl(silent)
  const dns = createDeferred()
  const lookup = () => dns.promise.then(() => [{ address: '127.0.0.1', family: 4 }])
  const sender = startSender(t, { timeoutMs: SHORT_MS, lookup })
  const result = await sender.send({ ...hook, url: `http://slow.example:${silent.port}/` })
  t.same(outcome(result), TIMED_OUT, 'DNS')
  t.ok(result.durationMs >= SHORT_MS - 1)
  dns.resolve()
  t.same(outcome(await sender.send({ ...hook, url })), TIMED_OUT, 'the response')
  t.ok(silent.opened <= 1, 'the late address is not connected to')
  t.same(outcome(await sender.send({ ...hook, url: url.replace('http:', 'https:') })), TIMED_OUT, 'TLS')
  await waitUntil(() => silent.sockets.size === 0)
  const paused = await start(t, createTcpServer({ pauseOnConnect: true }))
  const large = { headers: {}, body: 'x'.repeat(2 ** 24), url: toUrl(paused) }
  t.same(outcome(await sender.send(large)), TIMED_OUT, 'a large body that is not read')
})

t.test('an attempt to a server that sends slowly times out, and keeps what came', async (t) => {
  const responseBody = /^begin\.*$/
  for (const [beginning, part, timeoutMs, expected] of [
    [`${OK}X-Slow: `, 'a', SHORT_MS, TIMED_OUT],
    [
      `${OK}Content-Length: 100000\r\n\r\nbegin`,
      '.',
      BODY_MS,
      { responseStatus: 200, responseBody, error: 'the request timed out after 5 s' },
    ],
  ] as const) {
    const answer = (socket: Socket) => {
      socket.write(beginning)
      drip(socket, part)
    }
    const { server, ...result } = await sendToRaw(t, answer, timeoutMs)
    t.match(result, expected)
    await waitUntil(() => server.sockets.size === 0)
  }
})

t.test('a failure is described by a fixed sentence', async (t) => {
  const closed = withoutResponse('the connection was closed before the response was complete')
  const tooLarge = withoutResponse('the headers of the response are too large')
  const notHttp = withoutResponse('the response is not valid HTTP')
  const short = { ...closed, responseStatus: 200, responseBody: 'short' }
  const upgrade = 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'
  const answers: [name: string, answer: (socket: Socket) => unknown, expected: object][] = [
    ['large headers', (socket) => socket.write(`${OK}X-Large: ${'x'.repeat(20_000)}\r\n\r\n`), tooLarge],
    ['a reset connection', (socket) => socket.resetAndDestroy(), closed],
    ['a connection without a response', (socket) => socket.end(), closed],
    ['a short body', (socket) => socket.end(`${OK}Content-Length: 10\r\n\r\nshort`), short],
    ['another protocol', (socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n'), notHttp],
    ['a switch of the protocol', (socket) => socket.write(upgrade), closed],
  ]
  for (const [name, answer, expected] of answers) t.match(await sendToRaw(t, answer), expected, name)
  const headersWithoutEnd = (socket: Socket) => {
    socket.write(OK)
    drip(socket, `X-More: ${'x'.repeat(1_000)}\r\n`)
  }
  t.match(await sendToRaw(t, headersWithoutEnd), tooLarge)

  const unused = await startSender(t).send({ ...hook, url: toUrl({ port: await findFreePort() }) })
  t.same(outcome(unused), withoutResponse('the connection was refused'))
  const failWith = (code: string) => async () => {
    throw Object.assign(new Error('the resolver at 10.0.0.2 failed'), { code })
  }
  for (const [name, lookup, error] of [
    ['no address', async () => [], 'the host name was not found'],
    ['ENOTFOUND', failWith('ENOTFOUND'), 'the host name was not found'],
    ['EAI_AGAIN', failWith('EAI_AGAIN'), 'the host name could not be resolved'],
    ['ESERVFAIL', failWith('ESERVFAIL'), 'the host name could not be resolved'],
    ['ETIMEOUT', failWith('ETIMEOUT'), 'the host name could not be resolved'],
    ['EBADNAME', failWith('EBADNAME'), 'the request failed'],
  ] as const) {
    const result = await startSender(t, { lookup }).send({ ...hook, url: 'http://gone.example/' })
    t.same(outcome(result), withoutResponse(error), name)
  }
  const headers = { 'x-a': 'b\r\nx: y' }
  const malformed = await startSender(t).send({ ...hook, headers, url: 'http://127.0.0.1:1/' })
  t.same(outcome(malformed), withoutResponse('the request failed'))
})

t.test('over TLS', async (t) => {
  const files = createCertificate(testFolder(t))
  const tls = { key: readFileSync(files.TLS_KEY), cert: readFileSync(files.TLS_CERT) }
  let requests = 0
  const server = createTlsServer(tls, (_request, response) => {
    requests += 1
    response.end('secure')
  })
  const { port } = await start(t, server)

  const selfSigned = await startSender(t).send({ ...hook, url: `https://localhost:${port}/` })
  t.same(outcome(selfSigned), withoutResponse('the TLS certificate is not valid'))
  t.equal(requests, 0)
  const plain = await startHttp(t, (_request, response) => response.end())
  const withoutTls = await startSender(t).send({ ...hook, url: `https://127.0.0.1:${plain.port}/` })
  t.same(outcome(withoutTls), withoutResponse('the TLS handshake failed'))

  await t.test('a trusted certificate is accepted for its name alone', async (t) => {
    const folder = new URL('../../src/webhooks/delivery/', import.meta.url)
    const script = `
      const { createAddressPolicy } = await import('${new URL('addresses.ts', folder)}')
      const { createWebhookSender } = await import('${new URL('sender.ts', folder)}')
      const policy = createAddressPolicy({ allowsPrivate: false, allowsLoopback: true })
      const sender = createWebhookSender({ policy, timeoutMs: ${LONG_MS} })
      const results = []
      for (const host of ['localhost', '127.0.0.1'])
        results.push(await sender.send({ url: \`https://\${host}:${port}/\`, headers: {}, body: '{}' }))
      sender.close()
      console.log(JSON.stringify(results))`
    const flags = [
      '--conditions=resource-api',
      '--import=./packages/testing/run/typescript.js',
      '--input-type=module',
      '--eval',
      script,
    ]
    const env = { ...process.env, NODE_EXTRA_CA_CERTS: files.TLS_CERT }
    const { stdout } = await promisify(execFile)(process.execPath, flags, { env })
    t.match(JSON.parse(stdout), [
      { responseStatus: 200, responseBody: 'secure', error: null },
      withoutResponse('the TLS certificate is not valid'),
    ])
  })
})

t.test('a connection is used again, and closed after some idle seconds', async (t) => {
  const http = createServer((_request, response) => response.end('ok'))
  // The server keeps connections for ever.
  http.keepAliveTimeout = 0
  const server = await start(t, http)
  const sender = startSender(t)
  for (let count = 0; count < 50; count++) await sender.send({ ...hook, url: toUrl(server) })
  t.equal(server.opened, 1)
  await waitUntil(() => server.sockets.size === 0)
})

t.test('a server may close the connection after each response', async (t) => {
  const closing = await startHttp(t, (_request, response) => {
    response.writeHead(200, { connection: 'close' }).end('ok')
  })
  const large = await startHttp(t, (_request, response) => response.end(Buffer.alloc(200_000, 'x')))
  const abrupt = await startRaw(t, (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'))
  const unmeasured = await startRaw(t, (socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nok'))
  const sender = startSender(t)
  for (const { port } of [closing, large, unmeasured])
    for (let count = 0; count < 50; count++)
      t.match(await sender.send({ ...hook, url: toUrl({ port }) }), { responseStatus: 200, error: null })
  // A webhook that is sent while the server closes the connection may fail: it is attempted again later.
  for (let count = 0; count < 50; count++) {
    t.equal((await sender.send({ ...hook, url: toUrl(abrupt) })).error, null)
    await waitUntil(() => abrupt.sockets.size === 0)
  }
})

/** Starts a DNS server that has the address 127.0.0.1 for `quick`, no other name, and no answer for names with `dead`. */
async function startDns(t: Test): Promise<Resolver> {
  const server = createSocket('udp4')
  server.on('message', (query, { port, address }) => {
    // The question begins after the header of 12 bytes and ends with its type and class (RFC 1035, section 4.1).
    const name = query.subarray(12, query.indexOf(0, 12)).toString('latin1')
    if (name.includes('dead')) return
    const question = query.subarray(12, query.indexOf(0, 12) + 5)
    const isFound = name.includes('quick') && question.readUInt16BE(question.length - 4) === 1
    const flags = [0x81, name.includes('quick') ? 0x80 : 0x83]
    const header = Buffer.from([...query.subarray(0, 2), ...flags, 0, 1, 0, isFound ? 1 : 0, 0, 0, 0, 0])
    const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1])
    server.send(Buffer.concat([header, question, isFound ? answer : Buffer.alloc(0)]), port, address)
  })
  server.bind(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const resolver = new Resolver({ timeout: LONG_MS, tries: 1 })
  resolver.setServers([`127.0.0.1:${server.address().port}`])
  t.teardown(() => resolver.cancel())
  return resolver
}

t.test('names whose DNS server does not answer delay no other name', async (t) => {
  const lookup = createLookup(await startDns(t), async () => [{ address: '127.0.0.2', family: 4 }])
  const dead = Array.from({ length: 50 }, (_, i) => lookup(`dead${i}.example`))
  for (const each of dead) each.catch(() => {})
  t.same(await lookup('quick.example'), [{ address: '127.0.0.1', family: 4 }])
  // The operating system knows it.
  t.same(await lookup('other.example'), [{ address: '127.0.0.2', family: 4 }])
})

t.test('attempts to one name share a look-up that is under way', async (t) => {
  const server = await startHttp(t, (_request, response) => response.end('ok'))
  const dns = createDeferred()
  const lookups: string[] = []
  const lookup = async (hostname: string) => {
    lookups.push(hostname)
    if (hostname === 'slow.example') await dns.promise
    return [{ address: '127.0.0.1', family: 4 }]
  }
  const sender = startSender(t, { lookup })
  const send = (host: string) => sender.send({ ...hook, url: `http://${host}:${server.port}/` })
  const slow = Array.from({ length: 10 }, () => send('slow.example'))
  t.equal((await send('quick.example')).responseStatus, 200)
  dns.resolve()
  for (const { responseStatus } of await Promise.all(slow)) t.equal(responseStatus, 200)
  t.same(lookups.sort(), ['quick.example', 'slow.example'])
})

t.test('when the sender is closed, the attempts that run are canceled', async (t) => {
  const silent = await startSilent(t)
  const sender = startSender(t)
  const request = { ...hook, url: toUrl(silent) }
  const attempts = Array.from({ length: 20 }, () => sender.send(request))
  await waitUntil(() => silent.opened === 20)
  sender.close()
  for (const result of await Promise.all(attempts)) t.same(outcome(result), CANCELED)
  await waitUntil(() => silent.sockets.size === 0)
  t.same(outcome(await sender.send(request)), CANCELED)
  t.equal(silent.opened, 20, 'an attempt that was canceled before it began connects to nothing')
})
