/** The rows of user profiles. */
import { userProfiles } from '@resource-api/database'
import { userProfiles as resource } from '../../plugins/user-profiles.ts'
import { Random } from './random.ts'
import { buildBase, DAY_MS, type RowOf, type SeedContext, type SeedStep } from './step.ts'
import { getPerson, slug } from './users.ts'

const OCCUPATIONS = [
  'developer',
  'gardener',
  'teacher',
  'photographer',
  'cook',
  'engineer',
  'musician',
  'librarian',
]
const TRAITS = ['curious', 'patient', 'mostly offline', 'always on time', 'fond of maps', 'learning to sail']

function buildProfile(context: SeedContext, index: number): RowOf<typeof userProfiles> {
  const { user, firstName, market, created: joined, activeUntil } = getPerson(context, index)
  const random = new Random(context.seed, 'profile', index)
  const bio = `${random.pick(OCCUPATIONS)}, ${random.pick(TRAITS)}`
  return {
    ...buildBase(random, random.integer(joined, Math.min(joined + DAY_MS, activeUntil))),
    user_id: user.id,
    display_name: random.chance(0.9) ? firstName : null,
    bio: random.chance(0.7) ? bio : null,
    avatar_url: random.chance(0.5) ? `https://example.com/avatars/${user.id}.png` : null,
    website_url: random.chance(0.3) ? `https://${slug(user.name)}.example.com` : null,
    location: random.chance(0.8) ? random.pick(market.cities).city : null,
    time_zone: random.chance(0.8) ? market.zone : null,
    locale: random.chance(0.9) ? market.locale : null,
  }
}

/** The share of users who have a profile. */
const PROFILE_SHARE = 0.7
const hasProfile = (index: number): boolean =>
  Math.ceil((index + 1) * PROFILE_SHARE) > Math.ceil(index * PROFILE_SHARE)

export const profileRows: SeedStep = {
  resource,
  tables: { profiles: userProfiles },
  indicesPerUser: 1,
  build: (context, index) => ({ profiles: hasProfile(index) ? [buildProfile(context, index)] : [] }),
}
