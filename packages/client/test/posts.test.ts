/** The client package reads and writes the posts of a user. */
import t from 'tap'
import { testApp } from '../../testing/helpers/app.ts'
import { createClient, NotFoundError, type Resource, ValidationError } from '../src/index.ts'

t.test('posts belong to a user, and `me` is the caller', async (t) => {
  const { base: baseUrl, person } = await testApp(t)
  const { id: userId, key: apiKey } = await person('member')
  const { users } = createClient({ baseUrl, apiKey })
  const own = users.posts('me')
  const post: Resource<'/api/v1/users/{user_id}/posts'> = await own.create({ title: 'First', body: 'Text' })
  t.match(post, { title: 'First', user_id: userId })
  t.same(await users.posts(userId).list().toArray(), [post])
  t.match(await own.get(post.id).withResponse(), { status: 200, requestId: /./, etag: /^"1-/ })
  await t.rejects(own.create({ title: '', body: 'Text' }), ValidationError)
  await own.delete(post.id)
  await t.rejects(own.get(post.id), NotFoundError)
  t.same(await users.posts(userId).list().toArray(), [])
})
