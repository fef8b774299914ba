/** Demo users and their profiles: people of four countries, most of them active members. */
import { userProfiles, users } from '../../../drizzle/tables.ts'
import type { Country, Market } from './pools.ts'
import { Random } from './random.ts'
import type { SeedContext } from './seed-context.ts'
import { createSeedStep } from './seed-step.ts'
import { createUuid, DAY_MS, toIsoString } from './timeline.ts'

type UserRow = typeof users.$inferSelect
type ProfileRow = typeof userProfiles.$inferSelect

const COUNTRIES: Record<Country, number> = { US: 0.57, GB: 0.15, DE: 0.16, FR: 0.12 }
/** The share of users who have a profile. */
const PROFILE_SHARE = 0.7
// No admins: only the operator creates those.
const ROLES = { member: 0.975, manager: 0.025 }
const STATUSES: Record<UserRow['status'], number> = { active: 0.93, inactive: 0.05, suspended: 0.02 }

/** The properties of a user that other rows depend on. */
export interface Person {
  id: string
  name: string
  market: Market
  created: number
  /** Epoch milliseconds after which this user creates nothing. */
  activeUntil: number
}

const slug = (name: string) =>
  name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z]/g, '')

function drawUser({ seed, counts, timeline, pools }: SeedContext, index: number) {
  const random = new Random(seed, 'user', index)
  const created = timeline.getMoment(index, counts.users, random)
  const id = createUuid(created, random)
  const status = random.share(STATUSES)
  const changed = status !== 'active' || random.chance(0.3)
  const updated = changed ? random.integer(created, timeline.until) : created
  const market = pools.markets[random.share(COUNTRIES)]
  const [first, last] = [random.pick(market.firstNames), random.pick(market.lastNames)]
  const activeUntil = status === 'active' ? timeline.until : updated
  const person: Person = { id, name: `${first} ${last}`, market, created, activeUntil }
  return { random, person, first, last, status, changed, updated }
}

export const getPerson = (context: SeedContext, index: number): Person => drawUser(context, index).person

/** Unique: the number is the user's, the domain is the seed's. */
const formatEmail = (context: SeedContext, index: number, first: string, last: string) =>
  `${slug(first)}.${slug(last)}${index + 1}@s${context.seed}.example.com`

/** Returns the address of the first user, whose existence shows that the seed has been used. */
export function getFirstEmail(context: SeedContext): string {
  const { first, last } = drawUser(context, 0)
  return formatEmail(context, 0, first, last)
}

function buildUser(context: SeedContext, index: number): UserRow {
  const { random, person, first, last, status, changed, updated } = drawUser(context, index)
  const fields = { name: person.name, email: formatEmail(context, index, first, last) }
  return {
    id: person.id,
    created_at: toIsoString(person.created),
    updated_at: toIsoString(updated),
    revision: changed ? 2 : 1,
    ...fields,
    email_is_confirmed: false,
    // Sign-in is impossible until a password is set.
    password_hash: null,
    role: random.share(ROLES),
    status,
    search: context.getSearchText('users', fields),
  }
}

/** Returns whether the user with this index has a profile. */
const hasProfile = (index: number): boolean =>
  Math.ceil((index + 1) * PROFILE_SHARE) > Math.ceil(index * PROFILE_SHARE)

function buildProfiles(context: SeedContext, index: number): ProfileRow[] {
  if (!hasProfile(index)) return []
  const { person, first } = drawUser(context, index)
  const random = new Random(context.seed, 'profile', index)
  const created = random.integer(person.created, Math.min(person.created + DAY_MS, person.activeUntil))
  const { market } = person
  const fields = {
    display_name: random.chance(0.9) ? first : null,
    bio: random.chance(0.7) ? random.pick(context.pools.bios) : null,
  }
  return [
    {
      id: createUuid(created, random),
      created_at: toIsoString(created),
      updated_at: toIsoString(created),
      revision: 1,
      user_id: person.id,
      ...fields,
      avatar_url: random.chance(0.5) ? `https://example.com/avatars/${person.id}.png` : null,
      website_url: random.chance(0.3) ? `https://${slug(person.name)}.example.com` : null,
      location: random.chance(0.8) ? random.pick(market.places).city : null,
      time_zone: random.chance(0.8) ? random.pick(market.zones) : null,
      locale: random.chance(0.9) ? market.locale : null,
      search: context.getSearchText('user-profiles', fields),
    },
  ]
}

export const usersStep = createSeedStep({
  resource: 'users',
  label: 'users',
  table: users,
  stage: 0,
  indicesPerUser: 1,
  build: (context, index) => [buildUser(context, index)],
})

export const profilesStep = createSeedStep({
  resource: 'user-profiles',
  label: 'profiles',
  table: userProfiles,
  stage: 2,
  indicesPerUser: 1,
  countRows: (userCount) => Math.ceil(userCount * PROFILE_SHARE),
  build: buildProfiles,
})
