/** Posts belong to the user in their path and remember their first publication. */
import t from 'tap'
import { testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createUniqueName, createVersionedClient, VERSIONS } from '../helpers/versioned-client.ts'

const STATES = ['draft', 'published', 'archived'] as const

t.test('posts', async (t) => {
  const { admin: client, adminId, person } = await testApp(t)
  const author = await person('member')
  const other = await person('member')

  for (const version of VERSIONS) {
    const admin = createVersionedClient(client, version)
    const own = createVersionedClient(author.client, version)
    const posts = `/users/${author.id}/posts`
    const newPost = async (members: Record<string, unknown> = {}) =>
      (await own.post(posts, { title: 'On tea', body: 'It is warm.', ...members })).data

    t.test(`v${version}: a new post is a draft of the user in the path`, async (t) => {
      const reply = await own.post(posts, { title: ' On tea ', body: '  It is warm.\n' })
      t.equal(reply.status, 201)
      const { id, created_at, updated_at, ...members } = reply.data
      t.same(members, {
        user_id: author.id,
        title: 'On tea',
        body: '  It is warm.\n',
        status: 'draft',
        published_at: null,
      })
      t.equal(reply.headers.get('location'), `/api/v${version}${posts}/${id}`)
      t.same((await own.get(`${posts}/${id}`)).data, reply.data)
      const ownPost = await own.post('/users/me/posts', { title: 'Mine', body: 'x' })
      t.equal(ownPost.data.user_id, author.id)
      t.equal(ownPost.headers.get('location'), `/api/v${version}${posts}/${ownPost.data.id}`)
      t.equal((await own.get(`/users/me/posts/${ownPost.data.id}`)).status, 200)
    })

    t.test(
      `v${version}: every status can change to each of the others, and to itself without effect`,
      async (t) => {
        for (const from of STATES) {
          for (const to of STATES) {
            const { id } = await newPost({ status: from })
            const before = await own.get(`${posts}/${id}`)
            const reply = await own.patch(`${posts}/${id}`, { status: to })
            t.equal(reply.status, 200)
            t.equal(reply.data.status, to)
            t.equal(reply.etag === before.etag, from === to)
          }
        }
      },
    )

    t.test(`v${version}: published_at is the time of the first publication`, async (t) => {
      const { id } = await newPost()
      const path = `${posts}/${id}`
      const published = (await own.patch(path, { status: 'published' })).data.published_at
      t.match(published, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      for (const status of ['archived', 'published', 'draft', 'published']) {
        t.equal((await own.patch(path, { status })).data.published_at, published)
      }
      const replaced = await own.put(path, { title: 'New', body: 'New' })
      t.match(replaced.data, { status: 'draft', published_at: published })
      t.ok((await newPost({ status: 'published' })).published_at, 'also where it begins published')
      t.equal((await newPost({ status: 'archived' })).published_at, null)
    })

    t.test(`v${version}: published_at and user_id are read-only`, async (t) => {
      const now = new Date().toISOString()
      const sent = { title: 'a', body: 'b', published_at: now, user_id: author.id }
      const wrong = ['published_at READ_ONLY', 'user_id READ_ONLY']
      t.same((await own.post(posts, sent)).violations, wrong)
      const { id } = await newPost()
      const path = `${posts}/${id}`
      t.same((await own.patch(path, { published_at: now, user_id: author.id })).violations, wrong)
      t.equal((await own.put(path, sent)).data.published_at, null, 'PUT ignores what it cannot write')
      t.same((await own.put(path, { ...sent, user_id: other.id })).violations, ['user_id READ_ONLY'])
      t.equal((await own.put(path, { ...sent, user_id: author.id.toUpperCase() })).status, 200)
    })

    t.test(`v${version}: a post under another or an unknown user is a 404`, async (t) => {
      const { id } = await newPost({ status: 'published' })
      const whole = { title: 'a', body: 'b' }
      for (const user of [other.id, adminId, UNKNOWN_ID, 'nobody', 'me']) {
        const path = `/users/${user}/posts/${id}`
        const statuses = [
          (await admin.get(path)).status,
          (await admin.put(path, whole)).status,
          (await admin.patch(path, { title: 'a' })).status,
          (await admin.delete(path)).status,
        ]
        t.same(statuses, [404, 404, 404, 404], user)
      }
      t.equal((await own.get(`${posts}/${id}`)).status, 200)
    })

    t.test(`v${version}: list and create under an unknown user are a 404`, async (t) => {
      for (const by of [admin, own]) {
        for (const user of [UNKNOWN_ID, 'nobody']) {
          t.equal((await by.get(`/users/${user}/posts`)).status, 404)
          t.equal((await by.get(`/users/${user}/posts?page=1`)).status, 404)
          const reply = await by.post(`/users/${user}/posts`, { title: 'a', body: 'b' })
          t.equal(reply.status, 404)
          t.equal(reply.code, 'RESOURCE_NOT_FOUND')
        }
      }
      const empty = await person('member')
      t.same((await admin.get(`/users/${empty.id}/posts`)).data, [])
    })

    t.test(`v${version}: a deleted post is a 404`, async (t) => {
      const { id } = await newPost()
      t.equal((await own.delete(`${posts}/${id}`)).status, 204)
      t.equal((await own.delete(`${posts}/${id}`)).status, 404)
      t.equal((await own.get(`${posts}/${id}`)).status, 404)
    })

    t.test(`v${version}: search covers title and body`, async (t) => {
      const [first, second] = [createUniqueName('Wörter'), createUniqueName('Слова')]
      const { id } = await newPost({ body: first })
      const found = async (search: string) =>
        (await own.get(`${posts}?search=${encodeURIComponent(search)}`)).data.length
      t.equal(await found(first.toUpperCase()), 1)
      await own.patch(`${posts}/${id}`, { title: second })
      t.same([await found(first), await found(second.toUpperCase())], [1, 1])
      await own.put(`${posts}/${id}`, { title: 'a', body: 'b' })
      t.same([await found(first), await found(second)], [0, 0])
    })
  }
})
