/** Filters select rows by values, ranges, times, null and related rows; other parameters and values are rejected. */
import t from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import { createNotes } from '../../../testing/helpers/notes.ts'
import { checkRefusals, getIds, getViolations } from '../../../testing/helpers/replies.ts'
import { createTable, type Values } from '../../../testing/helpers/rows.ts'
import { buildSearchText } from '../../src/sql/case-folding.ts'
import { parcels, parcelsResource, tasks, tasksResource } from './filter-rows.ts'
import { createListTables } from './list-tables.ts'

const { database, resources: withNotes } = await createNotes(t)
await createTable(database, parcels)
await createTable(database, tasks)
const served = [...withNotes, parcelsResource, tasksResource]
const { admin, adminId, person } = await testApp(t, {}, { database, resources: served })
const ada = await person('member')
const bob = await person('member')
const mia = await person('manager')
await database.run(`update users set status = 'suspended' where id = $1`, [bob.id])
const { insert, check, find, name } = createListTables(database, admin, { ada: ada.client, mia: mia.client })
for (const [each, { id }] of Object.entries({ admin: { id: adminId }, ada, bob, mia })) name(each, id)

const parts = { name: 'Ada', line1: 'Hafengasse 1', line2: null, city: 'Ulm', region: null }
const shipping_address = JSON.stringify({ ...parts, postal_code: '89073', country: 'DE' })
await insert('users', {
  gone: { status: 'inactive', role: 'manager' },
  grace: { email: 'grace.hopper+navy@example.com' },
})
await insert('products', {
  tea: { sku: 'TEA.1_a-B', currency: 'JPY', price_amount: 500, status: 'draft' },
  coffee: { sku: 'COFFEE-1', currency: 'CHF', price_amount: 700, description: 'Loose leaf' },
  mug: { status: 'archived' },
})
await insert('notes', {
  sketch: { user_id: ada.id, status: 'draft' },
  essay: { user_id: ada.id, status: 'published' },
  foreign: { user_id: bob.id, status: 'published' },
})
await insert('orders', {
  paid: { user_id: ada.id, status: 'paid', number: 'ORD-1', shipping_address, note: 'Ring' },
  open: { user_id: ada.id, status: 'pending' },
  other: { user_id: bob.id, status: 'paid' },
})
await insert('user_profiles', { profile: { user_id: ada.id, bio: 'A' }, blank: { user_id: bob.id } })
const long = 'ﬃ'.repeat(100)
type Size = 'small' | 'large' | null
const parcel = (city: string, size: Size, weight: number | null, is_open: boolean, more: Values) => {
  const { title = null, body = null } = more
  const search = buildSearchText({ title, body }, ['title', 'body'])
  return { city, size, weight, is_open, search, ...more }
}
const taken = (n: number) => `2025-01-01T00:00:00.00000${n}Z`
await insert('parcels', {
  bonn: parcel('Bonn', 'small', 1, true, { level: 1, taken_at: taken(1), body: 'Tea' }),
  ulm: parcel('Ulm, Süd', 'large', 2, false, { level: 2.5, taken_at: taken(2), title: 'Tea' }),
  köln: parcel('Köln', null, null, false, { level: -3e300, taken_at: taken(3), title: `${long}x` }),
  é: parcel('É', 'large', 2, true, { title: `${long.slice(1)}y` }),
})
const expires_at = '2999-01-01T00:00:00Z'
const [plan = '', lost = ''] = await insert('tasks', {
  plan: { kind: 'plan', user_id: ada.id, expires_at },
  lost: { kind: 'plan', user_id: ada.id, expires_at: '2020-01-01T00:00:00Z' },
})
const step = (user_id: string, parent_id: string | null) => ({ kind: 'step', user_id, parent_id, expires_at })
await insert('tasks', {
  first: step(ada.id, plan),
  bobs: step(bob.id, plan),
  orphan: step(ada.id, lost),
  single: step(ada.id, null),
})

