/** A cursor is signed and bound to its list, and stays valid when its row is gone. */
import t from 'tap'
import { deriveKey } from '../../../http/src/config/secrets.ts'
import { type Reply, testApp } from '../../../testing/helpers/app.ts'
import { createNotes } from '../../../testing/helpers/notes.ts'
import { getIds } from '../../../testing/helpers/replies.ts'
import { insertRows } from '../../../testing/helpers/rows.ts'
import { createCursors } from '../../src/sql/cursors.ts'

const SECRET = 'secret-of-the-cursors-secret-of-the-cursors'
const { admin, database, person, adminId } = await testApp(t, { APP_SECRET: SECRET }, await createNotes(t))
const { id: other, client: member } = await person('member')
const teas = Array.from({ length: 8 }, (_, n) => `Tea "${n}" \\ é\u{1f600}`)
const active = { description: 'leaf', status: 'active' }
await insertRows(
  database,
  'products',
  teas.map((name) => ({ name, ...active })),
)
for (const user_id of [adminId, other])
  await insertRows(database, 'notes', [{ user_id }, { user_id }, { user_id }])
await insertRows(database, 'orders', [{ user_id: other }, { user_id: other }, { user_id: other }])

const cursorOf = async (path: string): Promise<string> => (await admin.get(path)).body.pagination.cursor

const isRefused = (reply: Reply) =>
  reply.status === 400 &&
  reply.body.error.code === 'INVALID_CURSOR' &&
  (reply.body.error.details ?? reply.body.error.errors)[0].field === 'cursor'

