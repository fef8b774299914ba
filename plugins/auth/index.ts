/** Authenticates each request: sets `request.actor`, or replies with 401, or with 429 after too many failures. */
import { channel } from 'node:diagnostics_channel'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { type MaybePromise, mapMaybe, settleHook } from '../../lib/maybe-promise.ts'
import { type Actor, ANONYMOUS_ACTOR } from '../access/index.ts'
import { apiError } from '../errors/index.ts'
import { getRouteConfig } from '../http/route-config.ts'
import { createKeyReader, type KeyOptions } from './api-keys.ts'
import { createBearerReader } from './bearer.ts'
import type { Provider } from './tokens/identity-provider.ts'

interface CredentialOptions extends KeyOptions {
  /** An identity provider whose tokens are accepted as well. */
  provider: Provider | undefined
}

/** Creates the readers, which all API versions share, and with them their caches. */
const createCredentials = (app: FastifyInstance, options: CredentialOptions) => ({
  keys: createKeyReader(app.database, options),
  tokens: createBearerReader({
    database: app.database,
    tokens: app.accessTokens,
    provider: options.provider,
    log: app.log,
  }),
})

declare module 'fastify' {
  interface FastifyInstance {
    credentials: ReturnType<typeof createCredentials>
  }
}

/** Returns the actor of a request whose credential is cached, without a query. */
export function peekActor(app: FastifyInstance, headers: IncomingHttpHeaders): Actor | undefined {
  const key = getApiKey(headers)
  if (key !== undefined) return app.credentials.keys.peek(key)
  const token = headers.authorization === undefined ? undefined : getBearerToken(headers.authorization)
  return token === undefined ? undefined : app.credentials.tokens.peek(token)
}

export const credentials = fp(
  async (app: FastifyInstance, options: CredentialOptions) => {
    app.decorate('credentials', createCredentials(app, options))
  },
  { name: 'credentials', dependencies: ['database', 'tokens'] },
)

/** Writes that may change the permissions of a credential. */
const CREDENTIAL_CHANGES = /^(users|sessions|api-keys):(replace|update|remove)$/

const refusedChannel = channel('resource-api:auth:refused')

/**
 * Creates a 401.
 * @param kind of the rejected credential, for metrics
 * @param error code of RFC 6750, section 3.1
 */
function createChallenge(kind: 'none' | 'token' | 'key', message: string, error?: string) {
  if (refusedChannel.hasSubscribers) refusedChannel.publish({ kind })
  return apiError('UNAUTHORIZED', {
    message,
    headers: { 'WWW-Authenticate': `Bearer realm="resource-api"${error ? `, error="${error}"` : ''}` },
  })
}

const createMissing = () => createChallenge('none', 'Authentication required')
const createInvalidToken = () => createChallenge('token', 'Invalid or expired token', 'invalid_token')
const createInvalidKey = () => createChallenge('key', 'Invalid or expired API key')

/** Returns the token of the Bearer scheme (RFC 6750, section 2.1); undefined for another scheme. */
const getBearerToken = (authorization: string): string | undefined =>
  /^bearer +([^ ]+) *$/i.exec(authorization)?.[1]

/** Returns the API key. An empty header counts as none, since forms send it for a field left empty. */
const getApiKey = ({ 'x-api-key': key }: IncomingHttpHeaders): string | undefined =>
  typeof key === 'string' && key !== '' ? key : undefined

async function auth(app: FastifyInstance) {
  const { limits } = app
  const { keys, tokens } = app.credentials

  /** Counts a request with an invalid credential and rejects it. */
  const refuse = async (request: FastifyRequest, createError: () => Error): Promise<never> => {
    await limits.countFailure(request)
    throw createError()
  }

  const refuseAnonymous = async (request: FastifyRequest): Promise<never> => {
    await limits.countAnonymous(request)
    throw createMissing()
  }

  const authenticate = (request: FastifyRequest): MaybePromise<Actor> => {
    const { authorization } = request.headers
    const key = getApiKey(request.headers)
    if (authorization !== undefined && key !== undefined) {
      throw apiError('INVALID_REQUEST', { message: 'Send either Authorization or X-API-Key, not both' })
    }
    if (key !== undefined)
      return mapMaybe(keys.read(key), (actor) => actor ?? refuse(request, createInvalidKey))
    if (authorization === undefined || !/^bearer\b/i.test(authorization)) return refuseAnonymous(request)
    const token = getBearerToken(authorization)
    if (token === undefined) return refuse(request, createInvalidToken)
    return mapMaybe(tokens.read(token), (actor) => actor ?? refuse(request, createInvalidToken))
  }

  const hasCredential = ({ headers }: FastifyRequest): boolean =>
    headers.authorization !== undefined || getApiKey(headers) !== undefined

  app.decorateRequest('actor', null)
  app.addHook('onRequest', (request, _reply, done) => {
    const { access } = getRouteConfig(request)
    if (access === undefined || access === 'public') return done()
    const isAnonymous = !hasCredential(request) && app.isOpen(access)
    const authenticated = mapMaybe(isAnonymous ? ANONYMOUS_ACTOR : authenticate(request), (actor) => {
      request.actor = actor
    })
    settleHook(authenticated, done)
  })

  // A change takes effect immediately in this process, and on other replicas when their caches expire.
  app.addHook('onSend', (request, reply, payload, done) => {
    const { access } = getRouteConfig(request)
    if (
      request.method !== 'GET' &&
      access !== undefined &&
      CREDENTIAL_CHANGES.test(access) &&
      reply.statusCode < 300
    ) {
      keys.clearCache()
      tokens.clearCache()
    }
    done(null, payload)
  })
}

export default fp(auth, { name: 'auth', dependencies: ['errors', 'credentials', 'access', 'limits'] })
