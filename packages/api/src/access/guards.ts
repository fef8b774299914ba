/** Guards: what a route requires of every caller, whatever the row. */
import type { Role } from '@resource-api/database/roles'
import type { FastifyInstance } from 'fastify'
import type { Actor } from '../actor/actor.ts'
import { apiError } from '../errors/errors.ts'
import { type Access, type RoleRules, type Verb, verbs } from '../rules/rules.ts'
import { getScope, hasScope, type Scoped } from './scopes.ts'

/** The roles that may call a route, and the scope that an API key needs for it. */
interface RoleAccess {
  roles: readonly Role[]
  scope: string
}

/**
 * The access of a route: 'public' for everyone; 'authenticated' for every credential, where the handler checks more; that
 * of a verb or action of a collection; or roles and a scope.
 */
export type RouteAccess = 'public' | 'authenticated' | `${string}:${string}` | RoleAccess

/** The scope that an operation requires of the credential; null if it requires a Bearer token. */
export type CredentialRule = string | null

/** Returns what a verb on a collection requires of the credential. */
export const getCredentialRule = ({ name, bearerOnly }: Omit<Scoped, 'verbs'>, verb: Verb): CredentialRule =>
  bearerOnly ? null : getScope(name, verb)

const hasCredential = (actor: Actor, scope: CredentialRule) =>
  scope === null ? actor.credential !== 'api_key' : hasScope(actor, scope)

/** @throws ApiError 403 */
export function requireCredential(actor: Actor, scope: CredentialRule) {
  if (hasCredential(actor, scope)) return
  const message =
    scope === null
      ? 'This operation requires a Bearer token; API keys are not accepted'
      : `The credential lacks the scope ${scope}`
  throw apiError('FORBIDDEN', { message })
}

/** What a route requires of its caller: the rule of each role, and the credential. */
export interface Guard {
  rules: RoleRules
  credential: CredentialRule
}

const hasRole = ({ role }: Actor, rules: RoleRules) => (rules[role] ?? false) !== false

/** Returns whether the role and the credential permit it, on some row at least. */
export const passesGuard = (actor: Actor, { rules, credential }: Guard): boolean =>
  hasRole(actor, rules) && hasCredential(actor, credential)

/** @throws ApiError 403 for what the role or the credential never permits */
export function checkGuard(actor: Actor, { rules, credential }: Guard): void {
  if (!hasRole(actor, rules)) {
    throw apiError('FORBIDDEN', { message: `The role ${actor.role} is not allowed to do this` })
  }
  requireCredential(actor, credential)
}

/** Returns what an access requires; undefined if it is public, or names no guard. */
export const toGuard = (guards: ReadonlyMap<string, Guard>, access: RouteAccess): Guard | undefined =>
  typeof access === 'string'
    ? guards.get(access)
    : { rules: Object.fromEntries(access.roles.map((role) => [role, true])), credential: access.scope }

/** Registers the guard of each verb and of each action of a collection, before its routes. */
export function registerGuards(
  app: FastifyInstance,
  collection: Omit<Scoped, 'verbs'> & {
    access: Access
    operations?: Readonly<Record<string, { access: RoleRules }>>
  },
) {
  const { name, access, operations = {} } = collection
  for (const verb of verbs) {
    const credential = getCredentialRule(collection, verb)
    app.guards.set(`${name}:${verb}`, { rules: access[verb] ?? {}, credential })
  }
  const credential = getCredentialRule(collection, 'update')
  for (const [operation, { access: rules }] of Object.entries(operations)) {
    app.guards.set(`${name}:${operation}`, { rules, credential })
  }
}
