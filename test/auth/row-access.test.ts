/** Lists, counts, searches, includes and cursors show only rows that docs/access-matrix.json allows. */
import t from 'tap'
import type { Role } from '../../plugins/access/index.ts'
import { allowsRow, type Cell, matrix, roles } from '../helpers/access-matrix.ts'
import { type Client, type Json, type Person, testApp } from '../helpers/app.ts'
import { createOwnedRows } from '../helpers/owned-rows.ts'
import { insertRows, type Values } from '../helpers/rows.ts'
import {
  createActiveProduct,
  createUniqueName,
  createVersionedClient,
  VERSIONS,
} from '../helpers/versioned-client.ts'

const { admin, adminId, database, person } = await testApp(t)
const ownedRows = createOwnedRows(database)
const people: Record<Role, Person> = {
  member: await person('member'),
  manager: await person('manager'),
  admin: await person('admin'),
}
const stranger = await person('member')
const everybody = [...Object.values(people), stranger]

/** A word that is found in every row of this file's. */
const WORD = 'quince'

const tables: Record<string, string> = {
  users: 'users',
  'user-profiles': 'user_profiles',
  posts: 'posts',
  products: 'products',
  orders: 'orders',
  sessions: 'sessions',
  'api-keys': 'api_keys',
}

const statuses = (word: string, all: readonly string[], more: Values): Values[] =>
  all.map((status) => ({ [word]: WORD, ...more, status }))

// Of everybody something, in every status that a rule looks at.
await insertRows(database, 'users', [{ name: WORD }, { name: WORD }])
await insertRows(database, 'products', statuses('name', ['draft', 'active', 'archived', 'active'], {}))
for (const { id } of everybody) {
  await insertRows(database, 'user_profiles', [{ user_id: id, bio: WORD }])
  await insertRows(database, 'posts', statuses('title', ['draft', 'published', 'archived'], { user_id: id }))
  await insertRows(database, 'orders', statuses('note', ['pending', 'paid'], { user_id: id }))
  await ownedRows.make('sessions', id)
  await ownedRows.make('api-keys', id)
}

interface Listed {
  id: string
  own: boolean
  status: unknown
}

/** All rows of a list as they stand in the table, and whose they are. */
async function rowsOf(collection: string, caller: string, parent: string): Promise<Listed[]> {
  const where = collection === 'posts' ? ` where user_id = '${parent}'` : ''
  const rows = await database.run(`select * from ${tables[collection]}${where}`)
  return rows.map((row) => ({
    id: String(row.id),
    own: caller === (collection === 'users' ? row.id : row.user_id),
    status: row.status,
  }))
}

const idsOf = (body: Json): string[] => body.data.map(({ id }: Json) => id)

/** All ids of a list, three to a page. */
async function walked(by: Client, path: string): Promise<string[]> {
  const ids: string[] = []
  let cursor = ''
  do {
    const { body } = await by.get(`${path}${path.includes('?') ? '&' : '?'}limit=3&cursor=${cursor}`)
    ids.push(...idsOf(body))
    cursor = body.pagination.cursor ?? ''
  } while (cursor !== '')
  return ids
}

/** How many a list with a total says there are, in the body and in HEAD's `Link`. */
async function counted(by: Client, path: string): Promise<number[]> {
  const query = `${path}${path.includes('?') ? '&' : '?'}page=1&limit=1`
  const { total, total_pages: pages } = (await by.get(query)).body.pagination
  const link = (await by.call('HEAD', query)).headers.get('link') ?? ''
  const last = /[?&]page=(\d+)[^>]*>; rel="last"/.exec(link)?.[1]
  return [total, pages, Number(last ?? 0)]
}

const SEARCHED = ['users', 'user-profiles', 'posts', 'products', 'orders']

