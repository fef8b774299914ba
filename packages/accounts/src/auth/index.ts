/** Authenticates each request: sets `request.actor`, or replies with 401, or with 429 after too many failures. */
import type { IncomingHttpHeaders } from 'node:http'
import { type Callers, CHALLENGES, type RouteAccess, refuseCredential } from '@resource-api/api/access'
import { type Actor, ANONYMOUS_ACTOR } from '@resource-api/api/actor'
import { apiError } from '@resource-api/api/errors'
import type { MaybePromise } from '@resource-api/database/concurrency'
import type { Config } from '@resource-api/http/config'
import { requestsDryRun } from '@resource-api/resources/internal'
import type { FastifyInstance, FastifyRequest, onSendHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { createKeyReader, type LimitLookUp } from './api-keys.ts'
import { createBearerReader } from './bearer.ts'
import { ensureRights } from './ensure-rights.ts'
import { lockCaller } from './lock-caller.ts'
import { getBearerToken } from './tokens/access-token.ts'
import type { Provider } from './tokens/identity-provider.ts'

export interface CredentialConfig
  extends Pick<Config, 'ADMIN_API_KEY' | 'ADMIN_EMAIL' | 'AUTH_AUDIENCE' | 'AUTH_ISSUER' | 'AUTH_JWKS_URL'> {
  /** Milliseconds since the epoch. */
  now?: () => number
}

/** The client of the configured identity provider; undefined if none is configured, and then nothing is loaded. */
async function createIdentityProvider(config: CredentialConfig): Promise<Provider | undefined> {
  const { AUTH_AUDIENCE: audience, AUTH_ISSUER: issuer, AUTH_JWKS_URL: jwksUrl, now = Date.now } = config
  if (jwksUrl === undefined || issuer === undefined || audience === undefined) return undefined
  const { createProvider } = await import('./tokens/identity-provider.ts')
  return createProvider({ jwksUrl, issuer, audience, now })
}

/** Creates the readers, which all API versions share, and with them their caches. */
async function createCredentials({ database, accessTokens, log }: FastifyInstance, config: CredentialConfig) {
  const keys = createKeyReader(database, config)
  const provider = await createIdentityProvider(config)
  const tokens = createBearerReader({ database, tokens: accessTokens, provider, log })
  return {
    keys,
    tokens,
    /** Returns the actor of a request whose credential is cached, without a query. */
    peek(headers: IncomingHttpHeaders): Actor | undefined {
      const { 'x-api-key': key } = headers
      if (key) return keys.peek(String(key))
      const token = getBearerToken(headers)
      return token === undefined ? undefined : tokens.peek(token)
    },
    clearCaches() {
      keys.clearCache()
      tokens.clearCache()
    },
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    credentials: Awaited<ReturnType<typeof createCredentials>>
  }
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

/** See `Callers`. */
function readActorAgain(request: FastifyRequest, { sessionId }: Actor): MaybePromise<Actor | undefined> {
  // An access token may expire during a long response.
  return sessionId === undefined
    ? readActor(request)
    : request.server.credentials.tokens.readSession(sessionId)
}

export const credentials = fp(
  async (app: FastifyInstance, config: CredentialConfig) => {
    app.decorate('credentials', await createCredentials(app, config))
    const callers: Callers = {
      peek: app.credentials.peek,
      getPasswords: (owner, lifetime) => app.passwords.for(owner, lifetime),
      isKnownAddress: (signIn) => app.signInAddresses.isKnown(signIn),
      lock: lockCaller,
      readAgain: readActorAgain,
      ensureRights,
    }
    app.decorate('callers', callers)
  },
  { name: 'credentials', dependencies: ['database', 'tokens'] },
)

/** Returns whether a route may change the permissions of a credential: all writes of these resources but creations. */
function changesCredentials(access: RouteAccess | undefined, resources: ReadonlySet<string>): boolean {
  if (typeof access !== 'string') return false
  const [name = '', operation = ''] = access.split(':')
  return resources.has(name) && !['list', 'read', 'create'].includes(operation)
}

function getCredentialKind(headers: IncomingHttpHeaders): keyof typeof CHALLENGES {
  if (headers['x-api-key']) return 'key'
  return /^bearer\b/i.test(headers.authorization ?? '') ? 'token' : 'none'
}

async function authenticate(app: FastifyInstance) {
  const { limits, resources } = app
  const credentialResources = new Set(
    resources.flatMap(({ isCredential, name }) => (isCredential ? [name] : [])),
  )

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
    const isChange =
      changesCredentials(request.routeOptions.config.access, credentialResources) && reply.statusCode < 300
    if ((isChange || request.mayChangeCredentials) && !requestsDryRun(request)) app.credentials.clearCaches()
    done(null, payload)
  }
  app.decorateRequest('mayChangeCredentials', false)
  app.addHook('onRoute', (route) => {
    if ([route.method].flat().every((method) => method === 'GET' || method === 'HEAD')) return
    route.onSend = [route.onSend ?? [], clearCaches].flat()
  })
}

export default fp(authenticate, {
  name: 'authenticate',
  dependencies: ['errors', 'credentials', 'access', 'limits'],
})
