/** Credentials to `request.actor`: who calls, or 401. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { type Actor, ruleFor, verbOf } from './access.ts'
import { createBearerReader } from './auth/bearer.ts'
import { createKeyReader, type KeyOptions } from './auth/keys.ts'
import { apiError } from './errors.ts'
import type { Provider } from './tokens/provider.ts'

export interface CredentialOptions extends KeyOptions {
  /** Whose tokens are good here beside our own. */
  provider: Provider | undefined
}

export interface AuthOptions {
  /** Whether strangers may sign up: then a rule for `anonymous` counts. */
  allowSignup: boolean
}

/** What is known of credentials, once for all versions: what one forgets, none remembers. */
const createCredentials = (app: FastifyInstance, options: CredentialOptions) => ({
  keys: createKeyReader(app.database, options),
  tokens: createBearerReader(app.database, app.accessTokens, options.provider),
})

declare module 'fastify' {
  interface FastifyInstance {
    credentials: ReturnType<typeof createCredentials>
  }
}

export const credentials = fp(
  async (app: FastifyInstance, options: CredentialOptions) => {
    app.decorate('credentials', createCredentials(app, options))
  },
  { name: 'credentials', dependencies: ['database', 'tokens'] },
)

const ANYBODY: Actor = { userId: '', role: 'anonymous', scopes: new Set(['*']), credential: 'none' }

/** The writes that may change what a credential is good for. */
const CHANGES = /^(users|sessions|api-keys):(replace|update|remove)$/

const challenge = (message: string, error?: string) =>
  apiError('UNAUTHORIZED', {
    message,
    headers: { 'WWW-Authenticate': `Bearer realm="resource-api"${error ? `, error="${error}"` : ''}` },
  })

const missing = () => challenge('Authentication required')
const badToken = () => challenge('Invalid or expired token', 'invalid_token')
const badKey = () => challenge('Invalid or expired API key')

/** The token of a Bearer scheme (RFC 6750, section 2.1), undefined for another scheme. */
const bearerOf = (authorization: string): string | undefined =>
  /^bearer +([^ ]+) *$/i.exec(authorization)?.[1]

/** What a request shows; an empty key is none. */
const shown = ({ headers }: FastifyRequest) => {
  const { authorization, 'x-api-key': key } = headers
  return { authorization, key: typeof key === 'string' && key !== '' ? key : undefined }
}

async function auth(app: FastifyInstance, options: AuthOptions) {
  const { keys, tokens } = app.credentials

  const authenticate = async (request: FastifyRequest): Promise<Actor> => {
    const { authorization, key } = shown(request)
    if (authorization !== undefined && key !== undefined) {
      throw apiError('INVALID_REQUEST', { message: 'Send either Authorization or X-API-Key, not both' })
    }
    if (key !== undefined) {
      const actor = await keys.read(key)
      if (!actor) throw badKey()
      return actor
    }
    if (authorization === undefined || !/^bearer\b/i.test(authorization)) throw missing()
    const token = bearerOf(authorization)
    const actor = token === undefined ? undefined : await tokens.read(token)
    if (!actor) throw badToken()
    return actor
  }

  /** Whether a route is open to who shows no credentials. */
  const isOpen = (request: FastifyRequest): boolean => {
    const { access } = request.routeOptions.config
    const { authorization, key } = shown(request)
    if (!options.allowSignup || access === undefined) return false
    if (authorization !== undefined || key !== undefined) return false
    const guard = app.guards.get(access)
    const verb = verbOf(access)
    return guard !== undefined && verb !== undefined && ruleFor(guard.access, verb, ANYBODY) !== false
  }

  app.decorateRequest('actor', null)
  app.addHook('onRequest', async (request) => {
    const { access } = request.routeOptions.config
    if (access === undefined || access === 'public') return
    request.actor = isOpen(request) ? ANYBODY : await authenticate(request)
  })

  // What changed here is in force here at once; on the other replicas when they look again.
  app.addHook('onSend', async (request, reply) => {
    const { access } = request.routeOptions.config
    if (access !== undefined && CHANGES.test(access) && reply.statusCode < 300) {
      keys.forget()
      tokens.forget()
    }
  })
}

export default fp(auth, { name: 'auth', dependencies: ['errors', 'credentials', 'access'] })
