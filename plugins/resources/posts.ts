/** Posts: under their author; the first publication is remembered. */
import { sql } from 'drizzle-orm'
import { posts } from '../../drizzle/tables.ts'
import { Post, PostInput } from '../../schemas/posts.ts'
import { CALLER } from '../access/index.ts'
import { defineResource, type ResourceDefinition } from '../collection/definition.ts'

type PostRow = typeof posts.$inferSelect

const own = [{ user_id: CALLER }] as const
const readable = [{ status: 'published' }, { user_id: CALLER }] as const

const publication = (status: PostRow['status'], before: string | null) => ({
  published_at: before ?? (status === 'published' ? new Date().toISOString() : null),
})

export const postsResource: ResourceDefinition = defineResource({
  name: 'posts',
  singular: 'Post',
  plural: 'Posts',
  description: 'What a user writes, under that user',
  table: posts,
  parent: { to: 'users', member: 'user_id' },
  schemas: { read: Post, create: PostInput, change: PostInput },
  filters: ['status'],
  sorts: {
    title: posts.title,
    published_at: {
      column: posts.published_at,
      ascending: sql`coalesce(${posts.published_at}, 'infinity'::timestamptz)`,
      descending: sql`coalesce(${posts.published_at}, '-infinity'::timestamptz)`,
      nulls: { ascending: 'infinity', descending: '-infinity' },
    },
    created_at: posts.created_at,
    updated_at: posts.updated_at,
  },
  search: ['title', 'body'],
  relations: { user: { to: 'users', local: 'user_id', foreign: 'id', many: false } },
  access: {
    list: { admin: true, manager: true, member: readable },
    read: { admin: true, manager: true, member: readable },
    create: { admin: true, manager: true, member: own },
    replace: { admin: true, manager: true, member: own },
    update: { admin: true, manager: true, member: own },
    remove: { admin: true, manager: true, member: own },
  },
  transitions: {
    status: {
      draft: ['published', 'archived'],
      published: ['draft', 'archived'],
      archived: ['draft', 'published'],
    },
  },
  actions: {
    create: (store, id, body) => store.insert({ ...body, id, ...publication(body.status, null) }),
    change: (store, current, { next }) =>
      store.update(current, { ...next, ...publication(next.status, current.published_at) }),
  },
})
