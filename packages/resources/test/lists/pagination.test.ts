/** Lists are paginated by cursor or by page number, with links to the neighboring pages. */
import t from 'tap'
import { testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { createNotes } from '../../../testing/helpers/notes.ts'
import { collectIds, getIds, getLinks } from '../../../testing/helpers/replies.ts'
import { insertRows } from '../../../testing/helpers/rows.ts'
import { createListTables } from './list-tables.ts'

const PATH = '/api/v1/products'
const { admin, database, person, adminId } = await testApp(t, {}, await createNotes(t))
const { check } = createListTables(database, admin)
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
  t.equal(first.headers.get('content-encoding'), null, 'no page is compressed without COMPRESS')
  t.same(Object.keys(first.body.pagination), ['cursor', 'has_more'])
  t.match(first.body.pagination, { cursor: String, has_more: true })
  // A page that is exactly full has nothing after it.
  for (const limit of ['', '?limit=45', '?limit=1'])
    t.same(await collectIds(admin, PATH + limit), made, limit)
  for (const query of ['limit=45', 'limit=100', 'search=nothing']) {
    const { pagination } = (await admin.get(`${PATH}?${query}`)).body
    t.same(pagination, { cursor: null, has_more: false }, query)
  }
  t.same(getIds(await admin.get(`${PATH}?cursor=&limit=5`)), made.slice(0, 5), 'an empty cursor')
  t.same(getIds(await admin.get(`${PATH}?cursor`)), made.slice(0, 20))
})

t.test('a page number selects offset pagination, with exact totals, also past the end', async (t) => {
  for (const [page, limit, rows, total_pages] of [
    [2, 20, made.slice(20, 40), 3],
    [3, 20, made.slice(40), 3],
    [5, 9, made.slice(36), 5],
    [9, 20, [], 3],
  ] as const) {
    const reply = await admin.get(`${PATH}?page=${page}${limit === 20 ? '' : `&limit=${limit}`}`)
    t.equal(reply.status, 200)
    t.same(getIds(reply), rows)
    t.same(reply.body.pagination, { page, limit, total: 45, total_pages })
  }
  const past = getLinks(await admin.get(`${PATH}?page=9`))
  t.same(past, { first: `${PATH}?page=1`, prev: `${PATH}?page=3`, last: `${PATH}?page=3` })
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
  const { cursor } = (await admin.get(PATH)).body.pagination
  const depths = [
    [101, 100],
    [501, 20],
    [10_001, 1],
    [1429, 7],
  ] as const
  for (const [page, limit] of depths)
    t.equal((await admin.get(`${PATH}?page=${page}&limit=${limit}`)).status, 200, `page ${page} of ${limit}`)
  const deeper = depths.map(
    ([page, limit]) => `/products?page=${page + 1}&limit=${limit} !! page OUT_OF_RANGE`,
  )
  await check(
    t,
    `/products?limit !! OUT_OF_RANGE 0 -1 101 ${'9'.repeat(18)} ${nines} -${nines}
    /products?limit !! INVALID_TYPE 05 -0 1e1 %2B5 +5 5%20 5.0 0x5 %D9%A5 NaN null ''
    /products?page !! OUT_OF_RANGE 0 -3 ${nines}
    /products?page !! INVALID_TYPE last ''
    /products?limit=5&limit=5 !! limit CONFLICTING_PARAMETERS
    /products?page=1&page=2 !! page CONFLICTING_PARAMETERS
    /products?page=2&limit=0 !! limit OUT_OF_RANGE
    /products?page=502&limit=x !! limit INVALID_TYPE
    /products?page=10002&limit=x !! limit INVALID_TYPE, page OUT_OF_RANGE
    # No page beyond 10,000 rows, and not together with a cursor.
    ${deeper.join('\n')}
    /products?page=1&cursor=${cursor} !! page CONFLICTING_PARAMETERS
    /products?page=1&cursor= !! page CONFLICTING_PARAMETERS
    /products?page=1&cursor=x !! page CONFLICTING_PARAMETERS`,
  )
  for (const limit of [1, 100]) t.equal((await admin.get(`${PATH}?limit=${limit}`)).status, 200)
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
    followed.push(...getIds(reply))
    at = getLinks(reply).next
  }
  t.equal(new Set(followed).size, 45)
  t.equal(followed.length, 45)
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
  const { id } = await person('member')
  for (const [path, status] of [
    [`/users/${UNKNOWN_ID}/notes`, 404],
    [`/users/${UNKNOWN_ID}/notes?page=3`, 404],
    ['/users/unknownId/notes', 404],
    // The query is checked first.
    [`/users/${UNKNOWN_ID}/notes?limit=0`, 400],
    [`/users/${id}/notes?page=2`, 200],
    [`/users/${id.toUpperCase()}/notes`, 200],
  ] as const)
    t.equal((await admin.get(path)).status, status, path)
  t.same((await admin.get(`/users/${id}/notes`)).body.data, [])
})
