/** Demo users and their profiles: people of four countries, most of them active members. */
import { userProfiles, users } from '../../../drizzle/tables.ts'
import { Random } from './random.ts'
import { buildBase, DAY_MS, getMoment, type SeedContext, type SeedStep } from './seed-context.ts'
import { type Market, markets, prose } from './words.ts'

type UserRow = Omit<typeof users.$inferSelect, 'search'>
type ProfileRow = Omit<typeof userProfiles.$inferSelect, 'search'>

const COUNTRIES: Record<keyof typeof markets, number> = { US: 0.57, GB: 0.15, DE: 0.16, FR: 0.12 }
/** The share of users who have a profile. */
const PROFILE_SHARE = 0.7
// No admins: only the operator creates those.
const ROLES = { member: 0.975, manager: 0.025 }
const STATUSES: Record<UserRow['status'], number> = { active: 0.93, inactive: 0.05, suspended: 0.02 }

/** A user, with what other rows depend on. */
interface Person {
  user: UserRow
  firstName: string
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

export function getPerson(context: SeedContext, index: number): Person {
  const random = new Random(context.seed, 'user', index)
  const created = getMoment(context, index, context.users, random)
  const status = random.share(STATUSES)
  const isChanged = status !== 'active' || random.chance(0.3)
  const updated = isChanged ? random.integer(created, context.until) : created
  const market = markets[random.share(COUNTRIES)]
  const [firstName, lastName] = [random.pick(market.firstNames), random.pick(market.lastNames)]
  const user: UserRow = {
    ...buildBase(random, created, updated, isChanged ? 1 : 0),
    name: `${firstName} ${lastName}`,
    // Unique: the number is the user's, the domain is the seed's.
    email: `${slug(firstName)}.${slug(lastName)}${index + 1}@s${context.seed}.example.com`,
    email_is_confirmed: false,
    // Sign-in is impossible until a password is set.
    password_hash: null,
    role: random.share(ROLES),
    status,
  }
  return { user, firstName, market, created, activeUntil: status === 'active' ? context.until : updated }
}

/** Returns whether the user with this index has a profile. */
const hasProfile = (index: number): boolean =>
  Math.ceil((index + 1) * PROFILE_SHARE) > Math.ceil(index * PROFILE_SHARE)

function buildProfile(context: SeedContext, index: number): ProfileRow {
  const { user, firstName, market, created: joined, activeUntil } = getPerson(context, index)
  const random = new Random(context.seed, 'profile', index)
  const bio = `${random.pick(prose.occupations)}, ${random.pick(prose.traits)}`
  return {
    ...buildBase(random, random.integer(joined, Math.min(joined + DAY_MS, activeUntil))),
    user_id: user.id,
    display_name: random.chance(0.9) ? firstName : null,
    bio: random.chance(0.7) ? bio : null,
    avatar_url: random.chance(0.5) ? `https://example.com/avatars/${user.id}.png` : null,
    website_url: random.chance(0.3) ? `https://${slug(user.name)}.example.com` : null,
    location: random.chance(0.8) ? random.pick(market.cities).city : null,
    time_zone: random.chance(0.8) ? random.pick<string>(market.zones) : null,
    locale: random.chance(0.9) ? market.locale : null,
  }
}

export const usersStep: SeedStep = {
  resource: 'users',
  tables: { users },
  indicesPerUser: 1,
  build: (context, index) => ({ users: [getPerson(context, index).user] }),
}

export const profilesStep: SeedStep = {
  resource: 'user-profiles',
  tables: { profiles: userProfiles },
  indicesPerUser: 1,
  build: (context, index) => ({ profiles: hasProfile(index) ? [buildProfile(context, index)] : [] }),
}
