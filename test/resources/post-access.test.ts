/** Posts of others: only published ones are listed, counted and found, and an include omits what may not be read. */
import t from 'tap'
import { type Client, type Json, testApp } from '../helpers/app.ts'
import { collectIds } from '../helpers/lists.ts'
import { createUniqueName, createVersionedClient, VERSIONS } from '../helpers/versioned-client.ts'

const { admin, adminId, person } = await testApp(t)
const stranger = await person('member')
const { bearer: member } = await person('member')
const { bearer: manager } = await person('manager')

const getTotal = async (by: Client, path: string) => (await by.get(`${path}&page=1`)).body.pagination.total

for (const version of VERSIONS) {
  const all = createVersionedClient(admin, version)

  t.test(`v${version}: a filter does not reveal posts that may not be read`, async (t) => {
    const posts = `/users/${stranger.id}/posts`
    const ids: string[] = []
    for (const status of ['draft', 'published']) {
      ids.push((await all.post(posts, { title: status, body: 'b', status })).data.id)
    }
    for (const [status, count] of [
      ['draft', 0],
      ['published', 1],
    ] as const) {
      const list = `/api/v${version}${posts}?status=${status}`
      t.equal((await collectIds(member, list)).length, count, status)
      t.equal(await getTotal(member, list), count, status)
      t.equal(await getTotal(manager, list), 1, `${status}: staff`)
    }
    for (const id of ids) await all.delete(`${posts}/${id}`)
  })

  t.test(`v${version}: include omits users and posts that may not be read`, async (t) => {
    const someone = await person('member')
    const own = createVersionedClient(someone.client, version)
    const fields = { title: 'a', body: 'b', status: 'published' }
    const post = (await all.post(`/users/${stranger.id}/posts`, fields)).data
    const path = `/users/${stranger.id}/posts/${post.id}?include=user`
    t.equal((await own.get(path)).data.user, null, 'a member does not read other users')
    t.equal((await all.get(path)).data.user.id, stranger.id)
    for (const status of ['draft', 'published']) {
      await all.post(`/users/${someone.id}/posts`, { title: status, body: 'b', status })
    }
    const { posts }: Json = (await own.get('/users/me?include=posts,orders,profile')).data
    t.equal(posts.length, 2)
    await all.delete(`/users/${stranger.id}/posts/${post.id}`)
  })

  t.test(`v${version}: me is the path to the caller's own posts only`, async (t) => {
    const own = createVersionedClient((await person('member')).client, version)
    const made = await own.post('/users/me/posts', { title: createUniqueName('t'), body: 'b' })
    t.equal(made.status, 201)
    t.same((await own.get('/users/me/posts')).data, [made.data])
    t.equal((await own.get(`/users/${adminId}/posts/${made.data.id}`)).status, 404)
  })
}
