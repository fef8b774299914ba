/** The rows of posts. */
import { posts } from '../../drizzle/tables/posts.ts'
import { posts as resource } from '../../plugins/posts.ts'
import { Random } from './random.ts'
import {
  buildBase,
  countBefore,
  DAY_MS,
  getMoment,
  type RowOf,
  type SeedContext,
  type SeedStep,
  toIsoString,
} from './step.ts'
import { getPerson } from './users.ts'

const TOPICS = [
  'Databases',
  'Queues',
  'Caches',
  'Indexes',
  'Webhooks',
  'Backups',
  'Deployments',
  'Migrations',
]
const THEMES = [
  'for beginners',
  'without fear',
  'in ten minutes',
  'at night',
  'in small teams',
  'on a budget',
]
const SUBJECTS = ['The server', 'A good friend', 'Our team', 'The old printer', 'Every second customer']
const PREDICATES = ['waits for an answer', 'never sleeps', 'asks for more coffee', 'compresses the evening']

const POST_STATUSES = { published: 0.75, draft: 0.15, archived: 0.1 }

/** Returns one to three texts, joined. */
const repeat = (random: Random, separator: string, draw: () => string) =>
  Array.from({ length: random.integer(1, 3) }, draw).join(separator)

function buildPost(context: SeedContext, index: number): RowOf<typeof posts> {
  const random = new Random(context.seed, 'post', index)
  const created = getMoment(context, index, context.users, random)
  const authors = countBefore(context, created, context.users)
  // A few authors write most of the posts.
  const author = getPerson(context, Math.floor(authors * random.fraction() ** 2))
  const status = random.share(POST_STATUSES)
  const isArchived = status === 'archived'
  const isPublished = status === 'published' || (isArchived && random.chance(0.8))
  const published = isPublished ? random.integer(created, Math.min(created + DAY_MS, context.until)) : created
  const updated = isArchived ? random.integer(published, context.until) : published
  const drawSentence = () => `${random.pick(SUBJECTS)} ${random.pick(PREDICATES)}.`
  return {
    ...buildBase(random, created, updated, Number(isPublished) + Number(isArchived)),
    user_id: author.user.id,
    title: `${random.pick(TOPICS)} ${random.pick(THEMES)}`,
    body: repeat(random, '\n\n', () => repeat(random, ' ', drawSentence)),
    status,
    published_at: isPublished ? toIsoString(published) : null,
  }
}

export const postRows: SeedStep = {
  resource,
  tables: { posts },
  indicesPerUser: 1,
  build: (context, index) => ({ posts: [buildPost(context, index)] }),
}
