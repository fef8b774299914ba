/** Filters select rows by values, by ranges and by time, and invalid query parameters are rejected. */
import t from 'tap'
import type { FieldCode } from '../../schemas/error.ts'
import { resources } from '../../src/app.ts'
import { testApp } from '../helpers/app.ts'
import { createOwnedRows } from '../helpers/example-rows.ts'
import { createNotes } from '../helpers/notes.ts'
import { checkRefusals, getIds, getViolations } from '../helpers/replies.ts'
import { insertRows } from '../helpers/rows.ts'
import { checkValues } from './refusals.ts'

const served = await createNotes(t)
const { admin, database, person, adminId } = await testApp(t, {}, served)
const ada = await person('member')
const bob = await person('manager')
const { listOf, user } = createOwnedRows(database)
const owner = await user()
/** The lists of `served.resources`, in their order. */
const LIST = [
  ...(await Promise.all(resources.map(({ name }) => listOf(name, owner)))),
  `/users/${ada.id}/notes`,
]

t.test('status, role and user_id filter by equality and combine', async (t) => {
  const [gone = ''] = await insertRows(database, 'users', [{ status: 'suspended', role: 'manager' }])
  t.same(getIds(await admin.get('/users?status=suspended')), [gone])
  t.same(getIds(await admin.get('/users?role=manager')).sort(), [bob.id, gone].sort())
  t.same(getIds(await admin.get('/users?role=manager&status=active')), [bob.id])
  t.same(getIds(await admin.get('/users?role=admin')), [adminId])

  const states = ['draft', 'active', 'archived']
  const rows = states.map((status) => ({ status }))
  const products = await insertRows(database, 'products', rows)
  for (const [i, status] of states.entries()) {
    t.same(getIds(await admin.get(`/products?status=${status}`)), [products[i]])
  }
  const notes = await insertRows(database, 'notes', [
    { user_id: ada.id, status: 'draft' },
    { user_id: ada.id, status: 'published' },
    { user_id: bob.id, status: 'published' },
  ])
  t.same(getIds(await admin.get(`/users/${ada.id}/notes?status=published`)), [notes[1]])

  const orders = await insertRows(database, 'orders', [
    { user_id: ada.id, status: 'paid' },
    { user_id: ada.id, status: 'pending' },
    { user_id: bob.id, status: 'paid' },
  ])
  t.same(getIds(await admin.get(`/orders?user_id=${ada.id}&status=paid`)), [orders[0]])
  const own = await admin.get(`/orders?user_id=${ada.id.toUpperCase()}`)
  t.same(getIds(own).sort(), orders.slice(0, 2).sort())
  t.same(getIds(await ada.client.get(`/orders?user_id=${bob.id}`)), [], 'what one may not read is absent')
  const [profile] = await insertRows(database, 'user_profiles', [{ user_id: ada.id }, { user_id: bob.id }])
  t.same(getIds(await admin.get(`/user-profiles?user_id=${ada.id}`)), [profile])
})

