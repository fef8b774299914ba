/** Posts belong to the user in their path and remember their first publication. */
import t from 'tap'
import { testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createUniqueName, createVersionedClient, omitId, VERSIONS } from '../helpers/versioned-client.ts'

const STATES = ['draft', 'published', 'archived'] as const

t.test('posts', async (t) => {
  const { admin: client, adminId, database, person } = await testApp(t)
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

    t.test(`v${version}: title has 1 to 200 characters, and body 1 to 100,000`, async (t) => {
      const path = `${posts}/${(await newPost()).id}`
      const wide = '\u{1F9E1}'
      for (const [name, max] of [
        ['title', 200],
        ['body', 100_000],
      ] as const) {
        t.equal((await own.patch(path, { [name]: wide.repeat(max) })).data[name], wide.repeat(max))
        const long = await own.patch(path, { [name]: wide.repeat(max + 1) })
        t.same(long.violations, [`${name} TOO_LONG`])
        t.same((await own.patch(path, { [name]: '' })).violations, [`${name} TOO_SHORT`])
        t.same((await own.patch(path, { [name]: null })).violations, [`${name} INVALID_TYPE`])
      }
      t.same((await own.patch(path, { title: 'a\nb' })).violations, ['title INVALID_FORMAT'])
      t.same((await own.patch(path, { status: null })).violations, ['status INVALID_TYPE'])
      t.same((await own.patch(path, { status: 'gone' })).violations, ['status INVALID_VALUE'])
      t.same((await own.post(posts, {})).violations, ['body REQUIRED', 'title REQUIRED'])
      t.same((await own.put(path, {})).violations, ['body REQUIRED', 'title REQUIRED'])
      const { data } = await own.patch(path, { title: ' Cafe\u0301 ', body: ' a\r\nCafe\u0301 \n' })
      t.match(data, { title: 'Caf\u00e9', body: ' a\nCaf\u00e9 \n' }, 'a body keeps its ends')
    })

    t.test(`v${version}: a write of a post as it was read changes nothing`, async (t) => {
      const { id } = await newPost({ status: 'published' })
      const path = `${posts}/${id}`
      const read = await own.get(path)
      const { title, body, status } = read.data
      for (const reply of [
        await own.put(path, omitId(read.data)),
        await own.patch(path, {}),
        await own.patch(path, { title, body, status }),
      ]) {
        t.equal(reply.status, 200)
        t.same(reply.data, read.data)
        t.equal(reply.etag, read.etag)
      }
    })

    t.test(`v${version}: a PATCH changes only the fields that are sent`, async (t) => {
      const { id } = await newPost({ status: 'published' })
      const path = `${posts}/${id}`
      const before = await own.get(path)
      const after = await own.patch(path, { title: 'New' })
      const { updated_at } = after.data
      t.same(after.data, { ...before.data, title: 'New', updated_at })
      t.ok(updated_at >= before.data.updated_at)
      t.not(after.etag, before.etag)
      t.same((await own.get(path)).data, after.data)
    })

    t.test(`v${version}: PUT of an unknown post is a 404`, async (t) => {
      t.equal((await admin.put(`${posts}/${UNKNOWN_ID}`, { title: 'a', body: 'b' })).status, 404)
    })

    t.test(`v${version}: deleting a user deletes the posts`, async (t) => {
      const leaving = await person('member')
      const path = `/users/${leaving.id}/posts`
      t.equal((await admin.post(path, { title: 'A', body: 'B' })).status, 201)
      t.equal((await admin.delete(`/users/${leaving.id}`)).status, 204)
      t.equal((await admin.get(path)).status, 404)
      t.same(await database.run('select id from posts where user_id = $1', [leaving.id]), [])
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