t.test('fields filter by equality with one of some values, and combine', async (t) => {
  await check(
    t,
    `/users?status=suspended -> bob
    /users?role=manager -> gone mia
    /users?role=manager&status=active -> mia
    /users?role=admin -> admin
    /users?email=Grace.Hopper%2BNavy@EXAMPLE.com -> grace
    /users?email=nobody@example.com,Grace.Hopper%2BNavy@EXAMPLE.com -> grace
    /products?status=draft -> tea
    /products?status=active -> coffee
    /products?status=archived,draft -> mug tea
    /products?sku=TEA.1_a-B -> tea
    /products?sku=tea.1_a-b ->
    /products?sku=NO,COFFEE-1,TEA.1_a-B&sort=sku -> coffee tea
    /products?currency=JPY -> tea
    /products?currency=CHF,JPY&sort=price_amount -> tea coffee
    /users/${ada.id}/notes?status=published -> essay
    /orders?user_id=${ada.id}&status=paid -> paid
    /orders?user_id=${ada.id.toUpperCase()} -> open paid
    /orders?number=ORD-1 -> paid
    /orders?number=ORD-1,ORD-9999999999 -> paid
    mia /orders?number=ORD-1 -> paid
    ada /orders?user_id=${bob.id} ->
    /user-profiles?user_id=${ada.id} -> profile
    # A value has the type of its field.
    /parcels?is_open=true -> bonn é
    /parcels?is_open=false,true -> bonn köln ulm é
    /parcels?is_open !! INVALID_TYPE 1 0 TRUE null yes true,1 true, ''
    /parcels?level=2.5 -> ulm
    /parcels?level=1.0,-3e300,0.5e-3,25e-1 -> bonn köln ulm
    /parcels?level_min=1&level_max=2.5 -> bonn ulm
    # Null is within no limits.
    /parcels?level_max=2.4e0 -> bonn köln
    /parcels?level_min=3&level_max=2.9 !! level_min CONFLICTING_PARAMETERS
    /parcels?level !! INVALID_TYPE %2B1 01 .5 1. 0x1 Infinity NaN 1e %201 null ''
    /parcels?city=E%CC%81 -> é
    /parcels?city=%20Bonn%20,%C3%89 -> bonn é
    /parcels?city=Ulm,%20Bonn -> bonn
    /parcels?taken_at_min=2025-01-01T00:00:00.000002Z&taken_at_max=2025-01-01T00:00:00.000002Z -> ulm
    /parcels?taken_at_min=2025-01-01T00:00:00.0000011Z&taken_at_max=2025-01-01T00:00:00.00000299Z -> ulm
    /parcels?taken_at_min=0001-01-01T00:00:00Z -> bonn köln ulm
    /parcels?taken_at_min !! INVALID_FORMAT 2025-01-01
    # A null begins with nothing, and the longest prefix is compared as a whole.
    /parcels?title_prefix=te -> ulm
    /parcels?title_prefix=${encodeURIComponent(long)} -> köln
    /parcels?city !! INVALID_FORMAT e${'%CC%81'.repeat(40)}
    /parcels?city !! TOO_LONG ${'a'.repeat(21)}
    /parcels?city !! TOO_SHORT %20`,
  )
})