t.test(
  'a value outside the enum, a malformed UUID and a value that no field can have are rejected',
  async (t) => {
    const refuses = (parameter: string, code: FieldCode, values: string) =>
      checkValues(t, admin, parameter, code, values)
    const states = 'archived ACTIVE active,no no,yes,no active,,inactive , active,%20inactive'
    await refuses('/users?status', 'INVALID_VALUE', states)
    await refuses('/users?role', 'INVALID_VALUE', 'root constructor')
    // U+212A (KELVIN SIGN) has the lower case "k".
    await refuses('/users?email', 'INVALID_FORMAT', 'ada "a,b"@example.com %E2%84%AA@example.com')
    await refuses('/orders?status', 'INVALID_VALUE', 'draft')
    const others = [`${ada.id},`, `${ada.id},1`, `urn:uuid:${ada.id}`, `%7B${ada.id}%7D`, `${ada.id}%0A`]
    const ids = ['me', '1', ...others, ada.id.replaceAll('-', '')]
    await refuses('/orders?user_id', 'INVALID_FORMAT', ids.join(' '))
    await refuses('/orders?number', 'INVALID_FORMAT', 'ORD-1%00 ORD-1,%0AORD%07')
    await refuses('/products?sku', 'INVALID_FORMAT', 'a%20b')
    await refuses('/products?sku', 'TOO_SHORT', 'A,,B')
    await refuses('/products?sku', 'TOO_LONG', 'a'.repeat(65))
    await refuses('/products?currency', 'INVALID_FORMAT', 'usd USD,XXZ')
    await checkRefusals(t, admin, {
      '/users?status=': ['status INVALID_VALUE'],
      '/users?email=': ['email INVALID_FORMAT'],
      '/orders?user_id=': ['user_id INVALID_FORMAT'],
      '/orders?number=': ['number TOO_SHORT'],
      '/orders?number=1&number=2': ['number CONFLICTING_PARAMETERS'],
      '/users?status=active&status=active': ['status CONFLICTING_PARAMETERS'],
    })
  },
)

t.test('a filter of another collection is an unknown parameter', async (t) => {
  const offered = served.resources.map(({ filters, ranges = [], sorts }) => [
    ...filters,
    ...ranges.flatMap((name) => [`${name}_min`, `${name}_max`]),
    ...('updated_at' in sorts ? ['updated_after'] : []),
  ])
  const names = [...new Set(offered.flat()), 'id', 'revision', 'price_amount', 'stock_min', 'created_at_min']
  for (const [i, path] of LIST.entries()) {
    for (const name of names) {
      if (offered[i]?.includes(name)) continue
      t.same(getViolations(await admin.get(`${path}?${name}=active`)), [`${name} UNKNOWN_PARAMETER`], path)
    }
  }
})

t.test('created_after and created_before are whole days in UTC, half-open', async (t) => {
  const days =
    '2026-02-27T23:59:59.999999Z 2026-02-28T00:00:00Z 2026-03-01T00:00:00Z 9999-12-31T23:59:59Z'.split(' ')
  const rows = days.map((created_at) => ({ name: 'Dated', created_at }))
  const ids = await insertRows(database, 'products', rows)
  const found = async (query: string) => {
    const reply = await admin.get(`/products?search=dated&sort=created_at&${query}`)
    return getIds(reply).map((id) => ids.indexOf(id))
  }
  t.same(await found('created_after=2026-02-28'), [1, 2, 3])
  t.same(await found('created_before=2026-02-28'), [0])
  t.same(await found('created_after=2026-02-28&created_before=2026-03-01'), [1])
  t.same(await found('created_after=2026-02-28&created_before=2026-02-28'), [], 'an empty span is no error')
  t.same(await found('created_after=9999-12-31'), [3])
  t.same(await found('created_after=0001-01-01&created_before=9999-12-31'), [0, 1, 2])
  for (const path of LIST) {
    const reply = await admin.get(`${path}?created_after=2026-01-01&created_before=2030-01-01`)
    t.equal(reply.status, 200, path)
  }
})

t.test('a date that does not exist is rejected', async (t) => {
  const dates = `2026-02-29 2026-02-30 2026-13-01 2026-00-10 2026-01-00 2026-1-1 0000-01-01 0000-12-31 10000-01-01
    -2026-01-01 2026-01-01T00:00:00 2026-01-01T00:00Z 2026-01-01T24:00:00Z 2026-01-01T23:59:60Z 2026-02-29T00:00:00Z
    2026-01-01T00:00:00%2B24:00 2026-01-01T00:00:00.Z 2026-01-01T00:00:00,5Z 2026-01-01%2000:00:00Z 20260101 yesterday
    infinity 1900-02-29 2026-01-01%20`
  // The same instant is in the year 0, or in the year 10000.
  const outside = '0001-01-01T00:00:00%2B00:01 9999-12-31T23:59:59-00:01 9999-12-31T23:59:59.9999991Z'
  for (const name of ['created_after', 'created_before']) {
    await checkValues(t, admin, `/products?${name}`, 'INVALID_FORMAT', `${dates} ${outside}`)
    await checkRefusals(t, admin, { [`/products?${name}=`]: [`${name} INVALID_FORMAT`] })
  }
  t.equal((await admin.get('/products?created_after=2024-02-29')).status, 200)
  const crossed = await admin.get('/products?created_after=2026-03-02&created_before=2026-03-01')
  t.same(getViolations(crossed), ['created_after CONFLICTING_PARAMETERS'])
})

