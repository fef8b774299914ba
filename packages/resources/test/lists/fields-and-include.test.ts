/** fields selects the fields of a resource, and include adds related resources that the caller may read. */
import t from 'tap'
import { type Json, testApp } from '../../../testing/helpers/app.ts'
import { createNotes } from '../../../testing/helpers/notes.ts'
import { checkRefusals } from '../../../testing/helpers/replies.ts'
import { insertRows } from '../../../testing/helpers/rows.ts'
import { checkValues } from './list-tables.ts'

const { admin, database, person } = await testApp(t, {}, await createNotes(t))
const ada = await person('member')
const bob = await person('member')
const moment = (n: number) => new Date(Date.UTC(2026, 0, 1) + n).toISOString()
const newest = (ids: string[], count: number) => [...ids].reverse().slice(0, count)

const repeat = <T>(count: number, make: (n: number) => T) => Array.from({ length: count }, (_, n) => make(n))
const toNote = (n: number) => ({
  user_id: ada.id,
  created_at: moment(n),
  status: n === 22 ? 'draft' : 'published',
})
const notes = await insertRows(database, 'notes', repeat(23, toNote))
const toOrder = (n: number) => ({ user_id: ada.id, created_at: moment(n) })
const orders = await insertRows(database, 'orders', repeat(21, toOrder))
const bobs = await insertRows(database, 'orders', [{ user_id: bob.id, created_at: moment(99) }])
const [profile = ''] = await insertRows(database, 'user_profiles', [{ user_id: ada.id, display_name: 'Ada' }])
const toProduct = (n: number) => ({ created_at: moment(n), status: n % 2 ? 'active' : 'archived' })
const products = await insertRows(database, 'products', repeat(25, toProduct))
const whole = orders[20] ?? ''
for (const id of products) await database.run('insert into order_products values ($1, $2)', [whole, id])

const idOf = (each: Json) => each?.id ?? null

t.test('fields returns the named fields and the id', async (t) => {
  const v1 = await admin.get(`/v1/users/${ada.id}?fields=name`)
  t.same(Object.keys(v1.body.data), ['id', 'name'])
  const v2 = await admin.get(`/v2/users/${ada.id}?fields=name`)
  t.same(Object.keys(v2.body.data).sort(), ['attributes', 'id', 'type'])
  t.same(Object.keys(v2.body.data.attributes), ['name'])
  for (const path of ['/users', '/user-profiles', `/users/${ada.id}/notes`, '/products', '/orders']) {
    const full = (await admin.get(`/v1${path}?limit=1`)).body.data[0]
    const names = Object.keys(full)
    for (const name of names) {
      const { body } = await admin.get(`/v1${path}?limit=1&fields=${name}`)
      t.same(body.data, [{ id: full.id, [name]: full[name] }], `${path} ${name}`)
    }
    const typed = (await admin.get(`/v2${path}?limit=1&fields=id,created_at`)).body.data[0]
    t.same(typed.attributes, { created_at: full.created_at }, `v2 ${path}`)
    const { body } = await admin.get(`/v1${path}?limit=1&fields=${names.join()}`)
    t.same(body.data, [full])
  }
})

t.test('sorting, paging and tags work without the fields that are not selected', async (t) => {
  const reply = await admin.get('/products?fields=sku&sort=price_amount,-name&limit=3')
  t.same(Object.keys(reply.body.data[0]), ['id', 'sku'])
  const { cursor } = reply.body.pagination
  const next = await admin.get(`/products?fields=sku&sort=price_amount,-name&limit=3&cursor=${cursor}`)
  t.equal(next.status, 200)
  const tagOf = async (query: string) => (await admin.get(`/users/${ada.id}${query}`)).headers.get('etag')
  const tags = new Set<string | null>()
  for (const query of ['', '?fields=name', '?fields=email', '?include=profile', '?include=notes'])
    tags.add(await tagOf(query))
  t.equal(tags.size, 5, 'each selection has its own tag')
  t.equal(await tagOf('?fields=name,email'), await tagOf('?fields=email,id,name'), 'in any order')
})

t.test('fields and include with unknown names are rejected, on lists and single reads', async (t) => {
  const malformed = 'no id,,name name, id,%20name -name Name'
  const hidden = 'password password_hash search revision orders __proto__ constructor'
  const relations = 'no orders, orders.products orders%20 toString __proto__'
  for (const path of ['/users', `/v2/users/${ada.id}`]) {
    await checkValues(t, admin, `${path}?fields`, 'INVALID_VALUE', `${malformed} ${hidden}`)
    await checkValues(t, admin, `${path}?include`, 'INVALID_VALUE', relations)
    await checkRefusals(t, admin, {
      [`${path}?fields=`]: ['fields TOO_SHORT'],
      [`${path}?fields[users]=name`]: ['fields[users] UNKNOWN_PARAMETER'],
      [`${path}?fields=id&fields=name`]: ['fields CONFLICTING_PARAMETERS'],
      [`${path}?include=`]: ['include TOO_SHORT'],
      [`${path}?include=orders&include=notes`]: ['include CONFLICTING_PARAMETERS'],
    })
  }
  await checkRefusals(t, admin, {
    '/products?include=user': ['include UNKNOWN_PARAMETER'],
    // Unknown, and more than three.
    '/users?include=orders,notes,profile,user': ['include INVALID_VALUE', 'include INVALID_VALUE'],
  })
  t.equal((await admin.get('/users?include=orders,notes,profile,orders&fields=id,id')).status, 200, 'a set')
})

