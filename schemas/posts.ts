/** The schemas of posts, which belong to the user in their path. */
import { common, Id, Line, Nullable, OneOf, Text, Timestamp } from '@resource-api/api/schemas'
import { Type } from '@sinclair/typebox'

const postStatuses = ['draft', 'published', 'archived'] as const

const fields = {
  title: Line(200, 'The title, on one line', 'On the engine'),
  body: Text({
    minLength: 1,
    maxLength: 100_000,
    'x-trim': false,
    'x-multiline': true,
    description: 'The text, which may have several lines',
    examples: ['It can do whatever we know how to order it to perform.'],
  }),
  status: OneOf(postStatuses, {
    title: 'PostStatus',
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
  { title: 'Post', description: 'A text of a user' },
)

export const PostCreate = Type.Object(fields, { title: 'PostCreate' })

export const PostChange = Type.Object(fields, { title: 'PostChange', examples: [{ status: 'published' }] })
