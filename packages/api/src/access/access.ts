/** Authorization: registers the access of routes, and rejects what a role or a credential never permits. */
import type { FastifyContextConfig, FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Actor } from '../actor/actor.ts'
import { apiError } from '../errors/errors.ts'
import { CHALLENGES, refuseCredential } from './challenge.ts'
import { checkGuard, type Guard, type RouteAccess, toGuard } from './guards.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: RouteAccess
    /** Whether requests without credentials are accepted, except for exports. */
    isOpen?: boolean
  }
  interface FastifyInstance {
    /** Guards by the access of their routes, such as `users:list`. */
    guards: Map<string, Guard>
    /** The scopes that API keys can have. */
    scopes: ReadonlySet<string>
    /** In scopes in which the access of routes is checked. */
    hasAuthorization: true
    /** Returns whether the operation of a collection accepts requests without credentials. */
    isOpen(access: `${string}:${string}`): boolean
    /** Creates the error for a row that the caller may not access. */
    refusal: ReturnType<typeof createRefusal>
  }
}

/**
 * Returns the function that creates the error for a row without access: 403, without credentials 401, or to hide that the row
 * exists the same 404 as for a row that does not exist.
 */
const createRefusal =
  (hideForbidden: boolean) =>
  (createNotFound: () => Error, actor?: Actor): Error => {
    if (hideForbidden) return createNotFound()
    if (actor?.credential === 'none') return refuseCredential('none', CHALLENGES.none)
    return apiError('FORBIDDEN', { message: 'Access to this resource is not allowed' })
  }

const isUnguarded = (access: RouteAccess | undefined) => access === 'public' || access === 'authenticated'

interface AccessOptions {
  ALLOW_SIGNUP: boolean
  HIDE_FORBIDDEN: boolean
  /** The scopes that API keys can have. */
  scopes: readonly string[]
}

async function accessPlugin(app: FastifyInstance, { ALLOW_SIGNUP, HIDE_FORBIDDEN, scopes }: AccessOptions) {
  const guards = new Map<string, Guard>()
  const knownScopes = new Set(scopes)
  const routes: { name: string; config: FastifyContextConfig | undefined }[] = []

  app.decorate('guards', guards)
  app.decorate('scopes', knownScopes)
  app.decorate('isOpen', (access) => {
    const { anonymous = false } = guards.get(access)?.rules ?? {}
    return anonymous !== false && (ALLOW_SIGNUP || !access.endsWith(':create'))
  })
  app.decorate('refusal', createRefusal(HIDE_FORBIDDEN))
  app.addHook('onRoute', ({ config, method, url }) => {
    // A later hook may complete the access.
    routes.push({ name: `${[method].flat().join('|')} ${url}`, config })
  })
  app.addHook('onReady', async () => {
    const isGuarded = (routeAccess: RouteAccess | undefined) =>
      typeof routeAccess === 'object'
        ? routeAccess.roles.length > 0 && knownScopes.has(routeAccess.scope)
        : isUnguarded(routeAccess) || guards.has(routeAccess ?? '')
    const unguarded = routes.filter(({ config }) => !isGuarded(config?.access))
    if (unguarded.length === 0) return
    const names = unguarded.map(({ name }) => name).join(', ')
    throw new Error(
      `Routes without config.access, or with an operation, roles or a scope that do not exist: ${names}`,
    )
  })
}

/** Rejects with 403, after authentication and before any query, what the role or the credential never permits. */
export const authorize = fp(
  async (app: FastifyInstance) => {
    app.decorate('hasAuthorization', true)
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
  { name: 'authorize', dependencies: ['access', 'authenticate'] },
)

export default fp(accessPlugin, { name: 'access', dependencies: ['errors'] })
