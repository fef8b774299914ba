/** Which IP addresses and hosts webhooks may reach, and which URLs an endpoint may have. */
import t from 'tap'
import { createAddressPolicy, findUrlMistake } from '../../plugins/webhooks/delivery/addresses.ts'

const policies = {
  production: createAddressPolicy({ allowsPrivate: false, allowsLoopback: false }),
  development: createAddressPolicy({ allowsPrivate: false, allowsLoopback: true }),
  open: createAddressPolicy({ allowsPrivate: true, allowsLoopback: false }),
}
const production = { requiresHttps: true, policy: policies.production }
const development = { requiresHttps: false, policy: policies.development }

/** The refused ones of production are tested in ssrf.test.ts, where no connection to them begins. */
const addresses: [name: string, addresses: string, allowedBy: string][] = [
  [
    'public ones',
    `
    1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 192.167.255.255
    223.255.255.255 2606:4700:4700::1111 2a00:1450:4001::200e`,
    'production development open',
  ],
  // Teredo with the server 65.54.227.120 and the client 192.0.4.1.
  [
    'public ones through translators and tunnels',
    '::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1 2001:0:4136:e378:8000:63bf:3fff:fbfe',
    'production development open',
  ],
  ['loopback', '127.0.0.1 127.255.0.9 ::1 ::ffff:127.0.0.1', 'development open'],
  [
    'private ones',
    '0.0.0.0 :: 10.0.0.1 100.64.0.1 169.254.169.254 fc00::1 fd00::1 64:ff9b::10.0.0.1 64:ff9b:1::8.8.8.8',
    'open',
  ],
  [
    'texts that are not canonical addresses',
    'localhost 0177.0.0.1 127.1 2130706433 0x7f000001 8.8.8.8. [::1] 1::2%eth0',
    '',
  ],
]

for (const [name, texts, allowedBy] of addresses)
  t.test(`addresses: ${name} are allowed by ${allowedBy || 'no policy'}`, async (t) => {
    for (const address of texts.trim().split(/\s+/))
      for (const [policyName, policy] of Object.entries(policies))
        t.equal(policy.isAddressAllowed(address), allowedBy.includes(policyName), `${policyName}: ${address}`)
  })

t.test('names are allowed, except those that always mean loopback', async (t) => {
  for (const host of ['example.com', 'localhost.example.com', 'notlocalhost', '10.0.0.1.nip.io'])
    t.ok(policies.production.isHostAllowed(host), host)
  for (const host of ['localhost', 'localhost.', 'a.b.localhost']) {
    t.notOk(policies.production.isHostAllowed(host), host)
    t.ok(policies.development.isHostAllowed(host), host)
  }
})

const longest = `https://example.com/${'x'.repeat(2_028)}`
const PRIVATE = 'must not have a host that is not public'

const urls: [mistake: string | undefined, rules: typeof production, urls: string[]][] = [
  [
    undefined,
    production,
    [
      ...['https://example.com', 'https://example.com:8443/hooks?tenant=1&key=a%20b', longest],
      ...['https://hooks.example.com./a;b=c', 'https://xn--bcher-kva.example/', 'https://8.8.8.8/hook'],
      ...['https://[2606:4700:4700::1111]:8443/', 'HTTPS://Example.com/', 'hTTps://8.8.8.8'],
    ],
  ],
  [
    undefined,
    development,
    [longest, 'HTTP://example.com/', 'http://127.0.0.1/', 'http://[::1]/', 'http://localhost:3000/'],
  ],
  [
    'must be an https URL',
    production,
    [
      ...['', 'example.com', '//example.com', 'https://', 'https:///path', 'https:example.com'],
      ...['https:\\\\example.com\\', 'https://exam\tple.com/', ' https://example.com/'],
      ...['https://example.com/ ', 'https://example.com/\n', 'https://example.com/%zz'],
      ...['https://bücher.example/', 'https://example.com:99999/', 'https://256.1.1.1/', 'https://[::1'],
      ...['https://[fe80::1%25eth0]/', 'HTTPS:example.com/', 'ftp://example.com/', 'file:///etc/passwd'],
      ...['javascript:alert(1)', 'http://example.com/', 'HTTP://example.com/', 'HTTPS:///path'],
    ],
  ],
  ['must be an https or http URL', development, ['', 'example.com', 'ftp://example.com/', 'https://[::1']],
  [
    'must not contain credentials',
    production,
    [
      ...['https://user@example.com/', 'https://user:pass@example.com/', 'https://:pass@example.com/'],
      ...['https://@example.com/', 'HTTPS://:@example.com'],
    ],
  ],
  [
    'must not contain a fragment',
    production,
    ['https://example.com/#a', 'https://example.com/#', 'https://example.com#x'],
  ],
  ['must not have more than 2048 characters', production, [`${longest}x`]],
  [PRIVATE, production, ['https://10.0.0.1/', 'https://0x7f.1/', 'https://[::1]/', 'https://LOCALHOST./']],
  [PRIVATE, development, ['http://169.254.169.254/latest/meta-data']],
]

for (const [mistake, rules, texts] of urls) {
  const mode = rules.requiresHttps ? 'in production' : 'outside production'
  t.test(`URLs ${mode}: ${mistake ?? 'accepted'}`, async (t) => {
    for (const url of texts) t.equal(findUrlMistake(url, rules), mistake, url)
  })
}
