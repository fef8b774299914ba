/** Authorization: roles, scopes, and the rules that decide which rows of a collection a caller may list or change. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Role } from '../../schemas/roles.ts'
import { apiError } from '../errors/index.ts'

/** `anonymous` is the role of a request without credentials, on the few routes whose rules include it. */
export type CallerRole = Role | 'anonymous'

export const verbs = ['list', 'read', 'create', 'replace', 'update', 'remove'] as const
export type Verb = (typeof verbs)[number]

/** The authenticated caller of a request. */
export interface Actor {
  userId: string
  role: CallerRole
  /** The scopes of the credential, such as `users:read`; `*` includes all. */
  scopes: ReadonlySet<string>
  credential: 'token' | 'api_key' | 'bootstrap_key' | 'none'
  /** The API key of the request, with its own rate limit. */
  key?: { id: string; rateLimit: number | null }
  /** The session of an access token that this service issued. */
  sessionId?: string
}

/** The id of a caller who is no user. No row has it: it is the nil UUID of RFC 9562. */
export const NO_USER_ID = '00000000-0000-0000-0000-000000000000'

/** The actor of a request without credentials. */
export const ANONYMOUS_ACTOR: Actor = {
  userId: NO_USER_ID,
  role: 'anonymous',
  scopes: new Set(['*']),
  credential: 'none',
}

/** Returns a text that differs between callers who may see a resource differently. */
export const formatActor = ({ userId, role, credential, sessionId = '', key }: Actor): string =>
  [userId, role, credential, sessionId, key?.id ?? ''].join()

/** Placeholder in a condition for the caller's own ID. */
export const CALLER: unique symbol = Symbol('the caller')

/**
 * The values that fields of a row must have, all of them. A name with dots is a path: relations, and a column of the last
 * one. It holds if there are related rows with the value; paths that begin with the same relations mean the same rows.
 */
export type Condition = Readonly<Record<string, string | number | boolean | typeof CALLER>>

/** Every row, no row, or the rows that meet at least one of the conditions. */
export type Rule<C = Condition> = boolean | readonly C[]

/** The rule of each role; a missing rule permits nothing. */
export type RoleRules<C = Condition> = Readonly<Partial<Record<CallerRole, Rule<C>>>>

/** The rules of each verb; without rules, it is permitted to no role. */
export type Access<C = Condition> = Readonly<Partial<Record<Verb, RoleRules<C>>>>

/** Returns the rule for a caller. */
export const getRule = (access: Access, verb: Verb, actor: Actor): Rule => access[verb]?.[actor.role] ?? false

/** Returns the part of a rule that remains when the value of one field is known, for a simpler WHERE clause. */
export function narrowRule(rule: Rule, field: string, value: unknown, actor: Actor): Rule {
  if (typeof rule === 'boolean') return rule
  const remaining = rule.flatMap((condition) => {
    const { [field]: required, ...others } = condition
    if (required === undefined) return [condition]
    return (required === CALLER ? actor.userId : required) === value ? [others] : []
  })
  if (remaining.some((condition) => Object.keys(condition).length === 0)) return true
  return remaining.length > 0 && remaining
}

/** Returns a rule as text, which distinguishes prepared statements. */
export const formatRule = (rule: Rule): string =>
  typeof rule === 'boolean'
    ? String(rule)
    : rule
        .map((each) => Object.entries(each).map(([field, value]) => `${field}=${String(value)}`))
        .join(' or ')

/** Returns whether the name in a condition is a path over relations. */
export const isPath = (name: string): boolean => name.includes('.')

/** Returns whether a rule depends on other rows than the one that it is about. */
export const hasPaths = (rule: Rule): boolean =>
  typeof rule !== 'boolean' && rule.some((condition) => Object.keys(condition).some(isPath))

/** Returns the part of a rule that a row does not decide: conditions with paths alone. */
export function narrowByRow(rule: Rule, row: Readonly<Record<string, unknown>>, actor: Actor): Rule {
  if (typeof rule === 'boolean' || !hasPaths(rule)) return allows(rule, row, actor)
  const open: Condition[] = []
  for (const condition of rule) {
    const entries = Object.entries(condition)
    const paths = entries.filter(([name]) => isPath(name))
    const columns = Object.fromEntries(entries.filter(([name]) => !isPath(name)))
    const needsCaller = paths.some(([, value]) => value === CALLER)
    if ((needsCaller && actor.userId === NO_USER_ID) || !allows([columns], row, actor)) continue
    if (paths.length === 0) return true
    open.push(Object.fromEntries(paths))
  }
  return open.length > 0 && open
}

/** Returns whether a rule without paths permits access to a row. */
export const allows = (rule: Rule, row: Readonly<Record<string, unknown>>, actor: Actor): boolean =>
  typeof rule === 'boolean'
    ? rule
    : rule.some((condition) =>
        Object.entries(condition).every(([field, value]) =>
          value === CALLER
            ? actor.userId !== NO_USER_ID && row[field] === actor.userId
            : row[field] === value,
        ),
      )

/** Returns the names in the conditions of a rule. */
const getRuleNames = (rule: Rule): string[] =>
  typeof rule === 'boolean' ? [] : [...new Set(rule.flatMap((condition) => Object.keys(condition)))]