t.test('a to-many include has the 20 newest rows, has_more, and the parents with more rows', async (t) => {
  for (const path of [`/v1/users/${ada.id}`, '/v1/users?role=member']) {
    const { body } = await admin.get(`${path}${path.includes('?') ? '&' : '?'}include=notes,orders`)
    const user = [body.data].flat().find(({ id }: Json) => id === ada.id)
    t.same(user.notes.map(idOf), newest(notes, 20))
    t.same(user.orders.map(idOf), newest(orders, 20))
    const more = { has_more: true, truncated: [ada.id] }
    t.same(body.meta.includes, { orders: more, notes: more })
  }
  const { body } = await admin.get(`/users/${bob.id}?include=notes,orders,profile`)
  t.same([body.data.notes, body.data.orders.map(idOf), body.data.profile], [[], bobs, null])
  const whole = { has_more: false, truncated: [] }
  t.same(body.meta.includes, { orders: whole, notes: whole })
})

t.test('an order includes all of its products', async (t) => {
  const { body } = await admin.get(`/orders/${whole}?include=products`)
  t.same(body.data.products.map(idOf), newest(products, 25))
  t.same(body.meta.includes, { products: { has_more: false, truncated: [] } })
  const list = (await admin.get('/orders?include=products,user&limit=3')).body.data
  const found = list.map(({ products, user }: Json) => [products.length, user.id])
  t.same(found, [
    [0, bob.id],
    [25, ada.id],
    [0, ada.id],
  ])
})

t.test('a to-one include is a whole resource or null, without relations', async (t) => {
  const user = (await admin.get(`/v1/users/${ada.id}`)).body.data
  for (const path of [
    `/users/${ada.id}/notes/${notes[0]}`,
    `/user-profiles/${profile}`,
    `/orders/${whole}`,
  ]) {
    const { body } = await admin.get(`/v1${path}?include=user`)
    t.same(body.data.user, user, path)
    t.notOk('includes' in body.meta)
    const narrowed = await admin.get(`/v1${path}?include=user&fields=id`)
    t.same(Object.keys(narrowed.body.data), ['id', 'user'], 'what a relation hangs on need not be shown')
  }
  const { body } = await admin.get(`/v1/users/${ada.id}?include=profile`)
  t.same(body.data.profile, (await admin.get(`/v1/user-profiles/${profile}`)).body.data)
})

t.test('in v2 relations are typed resources next to the attributes', async (t) => {
  const { body } = await admin.get(`/v2/users/${ada.id}?include=orders,notes,profile&fields=name`)
  t.same(Object.keys(body.data).sort(), ['attributes', 'id', 'relationships', 'type'])
  const { notes: found, orders: others, profile: one } = body.data.relationships
  t.same(found.map(idOf), newest(notes, 20))
  t.match(one, { id: profile, type: 'user-profiles', attributes: { display_name: 'Ada' } })
  t.equal(others[0].type, 'orders')
  t.notOk('id' in others[0].attributes)
  t.equal(body.meta.includes.notes.has_more, true)
  const none = await admin.get(`/v2/users/${bob.id}?include=profile`)
  t.same(none.body.data.relationships, { profile: null })
  const order = (await admin.get(`/v2/orders/${whole}?include=user,products`)).body.data.relationships
  t.match(order, { user: { id: ada.id, type: 'users' }, products: { length: 25 } })
})

t.test('rows that the caller may not read are left out', async (t) => {
  const { body } = await ada.client.get(`/orders/${whole}?include=products`)
  t.equal(body.data.products.length, 12, 'a member sees active products alone')
  const profiles = await bob.client.get(`/user-profiles/${profile}?include=user`)
  t.equal(profiles.body.data.user, null, 'a member reads no other user')
  const own = await ada.client.get('/users/me?include=notes')
  t.same(own.body.data.notes.map(idOf), newest(notes, 20), 'drafts of one’s own among them')
  const seen = await bob.client.get(`/users/${ada.id}/notes?include=user&limit=100`)
  t.equal(seen.body.data.length, 22)
  t.ok(seen.body.data.every(({ user }: Json) => user === null))
})

t.test('an include needs the read scope of the relation', async (t) => {
  const { client } = await person('manager', ['users:read', 'notes:read'])
  t.equal((await client.get(`/users/${ada.id}?include=notes`)).status, 200)
  for (const path of [`/users/${ada.id}?include=notes,orders`, '/users?include=profile']) {
    const reply = await client.get(path)
    t.equal(reply.status, 403, path)
    t.match(reply.body.error.message, /(orders|user-profiles):read/)
  }
})

t.test('the tag changes with the included rows', async (t) => {
  const { client } = await person('admin')
  const user = `/users/${ada.id}?include=notes`
  const readTags = async (...paths: string[]) => {
    const tags: string[] = []
    for (const path of paths) tags.push((await client.get(path)).headers.get('etag') ?? '')
    return tags
  }
  const readAll = async () => ({
    included: await readTags(`/v1${user}`, `/v2${user}`, '/v1/users?include=notes'),
    plain: await readTags(`/v1/users/${ada.id}`, '/v1/users'),
  })
  const before = await readAll()
  t.same(await readAll(), before)
  await client.patch(`/users/${ada.id}/notes/${notes[21]}`, { title: 'Another' })
  const after = await readAll()
  for (const [i, tag] of after.included.entries()) t.not(tag, before.included[i])
  t.same(after.plain, before.plain)

  const condition = { 'if-none-match': after.included[0] ?? '' }
  t.equal((await client.get(`/v1${user}`, condition)).status, 304)
  await client.post(`/users/${ada.id}/notes`, { title: 'One more', body: 'x' })
  t.equal((await client.get(`/v1${user}`, condition)).status, 200, 'an included row is new')
})