t.test('a negation selects rows with none of the values, a null check those without one', async (t) => {
  await check(
    t,
    `/products?status_not=draft -> coffee mug
    /products?status_not=archived,draft,draft -> coffee
    /products?status_not=archived,draft,active ->
    /products?status=draft,active&status_not=draft -> coffee
    /products?status=draft&status_not=draft ->
    /products?status_not=active&currency=USD&search=sku -> mug
    /products?status_not=active&page=1 -> mug tea
    ada /products?status_not=active ->
    ada /products?status_not=draft -> coffee
    /orders?status_not=pending -> other paid
    ada /orders?status_not=paid -> open
    /parcels?city_not=Bonn -> köln ulm é
    /parcels?city_not=Bonn,K%C3%B6ln -> ulm é
    /parcels?city_not=Ko%CC%88ln -> bonn ulm é
    /parcels?city_not=Paris -> bonn köln ulm é
    /parcels?is_open_not=true -> köln ulm
    /parcels?is_open_not=true,false ->
    /parcels?weight_not=1 -> köln ulm é
    /parcels?weight_not=1&weight_null=false -> ulm é
    /parcels?size_not=small -> köln ulm é
    /parcels?size_not=small,large -> köln
    /parcels?weight=1,2&weight_not=2 -> bonn
    /products?description_null=true -> mug tea
    /products?description_null=false -> coffee
    /parcels?size_null=true&weight_null=true -> köln
    /parcels?size_null=true&size=small ->
    /orders?shipping_address_null=false -> paid
    /orders?note_null=true -> open other
    /user-profiles?bio_null=true -> blank
    /v1/products?status_not !! INVALID_VALUE no ACTIVE active,no active, ''
    /v2/products?status_not !! INVALID_VALUE no ACTIVE active,no active, ''
    /v1/parcels?weight_not !! INVALID_TYPE 1.5 x null 1,
    /v2/parcels?weight_not !! INVALID_TYPE 1.5 x null 1,
    /v1/products?description_null !! INVALID_TYPE 1 TRUE null true,false %00 ''
    /v2/products?description_null !! INVALID_TYPE 1 TRUE null true,false %00 ''
    /parcels?city_not !! INVALID_FORMAT a%00 %0Aa%07
    /parcels?city_not !! TOO_SHORT ''
    /products?status_not=draft&status_not=draft !! status_not CONFLICTING_PARAMETERS
    /products?description_null=true&description_null=true !! description_null CONFLICTING_PARAMETERS
    /products?sku_not=a !! sku_not UNKNOWN_PARAMETER
    /events?type_not=products.created !! type_not UNKNOWN_PARAMETER
    /orders?number_null=false&status_null=true !! number_null UNKNOWN_PARAMETER, status_null UNKNOWN_PARAMETER`,
  )
  // Null is stored as NULL also by a request.
  const { id } = (await mia.client.post('/user-profiles', { user_id: mia.id, bio: null })).body.data
  name('mias', id)
  t.equal(await find('/user-profiles?bio_null=true'), 'blank mias')
  await mia.client.patch(`/user-profiles/${id}`, { bio: 'Some' })
  t.equal(await find('/user-profiles?bio_null=true'), 'blank')
})

t.test('a filter of a relation compares the related row, if the caller may read it', async (t) => {
  const [row] = await database.run('select email from users where id = $1', [bob.id])
  await check(
    t,
    `/tasks?user.status=suspended -> bobs
    /tasks?user.status=active -> first orphan plan single
    /tasks?user.status=active,suspended -> bobs first orphan plan single
    /tasks?user.status=active&kind=plan -> plan
    /tasks?user.status=active,inactive&user.role=manager ->
    /tasks?user.email=${encodeURIComponent(String(row?.email).toUpperCase())} -> bobs
    /tasks?user.status=suspended&page=1 -> bobs
    /tasks?user.status=active&page=1 -> first orphan plan single
    # Rows of the same table are compared, and one that has expired is none.
    /tasks?parent.kind=plan -> bobs first
    /tasks?parent.kind=step ->
    /tasks?parent.kind=plan&kind=step,plan&user.status=suspended -> bobs
    # Ada lists the tasks of Bob, but reads neither Bob nor his tasks.
    ada /tasks -> bobs first orphan plan single
    ada /tasks?user.status=active -> first orphan plan single
    ada /tasks?user.status=inactive ->
    ada /tasks?user.status=suspended&page=1 ->
    ada /tasks?user.status=active,inactive,suspended -> first orphan plan single
    ada /tasks?user.role=member,manager,admin -> first orphan plan single
    ada /tasks?parent.kind=plan -> bobs first
    mia /tasks?parent.kind=plan ->
    /orders?user.status=suspended -> other
    mia /orders?user.status=active -> open paid
    ada /orders?user.status=active -> open paid
    ada /orders?user.status=suspended ->
    /v1/orders?user.status !! INVALID_VALUE no ACTIVE active,no active, active,no,never %00 ''
    /v2/orders?user.status !! INVALID_VALUE no ACTIVE active,no active, active,no,never %00 ''
    /v1/tasks?user.email !! INVALID_FORMAT ada a@example.com,no
    /v2/tasks?user.email !! INVALID_FORMAT ada a@example.com,no
    /orders?user.status=active&user.status=active !! user.status CONFLICTING_PARAMETERS
    /tasks?parent.user_id=1 !! parent.user_id UNKNOWN_PARAMETER`,
  )
  const unknown = ['user.role', 'user.password_hash', 'user.name', 'products.status', 'user.', '.status']
  for (const each of [...unknown, 'user.status_not', 'user.orders.status', 'user[status]', '__proto__.a']) {
    await checkRefusals(t, admin, { [`/orders?${each}=active`]: [`${each} UNKNOWN_PARAMETER`] })
  }
})

