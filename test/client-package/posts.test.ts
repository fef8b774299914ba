/** The client package reads and writes the posts of a user. */
import t from 'tap'
import { createClient, type Resource } from '../../client/src/index.ts'
import { testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createRecordedFetch } from '../helpers/recorded-fetch.ts'

type Post = Resource<'/api/v1/users/{user_id}/posts'>

t.test('posts of a user', async (t) => {
  const { base: baseUrl, person } = await testApp(t)
  const { id: userId, key: apiKey } = await person('member')
  const { fetch, sent } = createRecordedFetch()
  const client = createClient({ baseUrl, apiKey, fetch })

  t.test('they belong to a user, and `me` is the caller', async (t) => {
    const post: Post = await client.users.posts('me').create({ title: 'First', body: 'Text' })
    const title: string = post.title
    // @ts-expect-error: the fields have the types of the document, and none is `any`
    const count: number = post.title
    t.same([title, count], ['First', 'First'])
    t.equal(post.user_id, userId)
    t.same(await client.users.posts(userId).list().toArray(), [post])
    const { status, requestId, etag } = await client.users.posts('me').get(post.id).withResponse()
    t.equal(status, 200)
    t.ok(requestId && etag)
    const invalid = await client.users
      .posts('me')
      .create({ title: '', body: 'Text' })
      .catch((error) => error)
    t.match(invalid, { name: 'ValidationError', fields: [{ field: 'title', code: 'TOO_SHORT' }] })
    await client.users.posts('me').delete(post.id)
    t.same(await client.users.posts(userId).list().toArray(), [])
  })

  t.test('ids that a URL would resolve to another path are rejected', async (t) => {
    const before = sent.length
    for (const id of ['', '.', '..']) {
      for (const call of [client.users.posts('me').delete(id), client.users.posts(id).get(UNKNOWN_ID)]) {
        t.match(await Promise.resolve(call).catch((error: unknown) => error), {
          name: 'TypeError',
          message: /must be an id/,
        })
      }
    }
    t.equal(sent.length, before)
  })
})
