/** Each operation runs a fixed number of prepared statements, one per shape of request. */

import t from 'tap'
import { testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { stopEventWork } from '../helpers/events.ts'
import { createNotesTable, resourcesWithNotes } from '../helpers/notes.ts'
import { insertRows } from '../helpers/rows.ts'
import { overhear } from '../helpers/statements.ts'

const { database: recorded, take } = overhear(await testDatabase(t))
const { app, admin, database, adminId } = await testApp(
  t,
  {},
  { database: recorded, resources: resourcesWithNotes },
)
// Its statements would be among those that are counted.
await stopEventWork(app)
await createNotesTable(database)
const note = { title: 'a', body: 'b' }
const many = <T>(count: number, row: T) => Array.from({ length: count }, () => row)
const users = await insertRows(database, 'users', many(30, {}))
const ofUsers = users.map((user_id) => ({ user_id }))
await insertRows(database, 'orders', [...ofUsers, ...ofUsers])
await insertRows(database, 'user_profiles', ofUsers)
const authors = [...users, ...many(3, adminId)]
await insertRows(
  database,
  'notes',
  authors.map((user_id) => ({ user_id, ...note })),
)
const products = await insertRows(database, 'products', many(30, {}))
await database.run(
  'insert into order_products select o.id, p.id from orders o, (select id from products limit 3) p',
)

const CREDENTIAL = /api_keys|^select "id", "status" from "users"/

/** The statements of a request, those that look its credential up apart. */
async function statementsOf(path: string, headers: Record<string, string> = {}) {
  take()
  const reply = await admin.get(path, headers)
  return { reply, found: take().statements.filter((text) => !CREDENTIAL.test(text)) }
}

const LISTS: [string, number][] = [
  ['/users', 1],
  ['/users?limit=100', 1],
  ['/users?limit=1', 1],
  ['/users?status=active&role=member&search=user&created_after=2020-01-01&sort=name,-email&fields=id', 1],
  ['/users?include=orders', 2],
  ['/users?include=orders,notes,profile', 4],
  ['/users?include=orders,notes,profile&limit=100', 4],
  ['/users?page=1', 1],
  ['/users?page=2&include=orders,notes,profile&search=user', 4],
  ['/user-profiles', 1],
  ['/user-profiles?include=user', 2],
  ['/user-profiles?include=user&page=1', 2],
  ['/users/me/notes', 1],
  ['/users/me/notes?include=user', 2],
  ['/users/me/notes?page=1&sort=-title', 1],
  ['/products', 1],
  ['/products?page=1', 1],
  ['/orders', 1],
  ['/orders?include=user,products&limit=100', 3],
  ['/orders?include=user,products&page=1', 3],
]

t.test('a list runs one statement, with its total, plus one for each relation', async (t) => {
  for (const [path, count] of LISTS) {
    const { reply, found } = await statementsOf(path)
    t.equal(reply.status, 200, path)
    t.ok(reply.body.data.length > 0, path)
    t.equal(found.length, count, path)
    t.equal(found.filter((text) => /count\(/.test(text)).length, /page=/.test(path) ? 1 : 0, `${path} counts`)
    const { cursor } = reply.body.pagination
    if (!cursor) continue
    const next = await statementsOf(`${path}${path.includes('?') ? '&' : '?'}cursor=${cursor}`)
    t.equal(next.reply.status, 200)
    t.equal(next.found.length, count, `${path}, its next page`)
  }
})

t.test('a 304 runs no more statements than a 200', async (t) => {
  for (const [path, count] of LISTS) {
    const etag = (await admin.get(path)).headers.get('etag') ?? ''
    const { reply, found } = await statementsOf(path, { 'if-none-match': etag })
    t.equal(reply.status, 304, path)
    t.ok(found.length <= count, path)
  }
})

t.test('only an empty page under a parent checks whether the parent exists', async (t) => {
  t.equal((await statementsOf(`/users/${adminId}/notes?search=nothing`)).found.length, 2)
  t.equal((await statementsOf('/products?search=nothing')).found.length, 1)
  t.equal((await statementsOf('/orders?search=nothing&include=user,products')).found.length, 1)
})

t.test('a rejected request runs no statement', async (t) => {
  for (const path of ['/products?limit=0', '/products?cursor=x', '/users?include=no', '/orders?user_id=x']) {
    const { reply, found } = await statementsOf(path)
    t.equal(reply.status, 400)
    t.same(found, [], path)
  }
})

t.test('requests of one shape share a statement, for any values and order of parameters', async (t) => {
  const shapes: string[][] = [
    ['/products?search=one&limit=3', '/products?search=two&limit=50'],
    ['/products?fields=id,sku,name', '/products?fields=name,sku', '/v2/products?fields=sku,name,sku'],
    ['/orders?include=user,products', '/orders?include=products,user'],
    ['/users?status=active&role=admin', '/users?role=member&status=inactive'],
  ]
  for (const paths of shapes) {
    const found = new Set<string>()
    for (const path of paths) found.add((await statementsOf(path)).found[0] ?? '')
    t.equal(found.size, 1, paths[0] ?? '')
  }
})

t.test('only the selected columns are read', async (t) => {
  const { found } = await statementsOf('/products?fields=sku')
  t.notMatch(found[0], /description|"search"|price_amount/)
  t.notMatch((await statementsOf('/users')).found[0], /password_hash|"search"/)
})

/** Returns the statements of a write: with those of its transaction, without, and those of the record of its key. */
async function writeOf(method: string, path: string, body: unknown, headers: Record<string, string>) {
  take()
  const reply = await admin.call(method, path, { headers, body })
  const all = take().statements.filter((text) => !CREDENTIAL.test(text))
  const found = all.filter((text) => !/^(begin|commit)$/.test(text))
  return { reply, all, found, kept: found.filter((text) => /idempotency_keys|pg_try_advisory/.test(text)) }
}

t.test(
  'an Idempotency-Key costs three statements, or four if it saves work, and none without it',
  async (t) => {
    const [product] = products
    const items = [{ product_id: product, quantity: 1 }]
    await database.run('update products set stock = 100')
    const user = { name: 'N', email: 'statements@example.com' }
    const changed = `/users/${users[0]}`
    const cases: [method: string, path: string, body: unknown, second: unknown, more: number][] = [
      ['POST', '/users/me/notes', note, note, 3],
      ['POST', '/orders', { items }, { items }, 3],
      ['PATCH', `/products/${product}`, { name: 'A' }, { name: 'B' }, 3],
      // Asked before passwords are hashed, too.
      ['POST', '/users', user, { ...user, email: 'again@example.com' }, 4],
      ['PATCH', changed, { name: 'A' }, { name: 'B' }, 4],
    ]
    for (const [method, path, body, other, more] of cases) {
      const bare = await writeOf(method, path, body, {})
      t.ok(bare.reply.status < 300, `${method} ${path} ${bare.reply.text}`)
      t.same(bare.kept, [])
      const header = { 'idempotency-key': `${method} ${path}`.replaceAll(' ', '') }
      const keyed = await writeOf(method, path, other, header)
      t.ok(keyed.reply.status < 300, `${method} ${path}`)
      t.equal(keyed.found.length, bare.found.length + more, `${method} ${path}`)
      t.equal(keyed.kept.length, more)
      const again = await writeOf(method, path, other, header)
      t.equal(again.reply.headers.get('idempotency-replayed'), 'true')
      t.ok(again.found.length <= 3, 'to answer again: the lock, the row, the record')
    }
  },
)

t.test(
  'a write of one row is one statement, or two if the row must be read, without a transaction',
  async (t) => {
    const path = `/products/${products[0]}`
    const update = /^with changed as \(update "products"/
    const cases: [method: string, path: string, body: unknown, statements: RegExp[]][] = [
      ['PATCH', path, { stock: 77 }, [update]],
      // A change without effect is detected by reading the row.
      ['PATCH', path, { stock: 77 }, [update, /^select/]],
      ['PATCH', path, { name: 'Found by it' }, [/^select/, update]],
      ['POST', '/users/me/notes', note, [/^with changed as \(insert into "notes"/]],
    ]
    for (const [method, path, body, statements] of cases) {
      const { reply, all } = await writeOf(method, path, body, {})
      t.ok(reply.status < 300, `${method} ${path} ${reply.text}`)
      t.match(all, statements)
      t.equal(all.length, statements.length, `${method} ${path}: ${all.join('; ')}`)
    }
  },
)