t.test('a filter of a relation needs the read scope of its collection, as an include does', async (t) => {
  const { client } = await person('manager', ['orders:read'])
  t.equal((await client.get('/orders')).status, 200)
  for (const path of ['/orders?user.status=active', '/v2/orders?page=1&user.status=active']) {
    const refused = await client.get(path)
    t.equal(refused.status, 403, path)
    t.match(refused.body.error.message, /users:read/)
  }
  t.same(getViolations(await client.get('/orders?user.status=no')), ['user.status INVALID_VALUE'])
  const reader = (await person('manager', ['orders:read', 'users:read'])).client
  t.equal((await reader.get('/orders?user.status=active')).status, 200)
})

t.test('what SQL and arrays treat specially is an ordinary value', async (t) => {
  const texts = ["' or 1=1 --", '{', '}', '{}', '"', '\\', '\\"', 'NULL', 'null', '$1', "\\'", '%', '_', '😀']
  const rows = texts.map((number, n): [string, Values] => [`s${n}`, { user_id: ada.id, number }])
  const ids = await insert('orders', Object.fromEntries(rows))
  for (const [n, text] of texts.entries()) {
    t.equal(await find(`/orders?number=${encodeURIComponent(text)}`), `s${n}`, text)
  }
  // A backslash before a comma, or before another backslash, is that of the list.
  const all = texts.map((text) => encodeURIComponent(text.replaceAll('\\', '\\\\'))).join()
  t.same(getIds(await admin.get(`/orders?number=${all}`)).sort(), ids.sort(), 'together')
})

t.test('a value that no field can have, and more than 50 values, are rejected', async (t) => {
  // U+212A (KELVIN SIGN) has the lower case "k".
  await check(
    t,
    `/users?status !! INVALID_VALUE archived ACTIVE active,no no,yes,no active,,inactive , active,%20inactive ''
    /users?role !! INVALID_VALUE root constructor
    /users?email !! INVALID_FORMAT ada "a,b"@example.com %E2%84%AA@example.com ''
    /orders?status !! INVALID_VALUE draft
    /orders?user_id !! INVALID_FORMAT me 1 ${ada.id}, ${ada.id},1 urn:uuid:${ada.id} %7B${ada.id}%7D ${ada.id}%0A ''
    /orders?user_id !! INVALID_FORMAT ${ada.id.replaceAll('-', '')}
    /orders?number !! INVALID_FORMAT ORD-1%00 ORD-1,%0AORD%07
    /orders?number !! TOO_SHORT ''
    /products?sku !! INVALID_FORMAT a%20b
    /products?sku !! TOO_SHORT A,,B
    /products?sku !! TOO_LONG ${'a'.repeat(65)}
    /products?currency !! INVALID_FORMAT usd USD,XXZ
    /orders?number=1&number=2 !! number CONFLICTING_PARAMETERS
    /users?status=active&status=active !! status CONFLICTING_PARAMETERS`,
  )
  const many = (count: number) => Array.from({ length: count }, (_, n) => `S-${n}`).join()
  const addresses = Array.from({ length: 50 }, (_, n) => `a${n}@example.com`).join()
  await check(
    t,
    `/products?sku=${many(50)} ->
    /products?sku=${many(50)},${many(50)} ->
    /users?email=${addresses},${addresses.toUpperCase()} ->
    /parcels?city_not=${many(50)} -> bonn köln ulm é
    /parcels?city_not !! TOO_LONG ${many(51)}`,
  )
  const reply = await admin.get(`/products?sku=${many(51)}`)
  t.same(getViolations(reply), ['sku TOO_LONG'])
  t.match(reply.body.error.details[0].message, /50/)
  const malformed = await admin.get(`/products?sku=${'!,'.repeat(4000)}`)
  t.equal(getViolations(malformed).length, 2, 'empty and malformed')
})
