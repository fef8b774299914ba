/**
 * The roles of users, which the application declares. A rule permits nothing to a role that it does not name. The packages
 * themselves name two of them: `member`, the role of who signs up, and `admin`; and those of `staff`.
 */
import { getApplication, type Role } from './application.ts'

// The compiler knows the declared ones by `Registered`.
export const roles = getApplication().roles as readonly Role[]

/** The roles that, besides admins, read all users, and have webhook endpoints. */
export const staff = (getApplication().staff ?? []) as readonly Role[]

const missing = ['member', 'admin'].filter((role) => !getApplication().roles.includes(role))
if (missing.length > 0) throw new Error(`The application has no role ${missing.join(' and no role ')}`)

/** Returns whether a text is the role of a user. No constraint of the table ensures it. */
export const isRole = (text: string): text is Role => roles.some((role) => role === text)

/** Returns rules with the same rule for each of the roles. */
const toRules = <const R>(named: readonly Role[], rule: R): Readonly<Record<Role, R>> =>
  // `staff` lacks roles, whose rules then permit nothing.
  Object.fromEntries(named.map((role) => [role, rule])) as Record<Role, R>

/** Returns rules with the same rule for each role, for what every user may do. */
export const toEveryRole = <const R>(rule: R): Readonly<Record<Role, R>> => toRules(roles, rule)

/** Returns rules with the same rule for each role of the staff. */
export const toStaff = <const R>(rule: R): Readonly<Partial<Record<Role, R>>> => toRules(staff, rule)
