/** Who may do what: the word beside each route, the rules behind it, and what they mean for one row and for a list. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'
import { configOf } from '../http/route-config.ts'

export type Role = 'member' | 'manager' | 'admin'

/** `anonymous` is the role of who shows no credentials, on the few routes that a rule opens to it. */
type CallerRole = Role | 'anonymous'

/** Whether a value is the role of a user. */
export const isRole = (value: unknown): value is Role =>
  value === 'admin' || value === 'manager' || value === 'member'

export const verbs = ['list', 'read', 'create', 'replace', 'update', 'remove'] as const
export type Verb = (typeof verbs)[number]

/** Who calls. */
export interface Actor {
  userId: string
  role: CallerRole
  /** What the credential is limited to: `products:read`, `orders:write`, ..., `*`. */
  scopes: ReadonlySet<string>
  credential: 'token' | 'api_key' | 'bootstrap_key' | 'none'
  /** The key that was shown, with its own cap on requests. */
  key?: { id: string; rateLimit: number | null }
  /** Of a token that was signed in for here. */
  sessionId?: string
}

/** Who shows no credentials. */
export const ANYBODY: Actor = { userId: '', role: 'anonymous', scopes: new Set(['*']), credential: 'none' }

/** Stands in a condition for the caller's own id. */
export const CALLER: unique symbol = Symbol('the caller')

/** What a row must be: each of the members named has that value. */
export type Condition = Readonly<Record<string, string | typeof CALLER>>

/** Every row, none, or those that meet any one of some conditions. */
export type Rule = boolean | readonly Condition[]

/** For each verb and each role a rule; none means no. */
export type Access = Readonly<Partial<Record<Verb, Partial<Record<CallerRole, Rule>>>>>

/** The rule that binds a caller. */
export const ruleFor = (access: Access, verb: Verb, actor: Actor): Rule => access[verb]?.[actor.role] ?? false

/** What is left of a rule where the value of one member is known: less for a database to choose between. */
export function ruleGiven(rule: Rule, member: string, value: string, actor: Actor): Rule {
  if (typeof rule === 'boolean') return rule
  const left = rule.flatMap((condition) => {
    const { [member]: wanted, ...others } = condition
    if (wanted === undefined) return [condition]
    return (wanted === CALLER ? actor.userId : wanted) === value ? [others] : []
  })
  if (left.some((condition) => Object.keys(condition).length === 0)) return true
  return left.length > 0 && left
}

/** What a rule says, as a text. */
export const ruleText = (rule: Rule): string =>
  typeof rule === 'boolean'
    ? String(rule)
    : rule
        .map((condition) => Object.entries(condition).map(([member, value]) => `${member}=${String(value)}`))
        .join(' or ')

/** Whether a rule lets one row through. */
export const allows = (rule: Rule, row: Readonly<Record<string, unknown>>, actor: Actor): boolean =>
  typeof rule === 'boolean'
    ? rule
    : rule.some((condition) =>
        Object.entries(condition).every(
          ([member, value]) => row[member] === (value === CALLER ? actor.userId : value),
        ),
      )

/** The members that a rule looks at. */
export const membersOf = (rule: Rule): string[] =>
  typeof rule === 'boolean' ? [] : [...new Set(rule.flatMap((condition) => Object.keys(condition)))]

const READ = ':read'
const WRITE = ':write'

/** The scope that a verb on a collection needs. */
export const scopeOf = (collection: string, verb: Verb) =>
  `${collection}${verb === 'list' || verb === 'read' ? READ : WRITE}`

/** Returns the other scope that includes this one: `products:write` includes `products:read`. */
export const includingScopeOf = (scope: string): string | undefined =>
  scope.endsWith(READ) ? scope.slice(0, -READ.length) + WRITE : undefined

function hasScope({ scopes }: Actor, scope: string): boolean {
  if (scopes.has('*') || scopes.has(scope)) return true
  const including = includingScopeOf(scope)
  return including !== undefined && scopes.has(including)
}

/** @throws ApiError 403, naming the scope */
export function requireScope(actor: Actor, scope: string) {
  if (!hasScope(actor, scope)) {
    throw apiError('FORBIDDEN', { message: `The credential lacks the scope ${scope}` })
  }
}

/** The word beside a route: 'public', or a collection's verb. */
export type AccessWord = 'public' | `${string}:${Verb}`

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: AccessWord
  }
  interface FastifyRequest {
    /** Who calls; on routes whose access word is 'public', nobody. */
    actor: Actor | null
  }
}

