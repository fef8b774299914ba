/** Users and their profiles: people of four countries, most of them active members. */
import type { userProfiles, users } from '../../../drizzle/tables.ts'
import type { Country, Market } from './pools.ts'
import { Random } from './random.ts'
import { iso, uuidAt } from './timeline.ts'
import { hasProfile, type World } from './world.ts'

type UserRow = typeof users.$inferSelect
type ProfileRow = typeof userProfiles.$inferSelect

const COUNTRIES: Record<Country, number> = { US: 0.57, GB: 0.15, DE: 0.16, FR: 0.12 }
// No admins: who may do everything is named by the operator.
const ROLES = { member: 0.975, manager: 0.025 }
const STATUSES: Record<UserRow['status'], number> = { active: 0.93, inactive: 0.05, suspended: 0.02 }

/** What others need to know of a user. */
export interface Person {
  id: string
  name: string
  market: Market
  created: number
  /** Epoch milliseconds after which nothing comes from this user any more. */
  left: number
}

const slug = (name: string) =>
  name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z]/g, '')

function draw({ seed, counts, timeline, pools }: World, index: number) {
  const random = new Random(seed, 'user', index)
  const created = timeline.momentOf(index, counts.users, random)
  const id = uuidAt(created, random)
  const status = random.share(STATUSES)
  const changed = status !== 'active' || random.chance(0.3)
  const updated = changed ? random.integer(created, timeline.until) : created
  const market = pools.markets[random.share(COUNTRIES)]
  const [first, last] = [random.pick(market.firstNames), random.pick(market.lastNames)]
  const left = status === 'active' ? timeline.until : updated
  const person: Person = { id, name: `${first} ${last}`, market, created, left }
  return { random, person, first, last, status, changed, updated }
}

export const personOf = (world: World, index: number): Person => draw(world, index).person

/** Nobody else's: the number is that of the user, the domain that of the seed. */
const emailOf = (world: World, index: number, first: string, last: string) =>
  `${slug(first)}.${slug(last)}${index + 1}@s${world.seed}.example.com`

/** The address of the first user, by which it is seen whether a seed has been sown. */
export function firstEmail(world: World): string {
  const { first, last } = draw(world, 0)
  return emailOf(world, 0, first, last)
}

export function userOf(world: World, index: number): UserRow {
  const { random, person, first, last, status, changed, updated } = draw(world, index)
  const members = { name: person.name, email: emailOf(world, index, first, last) }
  return {
    id: person.id,
    created_at: iso(person.created),
    updated_at: iso(updated),
    revision: changed ? 2 : 1,
    ...members,
    email_is_confirmed: false,
    // Nobody can sign in as one of them until a password is set.
    password_hash: null,
    role: random.share(ROLES),
    status,
    search: world.search.users(members),
  }
}

export function profileOf(world: World, index: number): ProfileRow[] {
  if (!hasProfile(index)) return []
  const { person, first } = draw(world, index)
  const random = new Random(world.seed, 'profile', index)
  const created = random.integer(person.created, Math.min(person.created + 86_400_000, person.left))
  const { market } = person
  const members = {
    display_name: random.chance(0.9) ? first : null,
    bio: random.chance(0.7) ? random.pick(world.pools.bios) : null,
  }
  return [
    {
      id: uuidAt(created, random),
      created_at: iso(created),
      updated_at: iso(created),
      revision: 1,
      user_id: person.id,
      ...members,
      avatar_url: random.chance(0.5) ? `https://example.com/avatars/${person.id}.png` : null,
      website_url: random.chance(0.3) ? `https://${slug(person.name)}.example.com` : null,
      location: random.chance(0.8) ? random.pick(market.places).city : null,
      time_zone: random.chance(0.8) ? random.pick(market.zones) : null,
      locale: random.chance(0.9) ? market.locale : null,
      search: world.search.profiles(members),
    },
  ]
}
