/** Webhooks reach public addresses alone, however a URL or DNS names others, and endpoints have URLs of such. */
import { createHook } from 'node:async_hooks'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import t, { type Test } from 'tap'
import { listen } from '../../../testing/helpers/network.ts'
import { createAddressPolicy, findUrlMistake } from '../../src/webhooks/delivery/addresses.ts'
import { createWebhookSender } from '../../src/webhooks/delivery/sender.ts'

const production = createAddressPolicy({ allowsPrivate: false, allowsLoopback: false })
const development = createAddressPolicy({ allowsPrivate: false, allowsLoopback: true })
const open = createAddressPolicy({ allowsPrivate: true, allowsLoopback: false })

/** Counts the TCP connections that this process begins, at the level of the handle: no library can hide one. */
function countConnections(t: Test): { count: number } {
  const connections = { count: 0 }
  const hook = createHook({
    init(_id, type) {
      if (type === 'TCPCONNECTWRAP') connections.count += 1
    },
  }).enable()
  t.teardown(() => hook.disable())
  return connections
}

const NOT_PUBLIC = { responseStatus: null, responseBody: null, error: 'the address is not public' }
const split = (text: string) => text.trim().split(/\s+/)

/** Creates a sender until the test ends, and returns its function, which sends a webhook to a URL. */
function openSender(t: Test, options: Parameters<typeof createWebhookSender>[0]) {
  const sender = createWebhookSender(options)
  t.teardown(() => sender.close())
  return async (url: string) => {
    const headers = { 'content-type': 'application/json' }
    const { responseStatus, responseBody, error } = await sender.send({ url, headers, body: '{}' })
    return { responseStatus, responseBody, error }
  }
}

/** Hosts that are not public, in the forms in which an attacker writes an address. */
const LITERALS = `
    127.0.0.1 127.0.0.1:5432 127.0.0.1. 127.255.255.254 127.1 127.0.1 2130706433 017700000001
    0x7f000001 0x7F.0x0.0x0.0x1 0177.0.0.1 0177.0.0.01 127.0x1 %31%32%37.0.0.1 ①②⑦.0.0.1 127。0。0。1
    [::1] [0:0:0:0:0:0:0:1] localhost localhost. LocalHost anything.localhost
    0.0.0.0 0 0x0 0.1.2.3 [::] 10.0.0.1 10.255.255.255 012.0.0.1 167772161 172.16.0.1 172.31.255.255
    192.168.0.1 0xc0a80001 192.168.257 100.64.0.1 100.127.255.255 100.100.100.200
    169.254.169.254 169.254.170.2 2852039166 0xa9fea9fe 0251.0376.0251.0376 [fe80::1]
    [fe80::a9fe:a9fe] [febf::1] [fd00:ec2::254] [fc00::1] [fdff:ffff::1] [fec0::1]
    224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 4294967295 [ff02::1] [ff0e::1]
    192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 198.18.0.1 198.51.100.1 203.0.113.1 [2001:db8::1]
    [3fff::1] [2001:2::1] [100::1] [5f00::1] [4000::1]
    [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:ffff:a9fe:a9fe] [::ffff:0:127.0.0.1] [::127.0.0.1]
    [64:ff9b::127.0.0.1] [64:ff9b::a9fe:a9fe] [64:ff9b:1::10.0.0.1] [64:ff9b:1:a00:0:100::]
    [64:ff9b:1::8.8.8.8] [2002:7f00:1::] [2002:a00:1::1] [2002:a9fe:a9fe::]
    [2001:0:a00:1:8000:63bf:3fff:fdd2] [2001:0:4136:e378:8000:63bf:f5ff:fffe]`

/** What DNS returns for a name: one such address is enough to refuse it. */
const RESULTS = `
    127.0.0.1 10.1.2.3 172.20.0.5 192.168.1.1 169.254.169.254 100.64.0.9 0.0.0.0 255.255.255.255
    192.0.2.7 ::1 :: fd12:3456::1 fe80::1 fe80::1%lo 2606:4700:4700::1111%lo ::ffff:127.0.0.1
    64:ff9b::10.0.0.1 64:ff9b:1::1 2002:7f00:1::1 2001:0:4136:e378:8000:63bf:f5ff:fffe
    8.8.8.8,127.0.0.1 127.0.0.1,8.8.8.8 2606:4700:4700::1111,10.0.0.1 8.8.8.8,fd00::1
    8.8.8.8,1.1.1.1,169.254.169.254`

t.test('no literal that is not public is reached, and none is looked up', async (t) => {
  const connections = countConnections(t)
  let lookups = 0
  const lookup = async () => {
    lookups += 1
    return [{ address: '8.8.8.8', family: 4 }]
  }
  const send = openSender(t, { policy: production, lookup })
  for (const host of split(LITERALS))
    for (const protocol of ['http', 'https']) t.same(await send(`${protocol}://${host}/`), NOT_PUBLIC, host)
  t.same({ lookups, connections: connections.count }, { lookups: 0, connections: 0 })
})

