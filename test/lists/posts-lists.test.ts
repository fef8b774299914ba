/** Posts are listed, filtered, searched and included. Goes with posts. */
import t from 'tap'
import { type Json, testApp } from '../helpers/app.ts'
import { collectIds, getIds, getViolations } from '../helpers/replies.ts'
import { insertRows } from '../helpers/rows.ts'

const { admin, adminId, database, person } = await testApp(t)
const ada = await person('member')
const bob = await person('member')
const LIST = `/users/${ada.id}/posts`
const states = ['draft', 'published', 'published', 'archived']
const times = [null, '2026-01-02', '2026-01-01', null]
const posts = await insertRows(
  database,
  'posts',
  states.map((status, n) => ({
    user_id: ada.id,
    title: `Titel ${n}`,
    body: n === 3 ? 'Rumpfwort' : 'Text',
    status,
    published_at: times[n],
    created_at: `2026-02-0${n + 1}`,
  })),
)
await insertRows(database, 'posts', [{ user_id: bob.id, status: 'published' }, { user_id: adminId }])
const places = (ids: string[]) => ids.map((id) => posts.indexOf(id))
const find = async (query: string) => places(getIds(await admin.get(`${LIST}?${query}`)))

t.test('a list of posts has the posts of one user, for others the published ones', async (t) => {
  t.same(await find(''), [3, 2, 1, 0])
  t.same(places(getIds(await ada.client.get('/users/me/posts'))), [3, 2, 1, 0])
  t.same(places(getIds(await bob.client.get(LIST))), [2, 1])
})

t.test('posts are filtered by status, and sorted by the time of publication with null last', async (t) => {
  t.same(await find('status=draft'), [0])
  t.same(await find('status=archived,published&sort=title'), [1, 2, 3])
  t.same(getViolations(await admin.get(`${LIST}?status=active`)), ['status INVALID_VALUE'])
  for (const [sort, expected] of [
    ['published_at,title', [2, 1, 0, 3]],
    ['-published_at,title', [1, 2, 0, 3]],
  ] as const) {
    t.same(places(await collectIds(admin, `${LIST}?sort=${sort}&limit=1`)), expected, sort)
  }
})

t.test('posts are searched in title and body only', async (t) => {
  t.same(await find('search=titel'), [3, 2, 1, 0])
  t.same(await find('search=RUMPF'), [3])
  t.same(await find('search=draft'), [])
})

t.test('users include their posts, and posts their user if the caller may read both', async (t) => {
  const { body: one } = await admin.get(`/users/${ada.id}?include=posts,orders,profile`)
  t.same(places(one.data.posts.map(({ id }: Json) => id)), [3, 2, 1, 0])
  t.same(one.meta.includes.posts, { has_more: false, truncated: [] })
  const typed = (await admin.get(`/v2/users/${ada.id}?include=posts`)).body.data.relationships.posts
  t.match(typed[0], { type: 'posts', id: posts[3], attributes: { title: 'Titel 3', status: 'archived' } })
  const [listed] = (await admin.get(`${LIST}?include=user&fields=title&limit=1`)).body.data
  t.same(Object.keys(listed).sort(), ['id', 'title', 'user'])
  t.equal(listed.user.id, ada.id)
  const seen = (await bob.client.get(`${LIST}?include=user`)).body.data
  t.same(
    seen.map(({ user }: Json) => user),
    [null, null],
  )
  const { client } = await person('manager', ['users:read'])
  t.match((await client.get(`/users/${ada.id}?include=posts`)).body.error.message, /posts:read/)
})
