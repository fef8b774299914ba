/** Credentials to `request.actor`: who calls, or 401, or 429 for who was refused too often. */
import { channel } from 'node:diagnostics_channel'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { type MaybePromise, mapMaybe, settleHook } from '../../lib/maybe-promise.ts'
import { type Actor, ANYBODY } from '../access/index.ts'
import { apiError } from '../errors/index.ts'
import { configOf } from '../http/route-config.ts'
import { createKeyReader, type KeyOptions } from './api-keys.ts'
import { createBearerReader } from './bearer.ts'
import type { Provider } from './tokens/identity-provider.ts'

export interface CredentialOptions extends KeyOptions {
  /** Whose tokens are good here beside our own. */
  provider: Provider | undefined
}

/** What is known of credentials, once for all versions: what one forgets, none remembers. */
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
  const key = keyOf(headers)
  if (key !== undefined) return app.credentials.keys.peek(key)
  const token = headers.authorization === undefined ? undefined : bearerOf(headers.authorization)
  return token === undefined ? undefined : app.credentials.tokens.peek(token)
}

export const credentials = fp(
  async (app: FastifyInstance, options: CredentialOptions) => {
    app.decorate('credentials', createCredentials(app, options))
  },
  { name: 'credentials', dependencies: ['database', 'tokens'] },
)

/** The writes that may change what a credential is good for. */
const CHANGES = /^(users|sessions|api-keys):(replace|update|remove)$/

const refused = channel('resource-api:auth:refused')

/** @param kind for who counts: of which credential there was none, or a bad one */
function challenge(kind: 'none' | 'token' | 'key', message: string, error?: string) {
  if (refused.hasSubscribers) refused.publish({ kind })
  return apiError('UNAUTHORIZED', {
    message,
    headers: { 'WWW-Authenticate': `Bearer realm="resource-api"${error ? `, error="${error}"` : ''}` },
  })
}

const missing = () => challenge('none', 'Authentication required')
const badToken = () => challenge('token', 'Invalid or expired token', 'invalid_token')
const badKey = () => challenge('key', 'Invalid or expired API key')

/** The token of a Bearer scheme (RFC 6750, section 2.1), undefined for another scheme. */
const bearerOf = (authorization: string): string | undefined =>
  /^bearer +([^ ]+) *$/i.exec(authorization)?.[1]

/** An empty one is none: what a form sends where nothing was filled in. */
const keyOf = ({ 'x-api-key': key }: IncomingHttpHeaders): string | undefined =>
  typeof key === 'string' && key !== '' ? key : undefined

async function auth(app: FastifyInstance) {
  const { limits } = app
  const { keys, tokens } = app.credentials

  /** Counts a credential that does not hold, and refuses it. */
  const refuse = async (request: FastifyRequest, refusal: () => Error): Promise<never> => {
    await limits.failure(request)
    throw refusal()
  }

  const refuseStranger = async (request: FastifyRequest): Promise<never> => {
    await limits.stranger(request)
    throw missing()
  }

  const authenticate = (request: FastifyRequest): MaybePromise<Actor> => {
    const { authorization } = request.headers
    const key = keyOf(request.headers)
    if (authorization !== undefined && key !== undefined) {
      throw apiError('INVALID_REQUEST', { message: 'Send either Authorization or X-API-Key, not both' })
    }
    if (key !== undefined) return mapMaybe(keys.read(key), (actor) => actor ?? refuse(request, badKey))
    if (authorization === undefined || !/^bearer\b/i.test(authorization)) return refuseStranger(request)
    const token = bearerOf(authorization)
    if (token === undefined) return refuse(request, badToken)
    return mapMaybe(tokens.read(token), (actor) => actor ?? refuse(request, badToken))
  }

  const showsNone = ({ headers }: FastifyRequest): boolean =>
    headers.authorization === undefined && keyOf(headers) === undefined

  app.decorateRequest('actor', null)
  app.addHook('onRequest', (request, _reply, done) => {
    const { access } = configOf(request)
    if (access === undefined || access === 'public') return done()
    const caller = showsNone(request) && app.isOpen(access) ? ANYBODY : authenticate(request)
    const known = mapMaybe(caller, (actor) => {
      request.actor = actor
    })
    settleHook(known, done)
  })

  // What changed here is in force here at once; on the other replicas when they look again.
  app.addHook('onSend', (request, reply, payload, done) => {
    const { access } = configOf(request)
    if (request.method !== 'GET' && access !== undefined && CHANGES.test(access) && reply.statusCode < 300) {
      keys.forget()
      tokens.forget()
    }
    done(null, payload)
  })
}

export default fp(auth, { name: 'auth', dependencies: ['errors', 'credentials', 'access', 'limits'] })
