/** Posts: a few authors write much, and most of what is written is published. */
import type { posts } from '../../../drizzle/tables.ts'
import { Random } from './random.ts'
import { DAY, iso, uuidAt } from './timeline.ts'
import { personOf } from './users.ts'
import type { World } from './world.ts'

type PostRow = typeof posts.$inferSelect

const STATUSES: Record<PostRow['status'], number> = { published: 0.75, draft: 0.15, archived: 0.1 }

export function postOf(world: World, index: number): PostRow {
  const { seed, counts, timeline, pools } = world
  const random = new Random(seed, 'post', index)
  const created = timeline.momentOf(index, counts.posts, random)
  const authors = timeline.countBefore(created, counts.users)
  const author = personOf(world, Math.floor(authors * random.fraction() ** 2))
  const status = random.share(STATUSES)
  const wasPublished = status === 'published' || (status === 'archived' && random.chance(0.8))
  const published = wasPublished
    ? random.integer(created, Math.min(created + DAY, timeline.until))
    : undefined
  const last = published ?? created
  const updated = status === 'archived' ? random.integer(last, timeline.until) : last
  const paragraph = () =>
    Array.from({ length: random.integer(1, 3) }, () => random.pick(pools.sentences)).join(' ')
  const members = {
    title: random.pick(pools.titles),
    body: Array.from({ length: random.integer(1, 3) }, paragraph).join('\n\n'),
  }
  return {
    id: uuidAt(created, random),
    created_at: iso(created),
    updated_at: iso(updated),
    revision: 1 + Number(published !== undefined) + Number(status === 'archived'),
    user_id: author.id,
    ...members,
    status,
    published_at: published === undefined ? null : iso(published),
    search: world.search.posts(members),
  }
}
