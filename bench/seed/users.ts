/** The rows of users. */
import { users as resource } from '@resource-api/accounts'
import { users } from '@resource-api/database'
import { staff } from '@resource-api/database/roles'
import { type Market, markets } from './markets.ts'
import { Random } from './random.ts'
import { buildBase, countBefore, getMoment, type RowOf, type SeedContext, type SeedStep } from './step.ts'

const COUNTRIES = { US: 0.57, GB: 0.15, DE: 0.16, FR: 0.12 }
// No admins: only the operator creates those.
const ROLES = { member: 0.975, staff: 0.025 }
const USER_STATUSES = { active: 0.93, inactive: 0.05, suspended: 0.02 }

export const slug = (name: string) =>
  name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z]/g, '')

/** Returns a user, and what other rows depend on; the user creates nothing after `activeUntil`. */
export function getPerson(context: SeedContext, index: number) {
  const random = new Random(context.seed, 'user', index)
  const created = getMoment(context, index, context.users, random)
  const status = random.share(USER_STATUSES)
  const isChanged = status !== 'active' || random.chance(0.3)
  const updated = isChanged ? random.integer(created, context.until) : created
  const market: Market = markets[random.share(COUNTRIES)]
  const [firstName, lastName] = [random.pick(market.firstNames), random.pick(market.lastNames)]
  const user: RowOf<typeof users> = {
    ...buildBase(random, created, updated, isChanged ? 1 : 0),
    name: `${firstName} ${lastName}`,
    // Unique: the number is the user's, the domain is the seed's.
    email: `${slug(firstName)}.${slug(lastName)}${index + 1}@s${context.seed}.example.com`,
    email_verified_at: null,
    // Sign-in is impossible until a password is set.
    password_hash: null,
    role: (random.share(ROLES) === 'staff' && staff[0]) || 'member',
    status,
  }
  return { user, firstName, market, created, activeUntil: status === 'active' ? context.until : updated }
}

/** Random users to try for one who was active. */
const MAX_ATTEMPTS = 60

/** Draws a user who was active at the moment. */
export function drawBuyer(context: SeedContext, moment: number, random: Random) {
  const count = countBefore(context, moment, context.users)
  for (let i = 0; i < MAX_ATTEMPTS; i++) {
    const person = getPerson(context, Math.floor(count * random.fraction()))
    if (moment <= person.activeUntil) return person
  }
  return getPerson(context, 0)
}

export const userRows: SeedStep = {
  resource,
  tables: { users },
  indicesPerUser: 1,
  build: (context, index) => ({ users: [getPerson(context, index).user] }),
}