t.test('an offset whose "+" is not encoded is rejected with the way to write it', async (t) => {
  for (const name of ['created_after', 'updated_before']) {
    const reply = await admin.get(`/orders?${name}=2026-01-01T00:00:00+01:00`)
    t.same(getViolations(reply), [`${name} INVALID_FORMAT`])
    t.match(reply.body.error.details[0].message, /%2B/)
  }
  t.equal((await admin.get('/orders?created_after=2026-01-01T00:00:00%2B01:00')).status, 200)
})

t.test('times are compared by the microsecond, with any offset and any number of digits', async (t) => {
  const times = ['2025-05-05T09:59:59.999999Z', '2025-05-05T10:00:00Z', '2025-05-05T10:00:00.000001Z']
  const rows = times.map((at) => ({ user_id: ada.id, created_at: at, updated_at: at }))
  const ids = await insertRows(database, 'orders', rows)
  const span = 'sort=created_at&created_after=2025-05-05&created_before=2025-05-06'
  const found = async (query: string) => {
    const reply = await admin.get(`/orders?${span}&${query}`)
    return getIds(reply).map((id) => ids.indexOf(id))
  }
  const after: Record<string, number[]> = {
    '2025-05-05T10:00:00Z': [1, 2],
    '2025-05-05t10:00:00z': [1, 2],
    '2025-05-05T12:30:00%2B02:30': [1, 2],
    '2025-05-05T00:00:00.000000000-10:00': [1, 2],
    '2025-05-05T10:00:00.0000001Z': [2],
    '2025-05-05T10:00:00.000001Z': [2],
    '2025-05-05T10:00:00.0000010000001Z': [],
    '2025-05-05T09:59:59.9999990001Z': [1, 2],
    '2025-05-05': [0, 1, 2],
    '2025-05-06': [],
  }
  for (const [time, expected] of Object.entries(after)) {
    t.same(await found(`updated_after=${time}`), expected, `after ${time}`)
    const others = [0, 1, 2].filter((i) => !expected.includes(i))
    t.same(await found(`updated_before=${time}`), others, `before ${time}`)
  }
  const instant = '2025-05-05T10:00:00'
  t.same(await found(`updated_after=${instant}Z&updated_before=${instant}.000001Z`), [1])
  t.same(await found(`updated_after=${instant}Z&updated_before=${instant}Z`), [], 'an empty span is no error')
  const crossed = await admin.get(`/orders?updated_after=${instant}.000001Z&updated_before=${instant}Z`)
  t.same(getViolations(crossed), ['updated_after CONFLICTING_PARAMETERS'])
  const same = `created_after=${instant}%2B01:00&created_before=2025-05-05T09:00:00Z`
  t.equal((await admin.get(`/orders?${same}`)).status, 200, 'equal instants with different offsets')
  t.equal((await admin.get('/products?updated_after=2025-05-05')).status, 400, 'products do not sort by it')
})

