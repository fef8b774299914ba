/** The table of posts. */
import { common, folded, moment, text, userId } from '@resource-api/database'
import { sql } from 'drizzle-orm'
import { index, pgTable } from 'drizzle-orm/pg-core'

export const posts = pgTable(
  'posts',
  {
    ...common(),
    user_id: userId(),
    title: text().notNull(),
    body: text().notNull(),
    status: text().$type<'draft' | 'published' | 'archived'>().notNull().default('draft'),
    published_at: moment(),
    search: folded(),
  },
  (t) => [
    index('posts_created_at').on(t.user_id, t.created_at, t.id),
    index('posts_updated_at').on(t.user_id, t.updated_at, t.id),
    index('posts_title').on(t.user_id, t.title, t.id),
    index('posts_published_at_asc').on(
      t.user_id,
      sql`(coalesce(${t.published_at}, 'infinity'::timestamptz))`,
      t.id,
    ),
    index('posts_published_at_desc').on(
      t.user_id,
      sql`(coalesce(${t.published_at}, '-infinity'::timestamptz))`,
      t.id,
    ),
    index('posts_status').on(t.user_id, t.status, t.created_at, t.id),
    // No trigram index on `search`: posts are searched within one user, whose rows the indexes above find. With a
    // body of 100,000 characters, each update of the row, of whatever column, would write up to 14 MB of index
    // entries.
  ],
)