t.test('no name is reached that has an address that is not public', async (t) => {
  const connections = countConnections(t)
  for (const result of split(RESULTS)) {
    const found = result.split(',').map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
    const send = openSender(t, { policy: production, lookup: async () => found })
    for (const url of ['http://rebind.example/', 'https://rebind.example:8443/', 'http://rebind.example./'])
      t.same(await send(url), NOT_PUBLIC, `${url} is ${result}`)
  }
  t.equal(connections.count, 0)
})

t.test('malformed URLs and those with a zone id, credentials or another protocol are not used', async (t) => {
  const connections = countConnections(t)
  const send = openSender(t, { policy: development })
  const expected = { responseStatus: null, responseBody: null, error: 'the URL is not valid' }
  const urls = `http://[fe80::1%25lo]/ http://[fe80::1%lo]/ http://[::1%25lo]/ http://127.0.0.1@[::1
    http://256.256.256.256/ http://user@127.0.0.1/ http://:pass@127.0.0.1/ file:///etc/passwd ftp://127.0.0.1/
    unix:/var/run/docker.sock data:,x //127.0.0.1/`
  for (const url of ['', ...split(urls)]) t.same(await send(url), expected, url)
  t.equal(connections.count, 0)
})

/** Returns the port of a server on loopback, and how many requests reached it. */
async function startTarget(t: Test, respond: RequestListener = (_, response) => response.end('internal')) {
  const target = { port: 0, requests: 0 }
  const server = createServer((request, response) => {
    target.requests += 1
    respond(request, response)
  })
  target.port = await listen(server)
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  return target
}

t.test('the real look-up of a name of this machine is refused in production', async (t) => {
  const target = await startTarget(t)
  const connections = countConnections(t)
  // The policy knows the name, so the check of the look-up is reached by another policy for literals alone.
  const send = openSender(t, { policy: { ...production, isHostAllowed: () => true } })
  t.same(await send(`http://localhost:${target.port}/`), NOT_PUBLIC)
  t.same({ requests: target.requests, connections: connections.count }, { requests: 0, connections: 0 })
})

t.test('outside production the same server is reached by its address and by its name', async (t) => {
  const target = await startTarget(t)
  const connections = countConnections(t)
  const send = openSender(t, { policy: development })
  const expected = { responseStatus: 200, responseBody: 'internal', error: null }
  for (const host of ['127.0.0.1', 'localhost', '2130706433'])
    t.same(await send(`http://${host}:${target.port}/`), expected, host)
  t.equal(target.requests, 3)
  t.ok(connections.count > 0, 'the count of connections works')
})

t.test('a name that changes its address after the check is connected to the checked one', async (t) => {
  const target = await startTarget(t)
  const results = ['127.0.0.1', '169.254.169.254', '10.0.0.1']
  let lookups = 0
  const lookup = async () => [{ address: results[lookups++] ?? '10.0.0.1', family: 4 }]
  const send = openSender(t, { policy: development, lookup })
  t.equal((await send(`http://rebind.example:${target.port}/`)).responseStatus, 200)
  t.equal(lookups, 1, 'one look-up serves the check and the connection')

  // A new origin needs a new connection, which is checked again.
  const connections = countConnections(t)
  t.same(await send(`http://rebind.example:${target.port + 1}/`), NOT_PUBLIC)
  t.same({ lookups, connections: connections.count }, { lookups: 2, connections: 0 })
})

t.test('redirects are not followed', async (t) => {
  const target = await startTarget(t)
  const locations = split(`http://127.0.0.1:${target.port}/ //127.0.0.1:${target.port}/ /other
    http://169.254.169.254/latest/meta-data/ http://[::1]/ file:///etc/passwd`)
  const redirector = await startTarget(t, (request, response) => {
    const [status = '', index = ''] = (request.url ?? '').slice(1).split('-')
    response.writeHead(Number(status), { location: locations[Number(index)] }).end()
  })
  const send = openSender(t, { policy: development })
  const connections = countConnections(t)
  for (const responseStatus of [301, 302, 303, 307, 308])
    for (const index of locations.keys())
      t.same(await send(`http://127.0.0.1:${redirector.port}/${responseStatus}-${index}`), {
        responseStatus,
        responseBody: '',
        error: null,
      })
  t.equal(redirector.requests, 5 * locations.length)
  t.same({ followed: target.requests, connections: connections.count }, { followed: 0, connections: 1 })
})

