/** Lists are paginated by cursor or by page number, with links to the neighboring pages. */
import t from 'tap'
import { testApp } from '../helpers/app.ts'
import { createNotes } from '../helpers/notes.ts'
import { checkRefusals, collectIds, getIds, getLinks } from '../helpers/replies.ts'
import { insertRows } from '../helpers/rows.ts'
import { checkValues } from './list-tables.ts'

const PATH = '/api/v1/products'
const { admin, database, person, adminId } = await testApp(t, {}, await createNotes(t))
const made = (
  await insertRows(
    database,
    'products',
    Array.from({ length: 45 }, (_, i) => ({ created_at: new Date(Date.UTC(2026, 0, 1) + i).toISOString() })),
  )
).reverse()

t.test('the default is cursor pagination: 20 rows, newest first, without a count', async (t) => {
  const first = await admin.get(PATH)
  t.same(getIds(first), made.slice(0, 20))
  t.same(Object.keys(first.body.pagination), ['cursor', 'has_more'])
  t.equal(first.body.pagination.has_more, true)
  t.type(first.body.pagination.cursor, 'string')
  t.same(await collectIds(admin, PATH), made)
  t.same(
    await collectIds(admin, `${PATH}?limit=45`),
    made,
    'a page that is exactly full has nothing after it',
  )
  t.same(await collectIds(admin, `${PATH}?limit=1`), made)
})

t.test('the last page has cursor null and has_more false', async (t) => {
  for (const path of [`${PATH}?limit=45`, `${PATH}?limit=100`, `${PATH}?search=nothing`]) {
    const { body } = await admin.get(path)
    t.same(body.pagination, { cursor: null, has_more: false }, path)
  }
})

t.test('an empty cursor is the first page', async (t) => {
  const reply = await admin.get(`${PATH}?cursor=&limit=5`)
  t.same(getIds(reply), made.slice(0, 5))
  t.equal((await admin.get(`${PATH}?cursor`)).status, 200)
})

t.test('a page number selects offset pagination, with exact totals', async (t) => {
  const page = await admin.get(`${PATH}?page=2`)
  t.same(getIds(page), made.slice(20, 40))
  t.same(page.body.pagination, { page: 2, limit: 20, total: 45, total_pages: 3 })
  const last = await admin.get(`${PATH}?page=3`)
  t.same(getIds(last), made.slice(40))
  t.same(last.body.pagination, { page: 3, limit: 20, total: 45, total_pages: 3 })
  const exact = await admin.get(`${PATH}?page=5&limit=9`)
  t.same(exact.body.pagination, { page: 5, limit: 9, total: 45, total_pages: 5 })
})

t.test('a page past the end is 200 with an empty list', async (t) => {
  const past = await admin.get(`${PATH}?page=9`)
  t.equal(past.status, 200)
  t.same(past.body.data, [])
  t.same(past.body.pagination, { page: 9, limit: 20, total: 45, total_pages: 3 })
  t.match(getLinks(past), { prev: `${PATH}?page=3`, last: `${PATH}?page=3`, first: `${PATH}?page=1` })
  t.notOk('next' in getLinks(past))
  const none = await admin.get(`${PATH}?page=1&search=nothing`)
  t.same(none.body.pagination, { page: 1, limit: 20, total: 0, total_pages: 0 })
  t.same(Object.keys(getLinks(none)), ['first'])
})

t.test('totals are counted after filters and access', async (t) => {
  await insertRows(database, 'products', [
    { status: 'draft', name: 'Kettle', created_at: '2025-01-01T00:00:00Z' },
    { status: 'active', name: 'Kettle', created_at: '2025-01-01T00:00:00Z' },
  ])
  const { client: member } = await person('member')
  const total = async (client: typeof admin, query: string) =>
    (await client.get(`${PATH}?page=1&limit=1&${query}`)).body.pagination.total
  t.equal(await total(admin, 'search=kettle'), 2)
  t.equal(await total(member, 'search=kettle'), 1)
  t.equal(await total(admin, 'search=kettle&status=draft'), 1)
  t.equal(await total(member, 'search=kettle&status=draft'), 0)
  t.equal(await total(admin, 'created_before=2026-01-01'), 2)
})

t.test('limit and page are integers as JSON writes them, within their bounds', async (t) => {
  const nines = '9'.repeat(500)
  await checkValues(
    t,
    admin,
    '/products?limit',
    'OUT_OF_RANGE',
    `0 -1 101 ${'9'.repeat(18)} ${nines} -${nines}`,
  )
  const malformed = '05 -0 1e1 %2B5 +5 5%20 5.0 0x5 %D9%A5 NaN null'
  await checkValues(t, admin, '/products?limit', 'INVALID_TYPE', malformed)
  await checkValues(t, admin, '/products?page', 'OUT_OF_RANGE', `0 -3 ${nines}`)
  await checkRefusals(t, admin, {
    '/products?limit=': ['limit INVALID_TYPE'],
    '/products?limit': ['limit INVALID_TYPE'],
    '/products?limit=5&limit=5': ['limit CONFLICTING_PARAMETERS'],
    '/products?page=': ['page INVALID_TYPE'],
    '/products?page=last': ['page INVALID_TYPE'],
    '/products?page=1&page=2': ['page CONFLICTING_PARAMETERS'],
    '/products?page=2&limit=0': ['limit OUT_OF_RANGE'],
    '/products?page=502&limit=x': ['limit INVALID_TYPE'],
    '/products?page=10002&limit=x': ['limit INVALID_TYPE', 'page OUT_OF_RANGE'],
  })
  t.equal((await admin.get(`${PATH}?limit=1`)).status, 200)
  t.equal((await admin.get(`${PATH}?limit=100`)).status, 200)
})

