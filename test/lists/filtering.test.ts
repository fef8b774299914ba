/** Filters select rows by equality and by date, and invalid query parameters are rejected. */
import t from 'tap'
import { testApp } from '../helpers/app.ts'
import { getIds, getViolations } from '../helpers/lists.ts'
import { insertRows } from '../helpers/rows.ts'

const { admin, database, person, adminId } = await testApp(t)
const ada = await person('member')
const bob = await person('manager')
const LIST = ['/users', '/user-profiles', `/users/${ada.id}/posts`, '/products', '/orders']

t.test('status, role and user_id filter by equality and combine', async (t) => {
  const [gone = ''] = await insertRows(database, 'users', [{ status: 'suspended', role: 'manager' }])
  t.same(getIds(await admin.get('/users?status=suspended')), [gone])
  t.same(getIds(await admin.get('/users?role=manager')).sort(), [bob.id, gone].sort())
  t.same(getIds(await admin.get('/users?role=manager&status=active')), [bob.id])
  t.same(getIds(await admin.get('/users?role=admin')), [adminId])

  const states = ['draft', 'active', 'archived']
  const products = await insertRows(
    database,
    'products',
    states.map((status) => ({ status })),
  )
  for (const [i, status] of states.entries()) {
    t.same(getIds(await admin.get(`/products?status=${status}`)), [products[i]])
  }
  const posts = await insertRows(database, 'posts', [
    { user_id: ada.id, status: 'draft' },
    { user_id: ada.id, status: 'published' },
    { user_id: bob.id, status: 'published' },
  ])
  t.same(getIds(await admin.get(`/users/${ada.id}/posts?status=published`)), [posts[1]])

  const orders = await insertRows(database, 'orders', [
    { user_id: ada.id, status: 'paid' },
    { user_id: ada.id, status: 'pending' },
    { user_id: bob.id, status: 'paid' },
  ])
  t.same(getIds(await admin.get(`/orders?user_id=${ada.id}&status=paid`)), [orders[0]])
  t.same(
    getIds(await admin.get(`/orders?user_id=${ada.id.toUpperCase()}`)).sort(),
    [orders[0], orders[1]].sort(),
  )
  t.same(getIds(await ada.client.get(`/orders?user_id=${bob.id}`)), [], 'what one may not read is absent')
  const [profile] = await insertRows(database, 'user_profiles', [{ user_id: ada.id }, { user_id: bob.id }])
  t.same(getIds(await admin.get(`/user-profiles?user_id=${ada.id}`)), [profile])
})

t.test('a value outside the enum and a malformed UUID are rejected', async (t) => {
  const refused: Record<string, string[]> = {
    '/users?status=archived': ['status INVALID_VALUE'],
    '/users?status=ACTIVE': ['status INVALID_VALUE'],
    '/users?status=active,inactive': ['status INVALID_VALUE'],
    '/users?status=': ['status INVALID_VALUE'],
    '/users?role=root': ['role INVALID_VALUE'],
    '/users?role=constructor': ['role INVALID_VALUE'],
    '/orders?status=draft': ['status INVALID_VALUE'],
    '/orders?user_id=me': ['user_id INVALID_FORMAT'],
    '/orders?user_id=1': ['user_id INVALID_FORMAT'],
    '/orders?user_id=': ['user_id INVALID_FORMAT'],
    [`/orders?user_id=urn:uuid:${ada.id}`]: ['user_id INVALID_FORMAT'],
    [`/orders?user_id=%7B${ada.id}%7D`]: ['user_id INVALID_FORMAT'],
    [`/orders?user_id=${ada.id}%0A`]: ['user_id INVALID_FORMAT'],
    [`/orders?user_id=${ada.id.replaceAll('-', '')}`]: ['user_id INVALID_FORMAT'],
    '/users?status=active&status=active': ['status CONFLICTING_PARAMETERS'],
  }
  for (const [path, problems] of Object.entries(refused)) {
    const reply = await admin.get(path)
    t.equal(reply.status, 400, path)
    t.same(getViolations(reply), problems, path)
  }
})

t.test('a filter of another collection is an unknown parameter', async (t) => {
  const offered = [['status', 'role'], ['user_id'], ['status'], ['status'], ['status', 'user_id']]
  for (const [i, path] of LIST.entries()) {
    for (const name of ['status', 'role', 'user_id', 'email', 'id', 'revision']) {
      if (offered[i]?.includes(name)) continue
      t.same(getViolations(await admin.get(`${path}?${name}=active`)), [`${name} UNKNOWN_PARAMETER`], path)
    }
  }
})