t.test('sku, email and number find one resource, whatever the letter case of the address', async (t) => {
  const [tea = '', coffee = ''] = await insertRows(database, 'products', [
    { sku: 'TEA.1_a-B', currency: 'JPY', price_amount: 500 },
    { sku: 'COFFEE-1', currency: 'CHF', price_amount: 700 },
  ])
  t.same(getIds(await admin.get('/products?sku=TEA.1_a-B')), [tea])
  t.same(getIds(await admin.get('/products?sku=tea.1_a-b')), [], 'an SKU has its letter case')
  t.same(getIds(await admin.get('/products?sku=NO,COFFEE-1,TEA.1_a-B&sort=sku')), [coffee, tea])
  t.same(getIds(await admin.get('/products?currency=JPY')), [tea])
  t.same(getIds(await admin.get('/products?currency=CHF,JPY&sort=price_amount')), [tea, coffee])

  const [user = ''] = await insertRows(database, 'users', [{ email: 'grace.hopper+navy@example.com' }])
  const address = 'Grace.Hopper%2BNavy@EXAMPLE.com'
  t.same(getIds(await admin.get(`/users?email=${address}`)), [user])
  t.same(getIds(await admin.get(`/users?email=nobody@example.com,${address}`)), [user])

  const [order = ''] = await insertRows(database, 'orders', [{ user_id: ada.id }])
  const { number } = (await admin.get(`/orders/${order}`)).body.data
  t.same(getIds(await admin.get(`/orders?number=${number}`)), [order])
  t.same(getIds(await admin.get(`/orders?number=${number},ORD-9999999999`)), [order])
  t.same(getIds(await bob.client.get(`/orders?number=${number}`)), [order])
})

t.test('a filter has at most 50 different values', async (t) => {
  const skus = (count: number) => Array.from({ length: count }, (_, n) => `S-${n}`).join()
  t.equal((await admin.get(`/products?sku=${skus(50)}`)).status, 200)
  t.equal((await admin.get(`/products?sku=${skus(50)},${skus(50)}`)).status, 200, 'repeated ones count once')
  const addresses = Array.from({ length: 50 }, (_, n) => `a${n}@example.com`).join()
  t.equal((await admin.get(`/users?email=${addresses},${addresses.toUpperCase()}`)).status, 200)
  const reply = await admin.get(`/products?sku=${skus(51)}`)
  t.same(getViolations(reply), ['sku TOO_LONG'])
  t.match(reply.body.error.details[0].message, /50/)
  const many = await admin.get(`/products?sku=${'!,'.repeat(4000)}`)
  t.equal(getViolations(many).length, 2, 'empty and malformed')
})

t.test('what SQL and arrays treat specially is an ordinary value', async (t) => {
  const texts = ["' or 1=1 --", '{', '}', '{}', '"', '\\', '\\"', 'NULL', 'null', '$1', "\\'", '%', '_', '😀']
  const rows = texts.map((number) => ({ user_id: ada.id, number }))
  const ids = await insertRows(database, 'orders', rows)
  for (const [i, text] of texts.entries()) {
    t.same(getIds(await admin.get(`/orders?number=${encodeURIComponent(text)}`)), [ids[i]], text)
  }
  const all = texts.map(encodeURIComponent).join()
  t.same(getIds(await admin.get(`/orders?number=${all}`)).sort(), ids.sort(), 'together')
})

t.test('_min and _max limit a number, both inclusive', async (t) => {
  const largest = 9_007_199_254_740_991
  const amounts = [0, 9, 10, 11, largest]
  const rows = amounts.map((total_amount) => ({ user_id: ada.id, total_amount, currency: 'EUR' }))
  const ids = await insertRows(database, 'orders', rows)
  const found = async (query: string) => {
    const reply = await admin.get(`/orders?sort=total_amount&limit=100&${query}`)
    return getIds(reply).flatMap((id) => (ids.includes(id) ? [ids.indexOf(id)] : []))
  }
  t.same(await found('total_amount_min=9&total_amount_max=10'), [1, 2])
  t.same(await found('total_amount_min=10'), [2, 3, 4])
  t.same(await found('total_amount_max=9'), [0, 1])
  t.same(await found('total_amount_min=10&total_amount_max=10'), [2])
  t.same(await found(`total_amount_min=${largest}`), [4])
  await checkRefusals(t, admin, {
    '/orders?total_amount_min=11&total_amount_max=10': ['total_amount_min CONFLICTING_PARAMETERS'],
    // As text, 9 is greater than 10.
    '/orders?total_amount_min=10&total_amount_max=9': ['total_amount_min CONFLICTING_PARAMETERS'],
    '/orders?total_amount_min=-1': ['total_amount_min OUT_OF_RANGE'],
    '/orders?total_amount_max=9007199254740992': ['total_amount_max OUT_OF_RANGE'],
    [`/orders?total_amount_max=${'9'.repeat(400)}`]: ['total_amount_max OUT_OF_RANGE'],
    '/orders?total_amount_min=': ['total_amount_min INVALID_TYPE'],
    '/orders?total_amount_min=1&total_amount_min=1': ['total_amount_min CONFLICTING_PARAMETERS'],
    '/products?price_amount_min=1000000000001': ['price_amount_min OUT_OF_RANGE'],
  })
  await checkValues(t, admin, '/orders?total_amount_min', 'INVALID_TYPE', '1.5 1e2 1,2')
})

