/** What a route asks of its callers: roles, scopes, credentials, and the 401 of those who lack them. */
export { authorize, default as access } from './access.ts'
export type { Callers, Passwords } from './callers.ts'
export { CHALLENGES, createChallenge, refuseCredential, refuseUnverified } from './challenge.ts'
export {
  type CredentialRule,
  checkGuard,
  type Guard,
  getCredentialRule,
  passesGuard,
  type RouteAccess,
  registerGuards,
  requireCredential,
  toGuard,
} from './guards.ts'
export { getIncludingScope, getScope, hasScope, listScopes } from './scopes.ts'
