/** Demo posts are what the API itself would create. */
import { test } from 'tap'
import { type Json, testApp } from '../../packages/testing/helpers/app.ts'
import { findUnfound, findUnsound, readAll, seedRows } from '../../packages/testing/helpers/demo-rows.ts'
import { toCollections } from '../../packages/testing/helpers/serve.ts'
import { Post } from '../../schemas/posts.ts'
import { resources } from '../../src/resources.ts'

const USERS = 20

test('every demo post conforms to the API', async (t) => {
  const { admin, database } = await testApp(t)
  const added = await seedRows(database, { users: USERS, definitions: toCollections(resources) })
  t.equal(added.posts, USERS)
  const posts: Json[] = []
  for (const { id } of await readAll(admin, '/users'))
    posts.push(...(await readAll(admin, `/users/${id}/posts`)))
  t.equal(posts.length, USERS)
  t.strictSame(findUnsound(posts, Post), [])
  for (const { status, published_at } of posts) {
    if (status !== 'archived') t.equal(published_at !== null, status === 'published')
  }
  const [{ id, title, user_id }] = posts
  t.strictSame(await findUnfound(admin, [[`/users/${user_id}/posts`, title.split(' ')[0], id]]), [])
})
