/** A connection URI is read as libpq reads it, or refused with the name of what is not supported. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { testFolder } from '../../testing/helpers/database.ts'
import { createCertificate } from '../../testing/helpers/network.ts'
import { openDatabase } from '../src/client/index.ts'
import { parseAddress } from '../src/client/server/address.ts'
import { ServerConnection } from '../src/client/server/connection.ts'
import { UrlError } from '../src/lib/service-url.ts'

const folder = testFolder(t)
const { TLS_CERT } = createCertificate(folder)
const osUser = userInfo().username

t.test('the parts of a connection URI are those that psql uses', async (t) => {
  const tcp = (host: string, port = 5432) => ({ host, port })
  const cases: [uri: string, expected: object][] = [
    ['postgres://', { target: tcp('localhost'), user: osUser, database: osUser }],
    ['postgresql:///shop', { target: tcp('localhost'), user: osUser, database: 'shop' }],
    ['postgres://ada@db', { target: tcp('db'), user: 'ada', database: 'ada' }],
    ['postgres://ada:p%40%3A@db:5433/shop', { target: tcp('db', 5433), user: 'ada', password: 'p@:' }],
    ['postgres://ada:p:w#x?y@db/shop', { target: tcp('db'), password: 'p:w#x?y', database: 'shop' }],
    ['postgres://ada:@db/shop', { user: 'ada', password: undefined }],
    ['postgres://[::1]:5433/shop', { target: tcp('::1', 5433), label: '::1:5433/shop' }],
    ['postgres://db/shop?', { target: tcp('db'), database: 'shop' }],
    ['postgres://db?dbname=shop&user=a%26b&port=1&password=p%40w', { user: 'a&b', password: 'p@w' }],
    ['postgres://ada@db:1/a?host=other&port=2&dbname=b', { target: tcp('other', 2), database: 'b' }],
    ['postgres://ada@/shop?host=/run/pg', { target: { path: '/run/pg/.s.PGSQL.5432' }, user: 'ada' }],
    ['postgres:///shop?host=/run/pg&port=5433', { target: { path: '/run/pg/.s.PGSQL.5433' } }],
    ['postgres://ada@:5433/shop?host=/run/pg', { target: { path: '/run/pg/.s.PGSQL.5433' } }],
    ['postgres://ada@%2Fvar%2Frun/shop', { target: { path: '/var/run/.s.PGSQL.5432' }, database: 'shop' }],
    ['postgres://ada:pw@%2Fvar%2Frun:5433/shop', { target: { path: '/var/run/.s.PGSQL.5433' } }],
    ['postgres://db/shop?application_name=a+b%20c', { applicationName: 'a+b c' }],
    ['postgres://db/shop?connect_timeout=10', { connectTimeout: 10_000 }],
    ['postgres://db/shop?options=-c%20geqo%3Doff', { serverOptions: '-c geqo=off' }],
  ]
  for (const [uri, expected] of cases) {
    const address = parseAddress(uri)
    for (const [name, value] of Object.entries(expected)) t.same(Reflect.get(address, name), value, uri)
  }
})

t.test('the parameters of TLS have the meaning that libpq gives them', async (t) => {
  const read = (query: string, host = 'db') => parseAddress(`postgres://${host}/shop${query}`).ssl
  t.equal(read(''), false)
  t.equal(read('?sslmode=disable'), false)
  t.equal(read('?sslmode=allow'), 'prefer')
  t.equal(read('?sslmode=prefer'), 'prefer')
  for (const query of ['?sslmode=require', '?ssl=true']) t.equal(read(query), 'require', query)
  for (const mode of ['require', 'verify-ca', 'verify-full'])
    t.match(read(`?sslmode=${mode}&sslrootcert=${TLS_CERT}`), { ca: Buffer, rejectUnauthorized: true }, mode)
  t.match(read(`?ssl=true&sslrootcert=${TLS_CERT}`), { ca: Buffer, rejectUnauthorized: true })
  t.match(read('?sslmode=verify-full'), { ca: undefined, rejectUnauthorized: true })
  for (const query of ['?sslrootcert=system', '?sslmode=verify-full&sslrootcert=system'])
    t.match(read(query), { ca: undefined, rejectUnauthorized: true }, query)
  t.equal(read('?sslmode=require', '%2Fvar%2Frun'), false, 'a Unix socket has no TLS')
  for (const query of ['channel_binding=prefer', 'gssencmode=disable', 'target_session_attrs=any'])
    t.equal(read(`?${query}`), false, query)
})

t.test('what is not supported is refused by its name', async (t) => {
  const empty = join(folder, 'empty.pem')
  writeFileSync(empty, 'none')
  const parameters =
    `ssl=false ssl=1 ssl=TRUE sslmod=require SSLMODE=require sslmode=no-verify sslmode= sslmode=Require
    target_session_attrs=read-only target_session_attrs=read-write host= channel_binding=require gssencmode=require
    sslnegotiation=direct hostaddr=127.0.0.1 sslcert=a sslkey=a sslcrl=a sslpassword=a ssl_min_protocol_version=TLSv1.3
    requirepeer=a require_auth=none passfile=a service=a keepalives=0 replication=true load_balance_hosts=random
    client_encoding=LATIN1 fallback_application_name=a schema=a pgbouncer=true connection_limit=1 search_path=a
    statement_timeout=1 connect_timeout=0 connect_timeout=-1 connect_timeout=1s connect_timeout=99999
    sslrootcert=/nowhere.pem sslrootcert=${TLS_CERT} sslmode=prefer&sslrootcert=${TLS_CERT}
    sslmode=disable&sslrootcert=${TLS_CERT} sslmode=require&sslrootcert=system
    sslmode=verify-full&sslrootcert=/nowhere.pem sslmode=verify-ca&sslrootcert=${empty}
    sslmode=require&sslmode=disable sslmode=verify-full&ssl=true user=a&user=b`.split(/\s+/)
  for (const each of parameters) {
    const name = each.includes('sslrootcert') ? 'sslrootcert' : (each.split('=')[0] ?? '')
    const expected = { name: 'UrlError', message: `its parameter "${name}"` }
    t.throws(() => parseAddress(`postgres://ada:hunter2@db/shop?${each}`), expected, each)
  }
})

t.test('a URI of another form is refused, without its password', async (t) => {
  const uris = [
    ...`mysql://ada:hunter2@db/shop postgres:/db postgres:db db postgres://ada:hunter2/x@db/shop
      postgres://ada:hunt@er2@db/shop postgres://ada:hunter2%@db/shop postgres://ada:hunter2%00@db/shop
      postgres://ada:hunter2@db:x/shop postgres://db:0/shop postgres://db:65536/shop postgres://[::1/shop
      postgres://[]/shop postgres://[::1]x/shop postgres://a,b/shop postgres://a:1,b:2/shop postgres://a%2Cb/shop
      postgres://db?host=a,b postgres://db?host=a&port=1,2 postgres://db?host=@abstract postgres://db?sslmode
      postgres://db?&`.split(/\s+/),
    ...['', ' postgres://db', 'postgres://d b/shop', 'postgres://db?options=-c geqo=off'],
    'postgres://db?hunter2 x=y',
  ]
  for (const uri of uris) {
    let error: unknown
    try {
      parseAddress(uri)
    } catch (thrown) {
      error = thrown
    }
    t.ok(error instanceof UrlError, uri)
    t.notMatch(String(error), /hunt/, uri)
  }
})

/** The protocol version of a request for TLS, and of one that starts a session. */
const TLS_REQUEST = 80_877_103
const STARTUP = 196_608

