/** The schemas of posts, which belong to the user in their path. */
import { Type } from '@sinclair/typebox'
import { common, Id, Nullable, OneOf, Text, Timestamp } from './types.ts'

const postStatuses = ['draft', 'published', 'archived'] as const

const fields = {
  title: Text({ minLength: 1, maxLength: 200, examples: ['On the engine'] }),
  body: Text({
    minLength: 1,
    maxLength: 100_000,
    'x-trim': false,
    'x-multiline': true,
    examples: ['It can do whatever we know how to order it to perform.'],
  }),
  status: OneOf(postStatuses, {
    default: 'draft',
    description: 'draft -> published, archived; published -> draft, archived; archived -> draft, published',
  }),
}

export const Post = Type.Object(
  {
    id: Id(),
    user_id: Id('The author, from the path'),
    ...fields,
    published_at: Nullable(Timestamp('The time of the first publication')),
    ...common,
  },
  { title: 'Post' },
)

export const PostInput = Type.Object(fields, { title: 'PostInput' })
