/** Demo posts: a few authors write most of them, and most are published. */
import { posts } from '../../../drizzle/tables.ts'
import { Random } from './random.ts'
import {
  buildBase,
  countBefore,
  DAY_MS,
  getMoment,
  type SeedContext,
  type SeedStep,
  toIsoString,
} from './seed-context.ts'
import { getPerson } from './users.ts'
import { prose } from './words.ts'

type PostRow = Omit<typeof posts.$inferSelect, 'search'>

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
  const isPublished = status === 'published' || (status === 'archived' && random.chance(0.8))
  const published = isPublished ? random.integer(created, Math.min(created + DAY_MS, until)) : created
  const updated = status === 'archived' ? random.integer(published, until) : published
  const drawSentence = () => `${random.pick(prose.subjects)} ${random.pick(prose.predicates)}.`
  return {
    ...buildBase(random, created, updated, Number(isPublished) + Number(status === 'archived')),
    user_id: author.user.id,
    title: `${random.pick(prose.topics)} ${random.pick(prose.themes)}`,
    body: repeat(random, '\n\n', () => repeat(random, ' ', drawSentence)),
    status,
    published_at: isPublished ? toIsoString(published) : null,
  }
}

export const postsStep: SeedStep = {
  resource: 'posts',
  tables: { posts },
  indicesPerUser: 1,
  build: (context, index) => ({ posts: [buildPost(context, index)] }),
}