t.test('a cursor with any changed character is rejected', async (t) => {
  const path = '/products?sort=name&limit=3'
  const cursor = await cursorOf(path)
  t.match(cursor, /^[A-Za-z0-9_-]+$/)
  t.equal((await admin.get(`${path}&cursor=${cursor}`)).status, 200)
  const put = (at: number, text: string) => cursor.slice(0, at) + text + cursor.slice(at + text.length)
  const forged = [
    ...[...cursor].map((letter, i) => put(i, letter === 'A' ? 'B' : 'A')),
    // The last character has bits that no byte needs.
    ...[...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_']
      .map((letter) => put(cursor.length - 1, letter))
      .filter((each) => each !== cursor),
    ...[cursor.slice(1), cursor.slice(0, -1), cursor.slice(0, -4), cursor.slice(0, 21), cursor.slice(0, 22)],
    ...[`${cursor}A`, `${cursor}=`, `${cursor}%00`, `%20${cursor}`, cursor + cursor, cursor.toLowerCase()],
    ...['x', 'null', '__proto__', '%F0%9F%98%80', 'A'.repeat(7000)],
    Buffer.from(`${'\0'.repeat(16)}["a","0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f"]`).toString('base64url'),
  ]
  for (const each of forged) {
    const reply = await admin.get(`${path}&cursor=${each}`)
    if (!isRefused(reply)) t.fail(`${reply.status} ${each.slice(0, 80)}`)
  }
  t.pass(`${forged.length} forgeries`)
  t.ok(isRefused(await admin.get(`/v2${path}&cursor=${cursor}x`)), 'in v2 as well')
  t.equal((await admin.call('HEAD', `${path}&cursor=x`)).status, 400)
})

t.test('a cursor is bound to collection, parent, sort, filters and search', async (t) => {
  const pairs: Record<string, string> = {
    '/products?limit=2': `/users?limit=2 /orders? /products?sort=created_at /products?sort=-name /products?order=asc
      /products?sort=-created_at,name /products?status=active /products?created_after=2020-01-01
      /products?created_before=2030-01-01 /products?search=tea /user-profiles? /users/${adminId}/notes?`,
    '/products?limit=2&status=active': '/products? /products?status=draft',
    '/products?limit=2&status=active,draft': `/products? /products?status=active /products?status=active,draft,archived
      /products?status=active,archived`,
    '/products?limit=2&price_amount_min=1': `/products? /products?price_amount_min=2 /products?price_amount_max=1
      /products?created_after=0001-01-01`,
    '/users?limit=1&updated_after=2020-01-01&sort=name': `/users?sort=name /users?sort=name&updated_before=2020-01-01
      /users?sort=name&created_after=2020-01-01`,
    '/products?limit=2&search=tea': '/products? /products?search=leaf /products?search=tea%20leaf',
    '/products?limit=2&created_after=2020-01-01': `/products?created_after=2020-01-02
      /products?created_before=2020-01-01`,
    '/products?limit=2&sort=name,sku': '/products?sort=sku,name /products?sort=name,-sku /products?sort=name',
    [`/users/${adminId}/notes?limit=2`]: `/users/${other}/notes? /products? /users/${adminId}/notes?status=draft`,
    [`/orders?limit=2&user_id=${other}`]: `/orders? /orders?user_id=${adminId}`,
    '/products?limit=2&status_not=draft&description_null=false': `/products?status_not=draft /products?
      /products?description_null=false /products?status_not=active&description_null=false`,
    '/products?limit=2&name_prefix=tea': '/products? /products?name_prefix=te',
    '/orders?limit=2&user.status=active': '/orders? /orders?user.status=suspended',
  }
  for (const [path, elsewhere] of Object.entries(pairs)) {
    const cursor = await cursorOf(path)
    t.type(cursor, 'string', path)
    t.equal((await admin.get(`${path}&cursor=${cursor}`)).status, 200)
    for (const each of elsewhere.split(/\s+/))
      t.ok(isRefused(await admin.get(`${each}&cursor=${cursor}`)), `${path} -> ${each}`)
  }
})

t.test('limit, fields, include, version and spelling may change between pages', async (t) => {
  const cursor = await cursorOf('/api/v1/products?limit=3')
  const rest = getIds(await admin.get(`/api/v1/products?limit=3&cursor=${cursor}`))
  t.equal(rest.length, 3)
  for (const path of [
    '/api/v2/products?limit=3',
    '/v1/products?limit=3&fields=sku',
    '/products?sort=-created_at&limit=3',
    '/products?sort=created_at&order=desc&limit=3',
    '/products?limit=5',
  ]) {
    const reply = await admin.get(`${path}&cursor=${cursor}`)
    t.equal(reply.status, 200, path)
    t.same(getIds(reply).slice(0, 3), rest, path)
  }
  const orders = await cursorOf('/orders?limit=1')
  t.equal((await admin.get(`/orders?include=user,products&limit=9&cursor=${orders}`)).status, 200)
  const search = await cursorOf(`/orders?limit=1&user_id=${other}`)
  t.equal((await admin.get(`/orders?user_id=${other.toUpperCase()}&cursor=${search}`)).status, 200)
})

t.test("a cursor of /users/me/notes is valid with the user's id, and after its row is deleted", async (t) => {
  const cursor = await cursorOf('/users/me/notes?limit=1')
  t.equal((await admin.get(`/users/${adminId}/notes?cursor=${cursor}`)).status, 200)
  const other = await member.get(`/users/me/notes?cursor=${cursor}`)
  t.ok(isRefused(other), 'me of another user is another parent')

  const path = '/products?sort=sku&limit=4'
  const first = await admin.get(path)
  const next = `${path}&cursor=${first.body.pagination.cursor}`
  const before = getIds(await admin.get(next))
  await database.run('delete from products where id = $1', [getIds(first)[3] ?? ''])
  t.same(getIds(await admin.get(next)), before)
})

t.test('a cursor of the longest sort values fits into a request', async (t) => {
  const name = '\u{1f600}'.repeat(200)
  await insertRows(database, 'products', [{ name: `"${name}`.slice(0, 400), sku: 's'.repeat(64) }, { name }])
  const path = '/products?sort=-name,sku,price_amount,created_at&limit=1'
  t.equal((await admin.get(`${path}&cursor=${await cursorOf(path)}`)).status, 200)
})

t.test('a cursor signed with another secret is rejected', async (t) => {
  const { admin: elsewhere } = await testApp(t, { APP_SECRET: 'another-secret-another-secret-another' })
  t.ok(isRefused(await elsewhere.get(`/products?limit=3&cursor=${await cursorOf('/products?limit=3')}`)))
})

t.test('a cursor with fewer values than the sort needs is rejected', async (t) => {
  // As a release with other places signs it; the next one has the same key.
  const cursors = createCursors(deriveKey(SECRET, 'cursors'))
  for (const [collection, sort, places] of [
    ['products', 'name', ['Tea']],
    ['products', '-created_at', ['2026-01-01 00:00:00+00']],
    ['users', 'name', []],
    ['products', 'sku', []],
    ['users', 'name,email', ['Ada']],
  ] as const) {
    const sorts = sort.split(',').map((name) => [name.replace('-', ''), name.startsWith('-')])
    const binding = JSON.stringify([collection, null]) + JSON.stringify([sorts, [], [], []])
    const path = `/${collection}?sort=${sort}&cursor=${cursors.write(places, binding)}`
    t.ok(isRefused(await admin.get(path)), path)
  }
})

t.test('queries that select the same rows in the same order share cursors', async (t) => {
  const same = {
    'status=active,draft': ['status=draft,active', 'status=active,draft,active,draft'],
    'status=active': ['status=active,active'],
    'status_not=draft': ['status=active,archived', 'status_not=draft,draft'],
    'status=active&currency=USD': ['currency=USD&status=active'],
    'created_after=2020-01-01': [
      'created_after=2020-01-01T00:00:00Z',
      'created_after=2020-01-01t01:00:00.000%2B01:00',
    ],
    'price_amount_min=1&price_amount_max=500': ['price_amount_max=500&price_amount_min=1'],
  }
  for (const [query, others] of Object.entries(same)) {
    const cursor = await cursorOf(`/products?limit=2&${query}`)
    const next = getIds(await admin.get(`/products?limit=2&${query}&cursor=${cursor}`))
    t.equal(next.length, 2, query)
    for (const other of others) {
      t.same(getIds(await admin.get(`/products?limit=2&${other}&cursor=${cursor}`)), next, other)
    }
  }
})
