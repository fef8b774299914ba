/** Demo posts: a few authors write most of them, and most are published. */
import { posts } from '../../../drizzle/tables.ts'
import { Random } from './random.ts'
import type { SeedContext } from './seed-context.ts'
import { createSeedStep } from './seed-step.ts'
import { createUuid, DAY_MS, toIsoString } from './timeline.ts'
import { getPerson } from './users.ts'

type PostRow = typeof posts.$inferSelect

const POSTS_PER_USER = 1
const STATUSES: Record<PostRow['status'], number> = { published: 0.75, draft: 0.15, archived: 0.1 }

function buildPost(context: SeedContext, index: number): PostRow {
  const { seed, counts, timeline, pools } = context
  const random = new Random(seed, 'post', index)
  const created = timeline.getMoment(index, counts.users * POSTS_PER_USER, random)
  const authors = timeline.countBefore(created, counts.users)
  const author = getPerson(context, Math.floor(authors * random.fraction() ** 2))
  const status = random.share(STATUSES)
  const wasPublished = status === 'published' || (status === 'archived' && random.chance(0.8))
  const published = wasPublished
    ? random.integer(created, Math.min(created + DAY_MS, timeline.until))
    : undefined
  const lastChange = published ?? created
  const updated = status === 'archived' ? random.integer(lastChange, timeline.until) : lastChange
  const paragraph = () =>
    Array.from({ length: random.integer(1, 3) }, () => random.pick(pools.sentences)).join(' ')
  const fields = {
    title: random.pick(pools.titles),
    body: Array.from({ length: random.integer(1, 3) }, paragraph).join('\n\n'),
  }
  return {
    id: createUuid(created, random),
    created_at: toIsoString(created),
    updated_at: toIsoString(updated),
    revision: 1 + Number(published !== undefined) + Number(status === 'archived'),
    user_id: author.id,
    ...fields,
    status,
    published_at: published === undefined ? null : toIsoString(published),
    search: context.getSearchText('posts', fields),
  }
}

export const postsStep = createSeedStep({
  resource: 'posts',
  label: 'posts',
  table: posts,
  stage: 2,
  indicesPerUser: POSTS_PER_USER,
  build: (context, index) => [buildPost(context, index)],
})
