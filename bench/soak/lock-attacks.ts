/** Requests of one member that wait for locks, which the member, or another transaction, holds. */
import type { Database } from '../../packages/database/src/client/types.ts'
import { createRequest, type LoadRequest } from './load.ts'
import type { createMember } from './server.ts'

type Member = Awaited<ReturnType<typeof createMember>>

const POST_COUNT = 40
const ORDER_COUNT = 20

const addPosts = async (database: Database, { id }: Member, count: number): Promise<string[]> => {
  const posts = await database.run(
    `insert into posts (id, user_id, title, body, search)
     select gen_random_uuid(), $1, 'Post ' || n, 'Body', 'body' from generate_series(1, ${count}) n returning id`,
    [id],
  )
  return posts.map((post) => String(post.id))
}

const createBatch = ({ headers }: Member, operations: readonly object[]) =>
  createRequest('POST', '/batches', { headers, body: { operations } })

/** Both orders of the same operations, twenty times each with other values. */
const createCrossed = (member: Member, build: (i: number) => object[]): LoadRequest[] =>
  Array.from({ length: 20 }, (_, i) => build(i)).flatMap((operations) => [
    createBatch(member, operations),
    createBatch(member, operations.toReversed()),
  ])

export const lockAttacks = {
  /** Another transaction holds the row for as long as the attack takes. */
  'changes of an own row that is locked': async (database: Database, member: Member, seconds: number) => {
    const [post = ''] = await addPosts(database, member, 1)
    let isLocked = false
    void database.transaction(async (tx) => {
      await tx.run('select 1 from posts where id = $1 for update', [post])
      isLocked = true
      await tx.run(`select pg_sleep(${seconds})`)
    })
    while (!isLocked) await database.run('select pg_sleep(0.01)')
    return Array.from({ length: 200 }, (_, i) =>
      createRequest('PATCH', `/users/me/posts/${post}`, {
        headers: member.headers,
        body: { title: `Title ${i}` },
      }),
    )
  },
  'batches of 40 changes in opposite orders': async (database: Database, member: Member) => {
    const posts = await addPosts(database, member, POST_COUNT)
    return createCrossed(member, (i) =>
      posts.map((id) => ({ method: 'PATCH', path: `/users/me/posts/${id}`, body: { title: `Title ${i}` } })),
    )
  },
  /** The action of an order locks its products, which no batch knows before. */
  'batches of 20 orders in opposite orders': async (database: Database, member: Member) => {
    const products = await database.run(
      `update products set stock = 1000000000
       where id in (select id from products where status = 'active' limit ${ORDER_COUNT}) returning id`,
    )
    return createCrossed(member, () =>
      products.map(({ id }) => ({
        method: 'POST',
        path: '/orders',
        body: { items: [{ product_id: id, quantity: 1 }] },
      })),
    )
  },
}