t.test('no proxy of the environment is used', async (t) => {
  const [target, proxy] = [await startTarget(t), await startTarget(t)]
  const names = ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'https_proxy', 'ALL_PROXY', 'NODE_USE_ENV_PROXY']
  const proxies = Object.fromEntries(names.map((name) => [name, `http://127.0.0.1:${proxy.port}`]))
  t.intercept(process, 'env', { value: { ...process.env, ...proxies } })
  await openSender(t, { policy: development })(`http://127.0.0.1:${target.port}/`)
  t.same({ target: target.requests, proxy: proxy.requests }, { target: 1, proxy: 0 })
})

/** Addresses, and the policies that allow them. */
const ALLOWED: readonly [addresses: string, allowedBy: string][] = [
  [
    `1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 192.167.255.255
    223.255.255.255 2606:4700:4700::1111 2a00:1450:4001::200e`,
    'production development open',
  ],
  // Through translators and tunnels. Teredo has the server 65.54.227.120 and the client 192.0.4.1.
  [
    '::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1 2001:0:4136:e378:8000:63bf:3fff:fbfe',
    'production development open',
  ],
  ['127.0.0.1 127.255.0.9 ::1 ::ffff:127.0.0.1', 'development open'],
  [
    '0.0.0.0 :: 10.0.0.1 100.64.0.1 169.254.169.254 fc00::1 fd00::1 64:ff9b::10.0.0.1 64:ff9b:1::8.8.8.8',
    'open',
  ],
  // No canonical addresses.
  ['localhost 0177.0.0.1 127.1 2130706433 0x7f000001 8.8.8.8. [::1] 1::2%eth0', ''],
]

t.test('a policy allows the addresses and names of its mode', async (t) => {
  for (const [addresses, allowedBy] of ALLOWED)
    for (const address of split(addresses))
      for (const [name, policy] of Object.entries({ production, development, open }))
        t.equal(policy.isAddressAllowed(address), allowedBy.includes(name), `${name}: ${address}`)
  for (const host of ['example.com', 'localhost.example.com', 'notlocalhost', '10.0.0.1.nip.io'])
    t.ok(production.isHostAllowed(host), host)
  for (const host of ['localhost', 'localhost.', 'a.b.localhost'])
    t.same([production.isHostAllowed(host), development.isHostAllowed(host)], [false, true], host)
})

const LONGEST = `https://example.com/${'x'.repeat(2_028)}`
const PRIVATE = 'must not have a host that is not public'

/** URLs, and the mistake in each of them, in production and outside. */
const URLS: readonly [
  mistake: string | undefined,
  isProduction: boolean,
  urls: string,
  ...others: string[],
][] = [
  [
    undefined,
    true,
    `https://example.com https://example.com:8443/hooks?tenant=1&key=a%20b ${LONGEST}
    https://hooks.example.com./a;b=c https://xn--bcher-kva.example/ https://8.8.8.8/hook
    https://[2606:4700:4700::1111]:8443/ HTTPS://Example.com/ hTTps://8.8.8.8`,
  ],
  [undefined, false, `${LONGEST} HTTP://example.com/ http://127.0.0.1/ http://[::1]/ http://localhost:3000/`],
  [
    'must be an https URL',
    true,
    `example.com //example.com https:// https:///path https:example.com https:\\\\example.com\\
    https://example.com/%zz https://bücher.example/ https://example.com:99999/ https://256.1.1.1/ https://[::1
    https://[fe80::1%25eth0]/ HTTPS:example.com/ ftp://example.com/ file:///etc/passwd javascript:alert(1)
    http://example.com/ HTTP://example.com/ HTTPS:///path`,
    ...[
      '',
      'https://exam\tple.com/',
      ' https://example.com/',
      'https://example.com/ ',
      'https://example.com/\n',
    ],
  ],
  ['must be an https or http URL', false, 'example.com ftp://example.com/ https://[::1', ''],
  [
    'must not contain credentials',
    true,
    `https://user@example.com/ https://user:pass@example.com/ https://:pass@example.com/ https://@example.com/
    HTTPS://:@example.com`,
  ],
  ['must not contain a fragment', true, 'https://example.com/#a https://example.com/# https://example.com#x'],
  ['must not have more than 2048 characters', true, `${LONGEST}x`],
  [PRIVATE, true, 'https://10.0.0.1/ https://0x7f.1/ https://[::1]/ https://LOCALHOST./'],
  [PRIVATE, false, 'http://169.254.169.254/latest/meta-data'],
]

t.test('the URL of an endpoint has no mistake', async (t) => {
  for (const [mistake, requiresHttps, urls, ...others] of URLS) {
    const rules = { requiresHttps, policy: requiresHttps ? production : development }
    for (const url of [...split(urls), ...others]) t.equal(findUrlMistake(url, rules), mistake, url)
  }
})