t.test('created_after and created_before are whole days in UTC, half-open', async (t) => {
  const days = [
    '2026-02-27T23:59:59.999999Z',
    '2026-02-28T00:00:00Z',
    '2026-03-01T00:00:00Z',
    '9999-12-31T23:59:59Z',
  ]
  const ids = await insertRows(
    database,
    'products',
    days.map((created_at) => ({ name: 'Dated', created_at })),
  )
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
  const dates = [
    '2026-02-29',
    '2026-02-30',
    '2026-13-01',
    '2026-00-10',
    '2026-01-00',
    '2026-1-1',
    '0000-01-01',
    '0000-12-31',
    '10000-01-01',
    '-2026-01-01',
    '2026-01-01T00:00:00Z',
    '20260101',
    'yesterday',
    'infinity',
    '1900-02-29',
    '2026-01-01%20',
    '',
  ]
  for (const date of dates) {
    for (const name of ['created_after', 'created_before']) {
      const reply = await admin.get(`/products?${name}=${date}`)
      t.equal(reply.status, 400, date)
      t.same(getViolations(reply), [`${name} INVALID_FORMAT`], date)
    }
  }
  t.equal((await admin.get('/products?created_after=2024-02-29')).status, 200)
  const crossed = await admin.get('/products?created_after=2026-03-02&created_before=2026-03-01')
  t.same(getViolations(crossed), ['created_after CONFLICTING_PARAMETERS'])
})

t.test(
  'unknown, repeated and Object.prototype names are rejected, on lists and on single reads',
  async (t) => {
    const names = [
      'foo',
      'Limit',
      'limit%20',
      '__proto__',
      'constructor',
      'toString',
      'hasOwnProperty',
      'valueOf',
    ]
    const more = ['limit[]', 'page[number]', 'filter[status]', 'offset', '%00', '%F0%9F%98%80']
    const field = (name: string) => decodeURIComponent(name)
    for (const name of [...names, ...more]) {
      for (const path of [...LIST, `/users/${adminId}`]) {
        const reply = await admin.get(`${path}?${name}=1`)
        t.equal(reply.status, 400, `${path} ${name}`)
        t.same(getViolations(reply), [`${field(name)} UNKNOWN_PARAMETER`], `${path} ${name}`)
      }
      const twice = await admin.get(`/products?${name}=1&${name}=2`)
      t.same(getViolations(twice), [`${field(name)} UNKNOWN_PARAMETER`], `${name} twice`)
    }
    for (const name of ['limit', 'page', 'sort', 'search', 'cursor', 'filter', 'include']) {
      const reply = await admin.get(`/users/${adminId}?${name}=1`)
      t.equal(reply.status, 400, `${name} on a single read`)
    }
    t.equal((await admin.get('/products?')).status, 200)
    t.equal((await admin.get('/products?&&')).status, 200)
  },
)

t.test('a query string that is not percent-encoded UTF-8 is rejected', async (t) => {
  for (const query of [
    'limit=%',
    'limit=%2',
    'limit=%zz',
    'search=%ff',
    'search=%C3',
    'search=%ED%A0%80',
    '%ff=1',
  ]) {
    const reply = await admin.get(`/products?${query}`)
    t.equal(reply.status, 400, query)
    t.equal(reply.body.error.code, 'INVALID_REQUEST', query)
  }
})

t.test('all violations are reported together, in both envelopes, at most 50', async (t) => {
  const wrong =
    'limit=0&page=x&status=no&created_after=x&created_before=0000-01-01&sort=no,-name&order=asc,asc&fields=id,no&foo=1&search=&include=no'
  const problems = [
    'created_after INVALID_FORMAT',
    'created_before INVALID_FORMAT',
    'fields INVALID_VALUE',
    'foo UNKNOWN_PARAMETER',
    'include UNKNOWN_PARAMETER',
    'limit OUT_OF_RANGE',
    'order CONFLICTING_PARAMETERS',
    'page INVALID_TYPE',
    'search TOO_SHORT',
    'sort INVALID_VALUE',
    'status INVALID_VALUE',
  ]
  const [first, second] = [await admin.get(`/v1/products?${wrong}`), await admin.get(`/v2/products?${wrong}`)]
  t.equal(first.body.error.code, 'VALIDATION_ERROR')
  t.same(getViolations(first), problems)
  t.same(getViolations(second), problems)
  t.ok(first.body.error.details && second.body.error.errors)
  for (const { message } of first.body.error.details) t.ok(message)
  const many = await admin.get(`/products?${Array.from({ length: 80 }, (_, i) => `x${i}=1`).join('&')}`)
  t.equal(many.body.error.details.length, 50)
})
