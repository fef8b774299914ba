/** The roles of users. A rule permits nothing to a role that it does not name. */

/** In the order in which the documents list them. */
export const roles = ['member', 'manager', 'admin'] as const

export type Role = (typeof roles)[number]

/** Returns whether a text is the role of a user. No constraint of the table ensures it. */
export const isRole = (text: string): text is Role => roles.some((role) => role === text)

/** Returns rules with the same rule for each role, for what every user may do. */
export const toEveryRole = <const R>(rule: R): Readonly<Record<Role, R>> =>
  // `roles` has all keys of the record.
  Object.fromEntries(roles.map((role) => [role, rule])) as Record<Role, R>
