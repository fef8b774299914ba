/** Posts: texts under the path of their author. They keep the time of their first publication. */
import { CALLER, toReads, toWrites } from '@resource-api/api/rules'
import { users } from '@resource-api/database'
import {
  aggregate,
  type ChangeOf,
  collection,
  create,
  defineResource,
  list,
  read,
  remove,
  replace,
  restore,
  update,
} from '@resource-api/resources'
import { posts as table } from '../drizzle/tables/posts.ts'
import { Post, PostChange, PostCreate } from '../schemas/posts.ts'

const staff = { admin: true, manager: true } as const
const relations = {
  user: { to: users, local: 'user_id', foreign: 'id', many: false, inverse: 'posts' },
} as const

export const posts = collection({
  table,
  description: 'Texts of a user, under the path of that user',
  parent: { to: 'users', member: 'user_id' },
  schemas: { read: Post, create: PostCreate, change: PostChange },
  lists: {
    filters: ['status'],
    negations: ['status'],
    sorts: ['title', 'published_at', 'created_at', 'updated_at'],
    search: ['title', 'body'],
    aggregates: { groups: ['status'] },
  },
  relations,
  access: {
    ...toReads({ ...staff, member: [{ status: 'published' }, { user_id: CALLER }] }),
    ...toWrites({ ...staff, member: [{ user_id: CALLER }] }),
    restore: staff,
  },
  transitions: {
    status: {
      draft: ['published', 'archived'],
      published: ['draft', 'archived'],
      archived: ['draft', 'published'],
    },
  },
})

type Row = typeof table.$inferSelect

/** Returns the time of the first publication; null if the post has never been published. */
const getPublishedAt = (status: Row['status'], previous: string | null) =>
  previous ?? (status === 'published' ? new Date().toISOString() : null)

const postChange: ChangeOf<typeof posts> = {
  run: ({ store, current, next }) =>
    store.update(current, { ...next, published_at: getPublishedAt(next.status, current.published_at) }),
}

export default defineResource(posts, async (app, resource) => {
  app.get('/users/:user_id/posts', list(resource))
  app.get('/users/:user_id/posts/aggregates', aggregate(resource))
  app.get('/users/:user_id/posts/:id', read(resource))
  app.post(
    '/users/:user_id/posts',
    create(resource, ({ store, body }) =>
      store.insert({ ...body, published_at: getPublishedAt(body.status, null) }),
    ),
  )
  app.put('/users/:user_id/posts/:id', replace(resource, postChange))
  app.patch('/users/:user_id/posts/:id', update(resource, postChange))
  app.delete('/users/:user_id/posts/:id', remove(resource))
  app.post('/users/:user_id/posts/:id/restores', restore(resource))
})