/** Returns the fields that the conditions of a rule compare. */
export const getRuleFields = (rule: Rule): string[] => getRuleNames(rule).filter((name) => !isPath(name))

/** Returns the paths in the conditions of a rule. */
export const getRulePaths = (rule: Rule): string[] => getRuleNames(rule).filter(isPath)

/** Returns the scope that a verb on a collection requires. */
export const getScope = (collection: string, verb: Verb) =>
  `${collection}:${verb === 'list' || verb === 'read' ? 'read' : 'write'}`

/** A collection with its operations; without `verbs`, all of them. */
interface Scoped {
  name: string
  verbs?: readonly Verb[] | undefined
  /** Whether API keys are rejected, except that of the bootstrap admin; then no scope is required. */
  bearerOnly?: boolean | undefined
}

/** Returns the scopes that the operations of a collection require. */
export const listCollectionScopes = ({ name, verbs: offered = verbs, bearerOnly }: Scoped): string[] =>
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

/** The roles that may call a route, and the scope that an API key needs for it. */
interface RoleAccess {
  roles: readonly Role[]
  scope: string
}

/**
 * The access of a route: 'public' for everyone; 'authenticated' for every credential, where the handler checks more; that
 * of a verb or own operation of a collection; or roles and a scope.
 */
export type RouteAccess = 'public' | 'authenticated' | `${string}:${string}` | RoleAccess

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: RouteAccess
  }
  interface FastifyRequest {
    /** The caller; null on public routes. */
    actor: Actor | null
  }
  interface FastifyInstance {
    /** Guards by the access of their routes, such as `users:list`. */
    guards: Map<string, Guard>
    /** The scopes that API keys can have. */
    scopes: ReadonlySet<string>
    /** Returns whether the routes with this access accept requests without credentials. */
    isOpen(access: RouteAccess): boolean
    /** Creates the error for a row that the caller may not access. */
    refusal: ReturnType<typeof createRefusal>
  }
}

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
interface Guard {
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

/**
 * Returns the function that creates the error for a row without access: 403, or to hide that the row exists the same 404 as
 * for a row that does not exist.
 */
export const createRefusal =
  (hideForbidden: boolean) =>
  (createNotFound: () => Error): Error =>
    hideForbidden
      ? createNotFound()
      : apiError('FORBIDDEN', { message: 'Access to this resource is not allowed' })

const isUnguarded = (access: RouteAccess | undefined) => access === 'public' || access === 'authenticated'

/** Returns what an access requires; undefined if it is public, or names no guard. */
export const toGuard = (guards: ReadonlyMap<string, Guard>, access: RouteAccess): Guard | undefined =>
  typeof access === 'string'
    ? guards.get(access)
    : { rules: Object.fromEntries(access.roles.map((role) => [role, true])), credential: access.scope }

interface AccessOptions {
  /** The scopes that API keys can have. */
  scopes: readonly string[]
  hideForbidden: boolean
  /** Whether users may sign up: enables the rules for `anonymous`. */
  allowSignup: boolean
}

async function accessPlugin(app: FastifyInstance, { allowSignup, hideForbidden, scopes }: AccessOptions) {
  const guards = new Map<string, Guard>()
  const knownScopes = new Set(scopes)
  const routes: { name: string; access: RouteAccess | undefined }[] = []

  app.decorate('guards', guards)
  app.decorate('scopes', knownScopes)
  app.decorate(
    'isOpen',
    (access) => allowSignup && (toGuard(guards, access)?.rules.anonymous ?? false) !== false,
  )
  app.decorate('refusal', createRefusal(hideForbidden))
  app.addHook('onRoute', ({ config, method, url }) => {
    routes.push({ name: `${[method].flat().join('|')} ${url}`, access: config?.access })
  })
  app.addHook('onReady', async () => {
    const isGuarded = (routeAccess: RouteAccess | undefined) =>
      typeof routeAccess === 'object'
        ? routeAccess.roles.length > 0 && knownScopes.has(routeAccess.scope)
        : isUnguarded(routeAccess) || guards.has(routeAccess ?? '')
    const unguarded = routes.filter(({ access }) => !isGuarded(access))
    if (unguarded.length === 0) return
    const names = unguarded.map(({ name }) => name).join(', ')
    throw new Error(
      `Routes without config.access, or with an operation, roles or a scope that do not exist: ${names}`,
    )
  })
}

/** Registers the guard of each verb and of each own operation of a collection, before its routes. */
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

/** Rejects with 403, after authentication and before any query, what the role or the credential never permits. */
export const authorize = fp(
  async (app: FastifyInstance) => {
    app.addHook('onRequest', (request, _reply, done) => {
      const routeAccess = request.routeOptions.config.access
      if (routeAccess === undefined || isUnguarded(routeAccess)) return done()
      const { actor } = request
      const guard = toGuard(app.guards, routeAccess)
      if (!actor || !guard) throw apiError('UNAUTHORIZED')
      checkGuard(actor, guard)
      done()
    })
  },
  { name: 'authorize', dependencies: ['access', 'auth'] },
)

export default fp(accessPlugin, { name: 'access', dependencies: ['errors'] })