/** What stands behind an access word. */
export interface Guard {
  access: Access
  /** Whether API keys are refused, the bootstrap admin's apart. */
  bearerOnly: boolean
  /** The scope's first part, undefined where no scope is asked for. */
  collection: string | undefined
}

/** The verb of an access word. */
const verbOf = (word: AccessWord): Verb | undefined => verbs.find((known) => word.endsWith(`:${known}`))

/** A row that exists and is refused: 403, or 404 where its existence is a secret. */
const createRefusal = (hideForbidden: boolean) => () =>
  hideForbidden
    ? apiError('RESOURCE_NOT_FOUND')
    : apiError('FORBIDDEN', { message: 'Not allowed on this resource' })

/** What OpenAPI is told: which credentials an operation takes, `{}` being none at all, and what an API key needs. */
const toldOf = ({ bearerOnly, collection }: Guard, verb: Verb, open: boolean) => ({
  security: [...(bearerOnly ? [] : [{ apiKey: [] }]), { bearer: [] }, ...(open ? [{}] : [])],
  // OpenAPI 3.1 would have it beside the scheme's name, where tools still look for OAuth's scopes alone.
  ...(collection === undefined ? {} : { 'x-required-scopes': [scopeOf(collection, verb)] }),
})

interface AccessOptions {
  hideForbidden: boolean
  /** Whether strangers may sign up: then a rule for `anonymous` counts. */
  allowSignup: boolean
}

async function accessPlugin(app: FastifyInstance, options: AccessOptions) {
  const guards = new Map<string, Guard>()
  const isOpen = (word: AccessWord): boolean => {
    const guard = guards.get(word)
    const verb = verbOf(word)
    if (!options.allowSignup || guard === undefined || verb === undefined) return false
    return ruleFor(guard.access, verb, ANYBODY) !== false
  }
  const routes: { url: string; method: string | string[]; config?: { access?: AccessWord } }[] = []

  app.decorate('guards', guards)
  app.decorate('isOpen', isOpen)
  app.decorate('refusal', createRefusal(options.hideForbidden))
  app.addHook('onRoute', (route) => {
    routes.push(route)
    const word = route.config?.access
    const guard = word && guards.get(word)
    const verb = word && verbOf(word)
    if (guard && verb) route.schema = { ...route.schema, ...toldOf(guard, verb, isOpen(word)) }
  })
  app.addHook('onReady', async () => {
    const bare = routes.filter(({ config }) => {
      const word = config?.access
      return word === undefined || (word !== 'public' && !guards.has(word))
    })
    if (bare.length > 0) {
      const names = bare.map(({ method, url }) => `${[method].flat().join('|')} ${url}`)
      throw new Error(`These routes declare no access word, or one that nobody defined: ${names.join(', ')}`)
    }
  })
}

/** The words of a collection, one for each verb. */
export function defineWords(app: FastifyInstance, collection: string, entry: Guard) {
  for (const verb of verbs) app.guards.set(`${collection}:${verb}`, entry)
}

/** In a version's scope, after authentication: what the role or the scope never has is 403 before any look-up. */
export const guard = fp(
  async (app: FastifyInstance) => {
    /** What stands behind a word, looked up once. */
    const known = new Map<AccessWord, (Guard & { verb: Verb; scope: string | undefined }) | undefined>()
    const behind = (word: AccessWord) => {
      if (known.has(word)) return known.get(word)
      const [entry, verb] = [app.guards.get(word), verbOf(word)]
      const scope = entry?.collection !== undefined && verb ? scopeOf(entry.collection, verb) : undefined
      const found = entry && verb && { ...entry, verb, scope }
      known.set(word, found)
      return found
    }
    app.addHook('onRequest', (request, _reply, done) => {
      const word = configOf(request).access
      if (word === undefined || word === 'public') return done()
      const { actor } = request
      const found = behind(word)
      if (!actor || !found) throw apiError('UNAUTHORIZED')
      if (ruleFor(found.access, found.verb, actor) === false) {
        throw apiError('FORBIDDEN', { message: `The role ${actor.role} may not do this` })
      }
      if (found.bearerOnly && actor.credential === 'api_key') {
        throw apiError('FORBIDDEN', { message: 'This needs a Bearer token; an API key will not do' })
      }
      if (found.scope !== undefined) requireScope(actor, found.scope)
      done()
    })
  },
  { name: 'guard', dependencies: ['access', 'auth'] },
)

declare module 'fastify' {
  interface FastifyInstance {
    guards: Map<string, Guard>
    /** Whether a word's routes are open to who shows no credentials. */
    isOpen(word: AccessWord): boolean
    refusal: ReturnType<typeof createRefusal>
  }
}

export default fp(accessPlugin, { name: 'access', dependencies: ['errors'] })
