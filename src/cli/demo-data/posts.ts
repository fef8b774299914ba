/** Demo posts: a few authors write most of them, and most are published. */
import { posts } from '../../../drizzle/tables.ts'
import { Random } from './random.ts'
import {
  countBefore,
  DAY_MS,
  getMoment,
  type SeedContext,
  type SeedStep,
  toIsoString,
} from './seed-context.ts'
import { getPerson } from './users.ts'
import { prose } from './words.ts'

type PostRow = typeof posts.$inferSelect

const STATUSES: Record<PostRow['status'], number> = { published: 0.75, draft: 0.15, archived: 0.1 }

/** Returns one to three texts, joined. */
const repeat = (random: Random, separator: string, draw: () => string) =>
  Array.from({ length: random.integer(1, 3) }, draw).join(separator)

function buildPost(context: SeedContext, index: number): PostRow {
  const { until } = context
  const random = new Random(context.seed, 'post', index)
  const created = getMoment(context, index, context.users, random)
  const authors = countBefore(context, created, context.users)
  const author = getPerson(context, Math.floor(authors * random.fraction() ** 2))
  const status = random.share(STATUSES)
  const wasPublished = status === 'published' || (status === 'archived' && random.chance(0.8))
  const published = wasPublished ? random.integer(created, Math.min(created + DAY_MS, until)) : undefined
  const lastChange = published ?? created
  const updated = status === 'archived' ? random.integer(lastChange, until) : lastChange
  const drawSentence = () => `${random.pick(prose.subjects)} ${random.pick(prose.predicates)}.`
  const fields = {
    title: `${random.pick(prose.topics)} ${random.pick(prose.themes)}`,
    body: repeat(random, '\n\n', () => repeat(random, ' ', drawSentence)),
  }
  return {
    id: random.uuid(created),
    created_at: toIsoString(created),
    updated_at: toIsoString(updated),
    revision: 1 + Number(published !== undefined) + Number(status === 'archived'),
    user_id: author.user.id,
    ...fields,
    status,
    published_at: published === undefined ? null : toIsoString(published),
    search: context.getSearchText('posts', fields),
  }
}

export const postsStep: SeedStep = {
  resource: 'posts',
  tables: { posts },
  stage: 2,
  indicesPerUser: 1,
  build: (context, index) => ({ posts: [buildPost(context, index)] }),
}
