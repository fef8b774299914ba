/** A user is deleted with their posts in parts that fit the time limit of statements, or not at all. */
import t from 'tap'
import { createDatabase } from '../../../database/src/client/database.ts'
import { testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { readChanges } from '../../../testing/helpers/events.ts'

const opened = await testDatabase(t)
let deletions = 0
/** How many bytes each stored byte counts as, since posts of MiBs take seconds. */
let scale = 1
const database = createDatabase({
  ...opened.$client,
  transaction: (work, options) =>
    opened.$client.transaction((tx) => {
      const runScaled: typeof tx.run = (text, params) => {
        if (text.includes('delete from "posts"')) deletions += 1
        return tx.run(text.replaceAll('pg_column_size(', `${scale} * pg_column_size(`), params)
      }
      return work({ ...tx, run: runScaled })
    }, options),
})
const { app, admin, person } = await testApp(t, {}, { database })

const insertPosts = (userId: string, count: number, bytes: number) =>
  opened.run(
    `insert into posts (id, user_id, title, body)
     select gen_random_uuid(), $1, 'Title', repeat('x', $3::int) from generate_series(1, $2::int)`,
    [userId, count, bytes],
  )

const countPosts = async (userId: string) =>
  (await opened.run('select 1 from posts where user_id = $1', [userId])).length

t.test('large posts are deleted in parts of 8 MiB, many small ones in parts of 1,000', async (t) => {
  for (const [count, bytes, factor, parts] of [
    [20, 1_024, 1_024, 3],
    [2_500, 1, 1, 3],
    [0, 0, 1, 0],
  ] as const) {
    const { id } = await person('member')
    await insertPosts(id, count, bytes)
    deletions = 0
    scale = factor
    t.equal((await admin.delete(`/users/${id}`)).status, 204)
    t.equal(deletions, parts)
    t.equal(await countPosts(id), 0)
    await app.events.assignAll()
    const changes = (await readChanges(opened)).filter(({ owner_id }) => owner_id === id)
    t.equal(changes.filter(({ type }) => type === 'posts.deleted').length, count)
    t.match(changes.at(-1), { type: 'users.deleted' })
  }
})

t.test('a user whose posts are too large for one request is kept with all of them', async (t) => {
  const { id } = await person('member')
  await insertPosts(id, 65, 1_024)
  deletions = 0
  scale = 1_024
  const refused = await admin.delete(`/users/${id}`)
  t.equal(refused.status, 409)
  t.match(refused.body.error, {
    code: 'RESOURCE_CONFLICT',
    message: 'More posts depend on it than one request can delete; delete some of them first',
  })
  t.same([deletions, await countPosts(id)], [0, 65])
  t.equal((await admin.get(`/users/${id}`)).status, 200)
})
