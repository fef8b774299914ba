/** Demo posts are what the API itself would create. */
import { test } from 'tap'
import { createAjv } from '../../../plugins/validation/formats.ts'
import { normalize } from '../../../plugins/validation/normalize.ts'
import { Post } from '../../../schemas/posts.ts'
import { resources } from '../../../src/app.ts'
import { seedDatabase } from '../../../src/cli/demo-data/index.ts'
import { type Json, testApp } from '../../helpers/app.ts'

const USERS = 20

test('every demo post conforms to the API', async (t) => {
  const { admin, database } = await testApp(t)
  const until = Date.UTC(2026, 0, 1)
  const added = await seedDatabase(database, {
    users: USERS,
    seed: 42,
    until,
    concurrency: 1,
    definitions: resources,
  })
  t.equal(added.posts, USERS)
  const isValid = createAjv().compile(Post)
  const posts: Json[] = []
  for (const { id } of (await admin.get('/users?limit=100')).body.data) {
    posts.push(...(await admin.get(`/users/${id}/posts?limit=100`)).body.data)
  }
  t.equal(posts.length, USERS)
  for (const post of posts) {
    t.match(normalize(post, Post), { value: post, violations: [] })
    t.ok(isValid(post), post.id)
    t.ok(post.created_at <= post.updated_at && Date.parse(post.updated_at) <= until)
    if (post.status !== 'archived') t.equal(post.published_at !== null, post.status === 'published')
  }
  const [first] = posts
  const word = encodeURIComponent(first.title.split(' ')[0])
  const found = await admin.get(`/users/${first.user_id}/posts?limit=100&search=${word}`)
  t.ok(found.body.data.some(({ id }: Json) => id === first.id))
})
