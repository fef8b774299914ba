/** Which IP addresses and hosts of URLs webhooks may reach. */
import t from 'tap'
import { createAddressPolicy } from '../../plugins/webhooks/delivery/addresses.ts'

const production = createAddressPolicy({ allowsPrivate: false, allowsLoopback: false })
const development = createAddressPolicy({ allowsPrivate: false, allowsLoopback: true })
const open = createAddressPolicy({ allowsPrivate: true, allowsLoopback: false })

t.test('public unicast addresses are allowed, also through translators and tunnels', async (t) => {
  const addresses = [
    '1.1.1.1',
    '8.8.8.8',
    '100.63.255.255',
    '100.128.0.0',
    '172.15.255.255',
    '172.32.0.0',
    '192.167.255.255',
    '223.255.255.255',
    '2606:4700:4700::1111',
    '2a00:1450:4001::200e',
    '::ffff:8.8.8.8',
    '64:ff9b::8.8.8.8',
    '2002:808:808::1',
    // Teredo with the server 65.54.227.120 and the client 192.0.4.1.
    '2001:0:4136:e378:8000:63bf:3fff:fbfe',
  ]
  for (const address of addresses) t.ok(production.isAddressAllowed(address), address)
})

t.test('a tunnel or translator to an address that is not public is refused', async (t) => {
  const addresses = [
    '::ffff:10.0.0.1',
    '::ffff:169.254.169.254',
    '64:ff9b::127.0.0.1',
    '64:ff9b::a00:1',
    '64:ff9b:1::8.8.8.8',
    '2002:7f00:1::',
    '2002:a9fe:a9fe::1',
    // Teredo with a private server, and with a private client: 10.0.0.1 inverted.
    '2001:0:a00:1:8000:63bf:3fff:fdd2',
    '2001:0:4136:e378:8000:63bf:f5ff:fffe',
  ]
  for (const address of addresses) t.notOk(production.isAddressAllowed(address), address)
})

t.test(
  'texts that are not canonical addresses are refused, also if private addresses are allowed',
  async (t) => {
    for (const text of [
      '',
      'localhost',
      '0177.0.0.1',
      '127.1',
      '2130706433',
      '0x7f000001',
      '8.8.8.8.',
      '[::1]',
      '1::2%eth0',
    ])
      for (const policy of [production, development, open]) t.notOk(policy.isAddressAllowed(text), text)
  },
)

t.test('loopback is allowed by its own option, in every form, and nothing else is', async (t) => {
  for (const address of ['127.0.0.1', '127.255.0.9', '::1', '::ffff:127.0.0.1']) {
    t.ok(development.isAddressAllowed(address), address)
    t.notOk(production.isAddressAllowed(address), address)
  }
  for (const address of ['0.0.0.0', '::', '10.0.0.1', '169.254.169.254', 'fc00::1', '64:ff9b::10.0.0.1'])
    t.notOk(development.isAddressAllowed(address), address)
})

t.test('all addresses are allowed if private ones are', async (t) => {
  for (const address of ['10.0.0.1', '127.0.0.1', 'fd00::1', '100.64.0.1', '8.8.8.8', '::ffff:192.168.0.1'])
    t.ok(open.isAddressAllowed(address), address)
})

t.test('URLs have decimal, octal, hexadecimal and short IPv4 addresses in one form', async (t) => {
  const forms = [
    '2130706433',
    '017700000001',
    '0x7f000001',
    '127.1',
    '127.0.1',
    '0177.0.0.1',
    '0x7f.0.0.1',
    '127.0.0.1.',
  ]
  for (const form of [...forms, '①②⑦.0.0.1', '127。0。0。1', '%31%32%37.0.0.1']) {
    const { hostname } = new URL(`http://${form}/`)
    t.equal(hostname, '127.0.0.1', form)
    t.notOk(production.isHostAllowed(hostname), form)
  }
  t.equal(new URL('http://[::ffff:127.0.0.1]/').hostname, '[::ffff:7f00:1]')
})

t.test('names are allowed, except those that always mean loopback', async (t) => {
  for (const host of ['example.com', 'localhost.example.com', 'notlocalhost', '10.0.0.1.nip.io'])
    t.ok(production.isHostAllowed(host), host)
  for (const host of ['localhost', 'localhost.', 'a.b.localhost']) {
    t.notOk(production.isHostAllowed(host), host)
    t.ok(development.isHostAllowed(host), host)
  }
})
