/** Authenticates each request: sets `request.actor`, or replies with 401, or with 429 after too many failures. */
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyRequest, onSendHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { MaybePromise } from '../../lib/maybe-promise.ts'
import { type Actor, ANONYMOUS_ACTOR } from '../access/actor.ts'
import type { RouteAccess } from '../access/guards.ts'
import { apiError } from '../errors/index.ts'
import { createKeyReader, type KeyOptions, type LimitLookUp } from './api-keys.ts'
import { createBearerReader } from './bearer.ts'
import { CHALLENGES, refuseCredential } from './challenge.ts'
import { getBearerToken } from './tokens/access-token.ts'
import type { Provider } from './tokens/identity-provider.ts'

interface CredentialOptions extends KeyOptions {
  /** An identity provider whose tokens are accepted as well. */
  provider: Provider | undefined
}

/** Creates the readers, which all API versions share, and with them their caches. */
function createCredentials({ database, accessTokens, log }: FastifyInstance, options: CredentialOptions) {
  const keys = createKeyReader(database, options)
  const tokens = createBearerReader({ database, tokens: accessTokens, provider: options.provider, log })
  return {
    keys,
    tokens,
    clearCaches() {
      keys.clearCache()
      tokens.clearCache()
    },
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    credentials: ReturnType<typeof createCredentials>
  }
  interface FastifyRequest {
    /** Set by code that may write users, sessions or API keys, on a route of something else. */
    mayChangeCredentials: boolean
  }
}

/** Returns the actor of a request whose credential is cached, without a query. */
export function peekActor(app: FastifyInstance, headers: IncomingHttpHeaders): Actor | undefined {
  const { 'x-api-key': key } = headers
  if (key) return app.credentials.keys.peek(String(key))
  const token = getBearerToken(headers)
  return token === undefined ? undefined : app.credentials.tokens.peek(token)
}

/**
 * Returns the actor of the credential of a request; undefined if it is missing or invalid. An empty X-API-Key counts as
 * none, since forms send it for a field left empty.
 * @param limitLookUp limits look-ups of keys that may be forged; default: there is no limit, for a key that was accepted
 * @throws ApiError 400 for two credentials, 429
 */
export function readActor(
  request: FastifyRequest,
  limitLookUp: LimitLookUp = (lookUp) => lookUp(),
): MaybePromise<Actor | undefined> {
  const { headers, server } = request
  const { 'x-api-key': key } = headers
  if (headers.authorization !== undefined && key) {
    throw apiError('INVALID_REQUEST', { message: 'Send either Authorization or X-API-Key, not both' })
  }
  if (key) return server.credentials.keys.read(String(key), limitLookUp)
  const token = getBearerToken(headers)
  return token === undefined ? undefined : server.credentials.tokens.read(request, token)
}

/** Returns the actor that a request was authenticated as, with its present rights; undefined if they have ended. */
export function readActorAgain(
  request: FastifyRequest,
  { sessionId }: Actor,
): MaybePromise<Actor | undefined> {
  // An access token may expire during a long response.
  return sessionId === undefined
    ? readActor(request)
    : request.server.credentials.tokens.readSession(sessionId)
}

export const credentials = fp(
  async (app: FastifyInstance, options: CredentialOptions) => {
    app.decorate('credentials', createCredentials(app, options))
  },
  { name: 'credentials', dependencies: ['database', 'tokens'] },
)

/** The resources whose rows decide what a credential permits. */
const CREDENTIAL_RESOURCES = ['users', 'sessions', 'api-keys']

export const isCredentialResource = ({ name }: { name: string }) => CREDENTIAL_RESOURCES.includes(name)

/** Returns whether a route may change the permissions of a credential: all writes of these resources but creations. */
export function changesCredentials(access: RouteAccess | undefined): boolean {
  if (typeof access !== 'string') return false
  const [name = '', operation = ''] = access.split(':')
  return isCredentialResource({ name }) && !['list', 'read', 'create'].includes(operation)
}

function getCredentialKind(headers: IncomingHttpHeaders): keyof typeof CHALLENGES {
  if (headers['x-api-key']) return 'key'
  return /^bearer\b/i.test(headers.authorization ?? '') ? 'token' : 'none'
}

async function auth(app: FastifyInstance) {
  const { limits } = app

  /** Rejects a request with 401, or with 429 if its address has sent too many such requests. */
  const refuse = async (request: FastifyRequest): Promise<never> => {
    const kind = getCredentialKind(request.headers)
    await (kind === 'none' ? limits.countAnonymous(request) : limits.countFailure(request))
    throw refuseCredential(kind, CHALLENGES[kind])
  }

  app.decorateRequest('actor', null)
  app.addHook('onRequest', async (request) => {
    const { access, isOpen = false } = request.routeOptions.config
    if (access === undefined || access === 'public') return
    const isAnonymous = request.headers.authorization === undefined && !request.headers['x-api-key']
    request.actor =
      isAnonymous && isOpen && !app.addressing.getAddress(request.raw).stream
        ? ANONYMOUS_ACTOR
        : ((await readActor(request, (lookUp) => limits.limitLookUp(request, lookUp))) ??
          (await refuse(request)))
  })

  // A change takes effect immediately in this process, and on other replicas when their caches expire.
  const clearCaches: onSendHookHandler = (request, reply, payload, done) => {
    const isChange = changesCredentials(request.routeOptions.config.access) && reply.statusCode < 300
    if (isChange || request.mayChangeCredentials) app.credentials.clearCaches()
    done(null, payload)
  }
  app.decorateRequest('mayChangeCredentials', false)
  app.addHook('onRoute', (route) => {
    if ([route.method].flat().every((method) => method === 'GET' || method === 'HEAD')) return
    route.onSend = [route.onSend ?? [], clearCaches].flat()
  })
}

export default fp(auth, { name: 'auth', dependencies: ['errors', 'credentials', 'access', 'limits'] })