for (const version of VERSIONS) {
  for (const [collection, verbs] of Object.entries(matrix)) {
    t.test(
      `v${version} ${collection}: rows that may not be read are not listed, counted, paged or found`,
      async (t) => {
        for (const role of roles) {
          const cell: Cell = verbs.list?.[role] ?? 'none'
          if (cell === 'none') continue
          const { id, bearer } = people[role]
          for (const parent of collection === 'posts' ? [id, stranger.id] : [id]) {
            const path = `/api/v${version}${ownedRows.listOf(collection, parent)}`
            const rows = await rowsOf(collection, id, parent)
            const seen = rows.filter((row) => allowsRow(cell, row)).map((row) => row.id)
            t.ok(
              seen.length > 0 && (cell === 'all' || parent === id || seen.length < rows.length),
              'a case at all',
            )
            t.same((await walked(bearer, path)).sort(), seen.sort(), `${role}: by cursors`)
            const { body } = await bearer.get(`${path}?page=1&limit=100`)
            t.same(idsOf(body).sort(), seen, `${role}: by pages`)
            t.same(await counted(bearer, path), Array(3).fill(seen.length), `${role}: the total`)
            if (!SEARCHED.includes(collection)) continue
            const found = (await walked(people.admin.bearer, `${path}?search=${WORD}`)).filter((each) =>
              seen.includes(each),
            )
            t.ok(found.length > 0, 'something to find')
            t.same(
              (await walked(bearer, `${path}?search=${WORD}`)).sort(),
              found.sort(),
              `${role}: by search`,
            )
            t.same(
              await counted(bearer, `${path}?search=${WORD}`),
              Array(3).fill(found.length),
              `${role}: found`,
            )
          }
        }
      },
    )
  }

  t.test(`v${version}: a filter does not reveal rows that may not be read`, async (t) => {
    const { bearer } = people.member
    for (const [path, less] of [
      [`/orders?user_id=${stranger.id}`, 0],
      ['/products?status=draft', 0],
      [`/users/${stranger.id}/posts?status=draft`, 0],
      [`/users/${stranger.id}/posts?status=published`, 1],
    ] as const) {
      const list = `/api/v${version}${path}`
      t.equal((await walked(bearer, list)).length, less, path)
      t.same((await bearer.get(`${list}&page=1`)).body.pagination.total, less, path)
      t.ok((await people.manager.bearer.get(`${list}&page=1`)).body.pagination.total > 0, `${path}: staff`)
    }
  })

  t.test(`v${version}: include omits rows that may not be read`, async (t) => {
    const all = createVersionedClient(admin, version)
    const someone = await person('member')
    const own = createVersionedClient(someone.client, version)
    const [shown, hidden] = [await createActiveProduct(all), await createActiveProduct(all)]
    const items = [shown, hidden].map(({ id }) => ({ product_id: id, quantity: 1 }))
    const order = (await own.post('/orders', { items })).data
    await all.patch(`/products/${hidden.id}`, { status: 'archived' })
    const read = (await own.get(`/orders/${order.id}?include=products,user`)).data
    t.same(
      read.products.map(({ id }: Json) => id),
      [shown.id],
    )
    t.equal(read.user.id, someone.id)
    t.same((await own.get('/orders?include=products')).data[0].products.length, 1, 'in a list too')
    t.equal((await all.get(`/orders/${order.id}?include=products`)).data.products.length, 2)

    const members = { title: 'a', body: 'b', status: 'published' }
    const post = (await all.post(`/users/${stranger.id}/posts`, members)).data
    const path = `/users/${stranger.id}/posts/${post.id}?include=user`
    t.equal((await own.get(path)).data.user, null, 'a member does not read other users')
    t.equal((await all.get(path)).data.user.id, stranger.id)
    for (const status of ['draft', 'published']) {
      await all.post(`/users/${someone.id}/posts`, { title: status, body: 'b', status })
    }
    t.equal((await own.get('/users/me?include=posts,orders,profile')).data.posts.length, 2)
    await all.delete(`/users/${stranger.id}/posts/${post.id}`)
  })

  t.test(`v${version}: me is the path to the caller's own rows only`, async (t) => {
    const own = createVersionedClient((await person('member')).client, version)
    const made = await own.post('/users/me/posts', { title: createUniqueName('t'), body: 'b' })
    t.equal(made.status, 201)
    t.same((await own.get('/users/me/posts')).data, [made.data])
    t.equal((await own.get(`/users/${adminId}/posts/${made.data.id}`)).status, 404)
  })
}
