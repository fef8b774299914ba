/** Defines posts. They stand under the path of their author, and keep the time of their first publication. */
import { sql } from 'drizzle-orm'
import { posts } from '../../drizzle/tables/posts.ts'
import { users } from '../../drizzle/user-tables.ts'
import { Post, PostChange, PostCreate } from '../../schemas/posts.ts'
import { CALLER } from '../access/rules.ts'
import { defineResource, type ResourceDefinition } from '../collection/definition.ts'

type PostRow = typeof posts.$inferSelect

const relations = {
  user: { to: users, local: 'user_id', foreign: 'id', many: false, inverse: 'posts' },
} as const

declare module '../collection/known-relations.ts' {
  interface KnownRelations {
    posts: { table: typeof posts; relations: typeof relations }
  }
}

const own = [{ user_id: CALLER }] as const
const readable = [{ status: 'published' }, { user_id: CALLER }] as const

/** Returns the time of the first publication; null if the post has never been published. */
const getPublishedAt = (status: PostRow['status'], previous: string | null) =>
  previous ?? (status === 'published' ? new Date().toISOString() : null)

export const postsResource: ResourceDefinition = defineResource({
  name: 'posts',
  singular: 'Post',
  plural: 'Posts',
  description: 'Texts of a user, under the path of that user',
  table: posts,
  parent: { to: 'users', member: 'user_id' },
  schemas: { read: Post, create: PostCreate, change: PostChange },
  filters: ['status'],
  negations: ['status'],
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
  relations,
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
    create: (store, id, body) =>
      store.insert({ ...body, id, published_at: getPublishedAt(body.status, null) }),
    change: (store, current, { next }) =>
      store.update(current, { ...next, published_at: getPublishedAt(next.status, current.published_at) }),
  },
})
