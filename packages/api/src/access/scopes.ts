/** The scopes of credentials: which an operation requires, and which a credential has. */
import type { Actor } from '../actor/actor.ts'
import { type Verb, verbs } from '../rules/rules.ts'

/** Returns the scope that a verb on a collection requires. */
export const getScope = (collection: string, verb: Verb) =>
  `${collection}:${verb === 'list' || verb === 'read' ? 'read' : 'write'}`

/** A collection with its operations; without `verbs`, all of them. */
export interface Scoped {
  name: string
  verbs?: readonly Verb[] | undefined
  /** Whether API keys are rejected, except that of the bootstrap admin; then no scope is required. */
  bearerOnly?: boolean | undefined
}

/** Returns the scopes that the operations of a collection require. */
const listCollectionScopes = ({ name, verbs: offered = verbs, bearerOnly }: Scoped): string[] =>
  bearerOnly ? [] : [...new Set(offered.map((verb) => getScope(name, verb)))]

/**
 * Returns all scopes that an API key may have: `*`, and those that an operation requires.
 * @param others those of routes that belong to no collection
 */
export const listScopes = (collections: readonly Scoped[], others: readonly string[] = []): string[] => [
  ...new Set(['*', ...collections.flatMap(listCollectionScopes), ...others]),
]

/** Returns the other scope that includes this one: `users:write` includes `users:read`. */
export const getIncludingScope = (scope: string): string | undefined =>
  scope.endsWith(':read') ? scope.replace(/:read$/, ':write') : undefined

/** Returns whether a credential has a scope, or one that includes it. */
export function hasScope({ scopes }: Actor, scope: string): boolean {
  if (scopes.has('*') || scopes.has(scope)) return true
  const including = getIncludingScope(scope)
  return including !== undefined && scopes.has(including)
}