t.test('unknown and repeated parameters are rejected, on lists and on single reads', async (t) => {
  const names = `foo Limit limit%20 __proto__ constructor toString hasOwnProperty valueOf limit[] page[number]
    filter[status] offset %00 %F0%9F%98%80`
  for (const name of names.split(/\s+/)) {
    const unknown = [`${decodeURIComponent(name)} UNKNOWN_PARAMETER`]
    for (const path of [...LIST, `/users/${adminId}`]) {
      await checkRefusals(t, admin, { [`${path}?${name}=1`]: unknown })
    }
    await checkRefusals(t, admin, { [`/products?${name}=1&${name}=2`]: unknown })
  }
  for (const name of ['limit', 'page', 'sort', 'search', 'cursor', 'filter', 'include']) {
    const reply = await admin.get(`/users/${adminId}?${name}=1`)
    t.equal(reply.status, 400, `${name} on a single read`)
  }
  t.equal((await admin.get('/products?')).status, 200)
  t.equal((await admin.get('/products?&&')).status, 200)
})

t.test('a query string that is not percent-encoded UTF-8 is rejected', async (t) => {
  for (const query of 'limit=% limit=%2 limit=%zz search=%ff search=%C3 search=%ED%A0%80 %ff=1'.split(' ')) {
    const reply = await admin.get(`/products?${query}`)
    t.match(reply, { status: 400, body: { error: { code: 'INVALID_REQUEST' } } }, query)
  }
})

t.test('the error of an unknown parameter lists those that there are', async (t) => {
  const messages = async (path: string) => (await admin.get(path)).body.error.details[0].message
  t.match(
    await messages('/orders?state=paid'),
    /; there are limit, cursor, page, .*status, user_id, number, /,
  )
  t.equal(await messages('/products/x?state=paid'), 'is not a known parameter; there are fields')
  const none = await admin.call('DELETE', '/products/x?state=paid')
  t.equal(none.body.error.details[0].message, 'is not a known parameter; there are none')
})

t.test('all violations are reported together, in both envelopes', async (t) => {
  const wrong =
    'limit=0&page=x&status=no&created_after=x&created_before=0000-01-01&sort=no,-name&order=asc,asc&fields=id,no&foo=1&search=&include=no'
  const invalid = ['created_after INVALID_FORMAT', 'created_before INVALID_FORMAT', 'fields INVALID_VALUE']
  const unknown = ['foo UNKNOWN_PARAMETER', 'include UNKNOWN_PARAMETER']
  const bounds = [
    'limit OUT_OF_RANGE',
    'order CONFLICTING_PARAMETERS',
    'page INVALID_TYPE',
    'search TOO_SHORT',
  ]
  const violations = [...invalid, ...unknown, ...bounds, 'sort INVALID_VALUE', 'status INVALID_VALUE']
  for (const version of ['v1', 'v2']) {
    await checkRefusals(t, admin, { [`/${version}/products?${wrong}`]: violations })
  }
})
