/** The users who may have webhook endpoints, and the events that they may read. */
import { buildReadableCondition, getRoleRules, type RecordedResource } from '../events/readable.ts'

/** The roles whose users may have endpoints. */
const OWNER_ROLES = ['admin', 'manager'] as const

type OwnerRole = (typeof OWNER_ROLES)[number]

export const isOwnerRole = (role: string): role is OwnerRole => OWNER_ROLES.some((each) => each === role)

/**
 * Builds the condition on rows of `events` that the owner of an endpoint may read.
 * @param resources those whose changes are events
 * @param owner the alias of the owner's row of `users`
 */
export const buildOwnerCondition = (resources: readonly RecordedResource[], owner: string): string => {
  const byRole = OWNER_ROLES.map((role) => {
    const isReadable = buildReadableCondition(resources, getRoleRules(resources, role), () => `${owner}.id`)
    return `(${owner}.role = '${role}' and ${isReadable})`
  })
  return `(${byRole.join(' or ')})`
}
