/** Each operation, the benchmark's workloads among them, runs a fixed number of prepared statements. */
import t, { type Test } from 'tap'
import { type Client, type Reply, testApp } from '../../testing/helpers/app.ts'
import { openDatabase, SERVER, testDatabase, testDatabaseUrl } from '../../testing/helpers/database.ts'
import { stopEventWork } from '../../testing/helpers/events.ts'
import { createNotesTable, resourcesWithNotes } from '../../testing/helpers/notes.ts'
import { insertRows } from '../../testing/helpers/rows.ts'
import { overhear, type RecordedTraffic, startStatementRecorder } from '../../testing/helpers/statements.ts'
import { stopClock } from '../../testing/helpers/time.ts'
import type { Database } from '../src/client/index.ts'

async function openRecorded(): Promise<{ database: Database; take(): RecordedTraffic }> {
  if (!SERVER) return overhear(await testDatabase(t))
  const { url = '' } = await testDatabaseUrl(t)
  const wire = await startStatementRecorder(t, url)
  const database = await openDatabase({ url: wire.url })
  t.teardown(() => database.close())
  return { database, take: wire.take }
}

const { database, take } = await openRecorded()
const app = await testApp(t, {}, { database, resources: resourcesWithNotes })
const { admin, adminId } = app
// Its statements would be among those that are counted.
await stopEventWork(app.app)
const { client, bearer } = await app.person('admin')
await createNotesTable(database)

const note = { title: 'a', body: 'b' }
const many = <T>(count: number, row: T) => Array.from({ length: count }, () => row)
const [product = ''] = await insertRows(database, 'products', many(30, {}))
const users = await insertRows(database, 'users', many(60, {}))
const ofUsers = users.map((user_id) => ({ user_id }))
const item = { product_id: product, quantity: 1, sku: 'S', name: 'N', unit_amount: 100, total_amount: 100 }
const items = JSON.stringify([item])
await insertRows(
  database,
  'orders',
  users.map((user_id) => ({ user_id, items })),
)
await insertRows(database, 'user_profiles', ofUsers)
await insertRows(
  database,
  'notes',
  [...users, ...many(3, adminId)].map((user_id) => ({ user_id, ...note })),
)
await database.run(
  'insert into order_products select o.id, p.id from orders o, (select id from products limit 3) p',
)

let count = 0
const path = `/products/${product}`
const newProduct = () => ({ sku: `WIRE-${++count}`, name: 'New', price_amount: 100 })
const newStock = () => ({ stock: ++count })

interface Workload {
  status: number
  /** Sends a request; `before` is the reply to the first one. */
  send(client: Client, before: Reply | undefined): Promise<Reply>
}

/** Returns the traffic of a request that is sent for the third time: its statements are prepared, its credential cached. */
async function record(t: Test, { send, status }: Workload, by: Client): Promise<RecordedTraffic> {
  // A connection that was idle for a second would be pinged.
  stopClock(t)
  const first = await send(by, undefined)
  await send(by, first)
  take()
  const reply = await send(by, first)
  const sent = take()
  t.equal(reply.status, status, reply.text)
  return sent
}

const fromTable = (table: string) => new RegExp(`^select .* from "${table}"`)
const readTag = (before: Reply | undefined) => ({ 'if-none-match': before?.headers.get('etag') ?? '' })
const readCursor = (before: Reply | undefined) => before?.body.pagination.cursor ?? ''