/** Starts a server that closes each connection after its first packet, and returns its first packet. */
async function startServer(t: Test, path?: string) {
  const packets: Buffer[] = []
  const server = createServer((socket: Socket) => {
    socket.on('error', () => {})
    socket.once('data', (packet) => {
      packets.push(packet)
      socket.destroy()
    })
  })
  server.listen(path === undefined ? { port: 0, host: '127.0.0.1' } : { path })
  await once(server, 'listening')
  t.teardown(() => server.close())
  const send = async (uri: string) => {
    const address = parseAddress(uri)
    const connection = new ServerConnection({ address, statementTimeout: 1_000, lifetime: 60_000 })
    await t.rejects(connection.run('select 1'))
    await connection.close()
    const packet = packets.pop()
    return { version: packet?.readUInt32BE(4), text: String(packet?.subarray(8)) }
  }
  return { send, server }
}

t.test('a connection has its parameters, and begins with TLS if the URI asks for it', async (t) => {
  const { send, server } = await startServer(t)
  const { port } = server.address() as AddressInfo
  const base = `postgres://ada@127.0.0.1:${port}/shop`
  for (const query of ['ssl=true', 'sslmode=require', 'sslmode=verify-full', 'sslrootcert=system'])
    t.equal((await send(`${base}?${query}`)).version, TLS_REQUEST, query)
  const { version, text } = await send(`${base}?application_name=checkout&options=-c%20geqo%3Doff`)
  t.equal(version, STARTUP)
  for (const part of ['user\0ada\0', 'application_name\0checkout\0', 'options\0-c geqo=off\0'])
    t.match(text, part)
  const socket = await startServer(t, join(folder, '.s.PGSQL.5432'))
  for (const uri of [
    `postgres://ada@/shop?host=${folder}`,
    `postgres://ada@${encodeURIComponent(folder)}/shop?sslmode=require`,
  ])
    t.match(await socket.send(uri), { version: STARTUP, text: 'database\0shop\0' }, uri)
})

t.test('connect_timeout is that of connections', async (t) => {
  const silent = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const order: string[] = []
  const fail = async (query: string) => {
    await t.rejects(openDatabase({ url: `postgres://ada@127.0.0.1:${port}/shop${query}`, poolSize: 1 }))
    order.push(query)
  }
  await Promise.all([fail(''), fail('?connect_timeout=1')])
  t.same(order, ['?connect_timeout=1', ''])
  silent.close()
})