t.test('pages beyond 10,000 rows are rejected', async (t) => {
  for (const [page = 0, limit] of [
    [101, 100],
    [501, 20],
    [10_001, 1],
    [1429, 7],
  ]) {
    const last = await admin.get(`${PATH}?page=${page}&limit=${limit}`)
    t.equal(last.status, 200, `page ${page} of ${limit}`)
    await checkRefusals(t, admin, { [`${PATH}?page=${page + 1}&limit=${limit}`]: ['page OUT_OF_RANGE'] })
  }
})

t.test('page together with cursor is rejected, also with an empty cursor', async (t) => {
  const { cursor } = (await admin.get(PATH)).body.pagination
  for (const value of [cursor, '', 'x']) {
    await checkRefusals(t, admin, { [`${PATH}?page=1&cursor=${value}`]: ['page CONFLICTING_PARAMETERS'] })
  }
})

t.test('Link repeats every parameter, and next leads through all pages', async (t) => {
  const query = 'limit=10&status=active&search=product&sort=name,-price_amount&fields=id,name'
  const { first, next } = getLinks(await admin.get(`${PATH}?${query}`))
  const repeated = new URL(next ?? '', 'http://here')
  t.equal(repeated.pathname, PATH)
  t.equal(repeated.searchParams.get('sort'), 'name,-price_amount')
  t.equal(repeated.searchParams.get('search'), 'product')
  t.ok(first?.startsWith(`${PATH}?limit=10&status=active`))
  t.notOk(first?.includes('cursor'))

  const followed: string[] = []
  for (let at = first; at !== undefined; ) {
    const reply = await admin.get(at)
    t.equal(reply.status, 200)
    followed.push(...getIds(reply))
    at = getLinks(reply).next
  }
  t.equal(followed.length, 45)
  t.equal(new Set(followed).size, 45)
})

t.test('Link of offset pagination has next, first, prev and last, none beyond 10,000 rows', async (t) => {
  t.same(getLinks(await admin.get(`${PATH}?page=2&search=product`)), {
    next: `${PATH}?search=product&page=3`,
    first: `${PATH}?search=product&page=1`,
    prev: `${PATH}?search=product&page=1`,
    last: `${PATH}?search=product&page=3`,
  })
  t.same(Object.keys(getLinks(await admin.get(`${PATH}?page=1&search=product`))), ['next', 'first', 'last'])
  t.same(Object.keys(getLinks(await admin.get(`${PATH}?page=3&search=product`))), ['first', 'prev', 'last'])
})

t.test('no link names a page that would be rejected, and links are absolute with PUBLIC_URL', async (t) => {
  const { admin, database } = await testApp(t, { PUBLIC_URL: 'https://api.example.com' })
  await database.run(`insert into products (id, sku, name, price_amount, search)
    select gen_random_uuid(), 'N-' || n, 'n', 1, '' from generate_series(1, 10150) n`)
  const deepest = await admin.get('/v1/products?page=101&limit=100&fields=id')
  t.equal(deepest.body.pagination.total_pages, 102)
  t.same(getLinks(deepest), {
    first: 'https://api.example.com/v1/products?limit=100&fields=id&page=1',
    prev: 'https://api.example.com/v1/products?limit=100&fields=id&page=100',
    last: 'https://api.example.com/v1/products?limit=100&fields=id&page=101',
  })
})

t.test('Link keeps me in the path of a nested list', async (t) => {
  await insertRows(database, 'notes', [{ user_id: adminId }, { user_id: adminId }])
  const ownLinks = getLinks(await admin.get('/users/me/notes?limit=1'))
  t.match(ownLinks.next, /^\/users\/me\/notes\?limit=1&cursor=/)
  const named = getLinks(await admin.get(`/v2/users/${adminId}/notes?limit=1`))
  t.equal(named.first, `/v2/users/${adminId}/notes?limit=1`)
})

t.test('an unknown parent is a 404, a parent without rows a 200', async (t) => {
  const unknownId = '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'
  const { id } = await person('member')
  t.equal((await admin.get(`/users/${unknownId}/notes`)).status, 404)
  t.equal((await admin.get(`/users/${unknownId}/notes?page=3`)).status, 404)
  t.equal((await admin.get('/users/unknownId/notes')).status, 404)
  t.equal((await admin.get(`/users/${unknownId}/notes?limit=0`)).status, 400, 'the query is checked first')
  t.same((await admin.get(`/users/${id}/notes`)).body.data, [])
  t.same((await admin.get(`/users/${id.toUpperCase()}/notes`)).body.data, [])
  t.equal((await admin.get(`/users/${id}/notes?page=2`)).status, 200)
})