const WORKLOADS: Record<string, [status: number, send: Workload['send'], ...statements: RegExp[]]> = {
  W1: [200, (by) => by.get(path), fromTable('products')],
  W2: [200, (by) => by.get('/products'), fromTable('products')],
  W3: [
    200,
    (by, before) => by.get(`/users?status=active&limit=20&cursor=${readCursor(before)}`),
    fromTable('users'),
  ],
  // The users are known only after the orders are read.
  W4: [
    200,
    (by) => by.get('/orders?include=user'),
    fromTable('orders'),
    /^select .* from unnest.* from "users"/,
  ],
  W5: [201, (by) => by.post('/products', newProduct()), /^with changed as \(insert into "products"/],
  W6: [200, (by) => by.patch(path, newStock()), /^with changed as \(update "products"/],
  W7: [304, (by, before) => by.get(path, readTag(before)), fromTable('products')],
}

for (const [credential, by] of Object.entries({ 'an API key': client, 'a Bearer token': bearer })) {
  for (const [name, [status, send, ...expected]] of Object.entries(WORKLOADS)) {
    t.test(`${name} with ${credential}: exactly the expected statements`, async (t) => {
      const { statements, roundTrips, prepared } = await record(t, { status, send }, by)
      const { length } = expected
      t.match(statements, expected)
      // A round trip each, none for a transaction, and nothing is parsed again.
      t.strictSame([statements.length, roundTrips, prepared], [length, length, 0], statements.join('; '))
    })
  }
}

t.test('an uncached credential is looked up and its last use recorded', async (t) => {
  const person = await app.person('admin')
  for (const [by, credential] of [
    [person.client, 'api_keys'],
    [person.bearer, 'sessions'],
  ] as const) {
    take()
    await by.get(path)
    const { statements } = take()
    const lookup = new RegExp(`from "${credential}"`)
    t.match(statements, [lookup, new RegExp(`^update "${credential}"`), /"products"/])
    t.equal(statements.length, 3)
    await by.get(path)
    t.equal(take().statements.length, 1, 'and is cached from then on')
  }
})

/** Sends a request. Returns its statements without those of the credential and of a ping. */
async function readStatements(send: () => Promise<Reply>) {
  take()
  const reply = await send()
  const all = take().statements.filter(
    (text) => !/api_keys|^select "id", "status" from "users"|^select 1$/.test(text),
  )
  return { reply, all, found: all.filter((text) => !/^(begin|commit)/.test(text)) }
}
const readList = (address: string, headers = {}) => readStatements(() => admin.get(address, headers))

const LISTS: [address: string, statements: number][] = [
  ['/users?limit=100', 1],
  ['/users?limit=1', 1],
  ['/users?status=active&role=member&search=user&created_after=2020-01-01&sort=name,-email&fields=id', 1],
  ['/users?include=orders', 2],
  ['/users?include=orders,notes,profile&limit=100', 4],
  ['/users?page=1', 1],
  ['/users?page=2&include=orders,notes,profile&search=user', 4],
  ['/user-profiles?include=user', 2],
  ['/user-profiles?include=user&page=1', 2],
  ['/users/me/notes', 1],
  ['/users/me/notes?include=user', 2],
  ['/users/me/notes?page=1&sort=-title', 1],
  ['/orders?include=user,products&limit=20', 3],
  ['/orders?include=user,products&page=1', 3],
]

t.test('a list runs one statement, with its total, plus one for each relation', async (t) => {
  for (const [address, count] of LISTS) {
    const { reply, found } = await readList(address)
    t.equal(reply.status, 200, address)
    t.ok(reply.body.data.length > 0, address)
    t.equal(found.length, count, address)
    t.equal(found.filter((text) => /count\(/.test(text)).length, /page=/.test(address) ? 1 : 0, address)
    const { cursor } = reply.body.pagination
    if (cursor) t.equal((await readList(`${address}&cursor=${cursor}`)).found.length, count, address)
    const unchanged = await readList(address, { 'if-none-match': reply.headers.get('etag') })
    t.equal(unchanged.reply.status, 304, address)
    t.ok(unchanged.found.length <= count, address)
  }
})

t.test('only an empty page checks whether its parent exists; an error runs nothing', async (t) => {
  for (const [address, status, count] of [
    [`/users/${adminId}/notes?search=nothing`, 200, 2],
    ['/products?search=nothing', 200, 1],
    ['/orders?search=nothing&include=user,products', 200, 1],
    ['/products?limit=0', 400, 0],
    ['/products?cursor=x', 400, 0],
    ['/users?include=no', 400, 0],
    ['/orders?user_id=x', 400, 0],
  ] as const) {
    const { reply, found } = await readList(address)
    t.strictSame([reply.status, found.length], [status, count], address)
  }
})

t.test('requests of one shape share a statement, for any values and order of parameters', async (t) => {
  for (const addresses of [
    ['/products?search=one&limit=3', '/products?search=two&limit=50'],
    ['/products?fields=id,sku,name', '/products?fields=name,sku', '/v2/products?fields=sku,name,sku'],
    ['/orders?include=user,products', '/orders?include=products,user'],
    ['/users?status=active&role=admin', '/users?role=member&status=inactive'],
  ]) {
    const found = new Set<string | undefined>()
    for (const address of addresses) found.add((await readList(address)).found[0])
    t.equal(found.size, 1, addresses.join())
  }
})

t.test('only the selected columns are read', async (t) => {
  t.notMatch((await readList('/products?fields=sku')).found[0], /description|"search"|price_amount/)
  t.notMatch((await readList('/users')).found[0], /password_hash|"search"/)
})

t.test('an Idempotency-Key costs three statements, or four if it saves work, and none without', async (t) => {
  await database.run('update products set stock = 100')
  const order = { items: [{ product_id: product, quantity: 1 }] }
  // An invitation would add statements of its own.
  const user = { name: 'N', email: 'statements@example.com', invite: false }
  for (const [method, address, body, other, more] of [
    ['POST', '/users/me/notes', note, note, 3],
    ['POST', '/orders', order, order, 3],
    ['PATCH', path, { name: 'A' }, { name: 'B' }, 3],
    // Looked up before passwords are hashed, too.
    ['POST', '/users', user, { ...user, email: 'again@example.com' }, 4],
    ['PATCH', `/users/${users[0]}`, { name: 'A' }, { name: 'B' }, 4],
  ] as const) {
    const name = `${method} ${address}`
    const write = async (sent: object, headers = {}) => {
      const { reply, found } = await readStatements(() =>
        admin.call(method, address, { headers, body: sent }),
      )
      t.ok(reply.status < 300, `${name} ${reply.text}`)
      const kept = found.filter((text) => /idempotency_keys|pg_try_advisory/.test(text)).length
      return { reply, count: found.length, kept }
    }
    const bare = await write(body)
    t.equal(bare.kept, 0)
    const headers = { 'idempotency-key': name.replaceAll(' ', '') }
    t.match(await write(other, headers), { count: bare.count + more, kept: more }, name)
    const again = await write(other, headers)
    t.equal(again.reply.headers.get('idempotency-replayed'), 'true')
    t.ok(again.count <= 3, 'a replay: the lock, the row, the record')
  }
})

t.test('a write with an Idempotency-Key and its record are one transaction', async (t) => {
  const headers = () => ({ 'idempotency-key': `wire-${++count}` })
  for (const [length, write] of [
    [6, { status: 201, send: (by: Client) => by.post('/products', newProduct(), headers()) }],
    // The row is locked and checked before the record is looked up, as the contract orders it.
    [7, { status: 200, send: (by: Client) => by.patch(path, newStock(), headers()) }],
  ] as const) {
    const { statements, roundTrips } = await record(t, write, client)
    t.match([statements.at(0), statements.at(-1)], [/^begin/, /^commit/])
    t.strictSame([statements.length, roundTrips], [length, length], statements.join('; '))
  }
})

t.test('a write of one row is one statement, or a transaction that locks it', async (t) => {
  const update = /^with changed as \(update "products"/
  for (const [method, address, body, statements] of [
    ['PATCH', path, { stock: 77 }, [update]],
    // A change without effect is detected by reading the row.
    ['PATCH', path, { stock: 77 }, [update, /^begin/, /^select.* for no key update$/, /^commit/]],
    ['PATCH', path, { name: 'Found by it' }, [/^begin/, /^select.* for no key update$/, update, /^commit/]],
  ] as const) {
    const { reply, all } = await readStatements(() => admin.call(method, address, { body }))
    t.ok(reply.status < 300, reply.text)
    t.match(all, statements)
    t.equal(all.length, statements.length, `${method} ${address}: ${all.join('; ')}`)
  }
})
