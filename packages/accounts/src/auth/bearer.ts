/** Finds the caller that a bearer token was issued to: an access token of this service or of an identity provider. */
import type { Actor } from '@resource-api/api/actor'
import { type Database, prepare, users } from '@resource-api/database'
import type { MaybePromise } from '@resource-api/database/concurrency'
import { isRole } from '@resource-api/database/roles'
import { sessions } from '@resource-api/database/tables'
import { and, eq, gt, sql } from 'drizzle-orm'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { decodeJwt } from 'jose/jwt/decode'
import { LRUCache } from 'lru-cache'
import { createLookUpCache, prepareLastUsed } from './cache.ts'
import { createIdentityFinder } from './identities.ts'
import { type AccessTokens, type Claims, hasExpired } from './tokens/access-token.ts'
import type { Identity, Provider } from './tokens/identity-provider.ts'

const ALL_SCOPES: ReadonlySet<string> = new Set(['*'])
/** Verifying a signature takes 83 us, so verified tokens are cached until they expire. */
const MAX_CACHED_TOKENS = 10_000
/** Longer than the tokens of common providers; a header may have 16 KiB. */
const MAX_TOKEN_LENGTH = 8_192

// Reads the user's current role: that of the token may be outdated.
const findSession = prepare((db) =>
  db
    .select({ user_id: sessions.user_id, role: users.role })
    .from(sessions)
    .innerJoin(users, eq(users.id, sessions.user_id))
    .where(
      and(
        eq(sessions.id, sql.placeholder('id')),
        gt(sessions.expires_at, sql`now()`),
        eq(users.status, 'active'),
      ),
    ),
)

const updateLastUsed = prepareLastUsed(sessions)

interface BearerOptions {
  database: Database
  tokens: AccessTokens
  provider: Provider | undefined
  log: FastifyBaseLogger
}

/** Returns a reader for tokens of an identity provider. */
function createProviderReader(database: Database, provider: Provider, log: FastifyBaseLogger) {
  const identities = new LRUCache<string, Identity>({ max: MAX_CACHED_TOKENS })
  const findUser = createIdentityFinder(database, provider.issuer, log)

  // The key has the email address too, since that selects the user of a subject without a link. Neither contains "\n".
  const actors = createLookUpCache(async (key): Promise<Actor | undefined> => {
    const [subject = '', email] = key.split('\n')
    const user = await findUser({ subject, email })
    if (!user || !isRole(user.role)) return undefined
    return { userId: user.id, role: user.role, scopes: ALL_SCOPES, credential: 'token' }
  })

  const isIssuer = (token: string): boolean => {
    try {
      return decodeJwt(token).iss === provider.issuer
    } catch {
      return false
    }
  }

  return {
    async read(token: string): Promise<Actor | undefined> {
      if (!isIssuer(token)) return undefined
      const identity = identities.get(token) ?? (await provider.verify(token))
      if (!identity || hasExpired(identity.expiresAt)) return undefined
      identities.set(token, identity)
      const { subject, email } = identity
      return actors.get(email === undefined ? subject : `${subject}\n${email}`)
    },
    clearCache: actors.clear,
  }
}

export function createBearerReader({ database, tokens, provider, log }: BearerOptions) {
  const verified = new LRUCache<string, Claims>({ max: MAX_CACHED_TOKENS })
  const providerReader = provider && createProviderReader(database, provider, log)

  const actors = createLookUpCache(async (id): Promise<Actor | undefined> => {
    const [session] = await findSession(database, { id })
    if (!session || !isRole(session.role)) return undefined
    await updateLastUsed(database, { id })
    const { user_id: userId, role } = session
    return { userId, role, scopes: ALL_SCOPES, credential: 'token', sessionId: id }
  })

  const verify = async (request: FastifyRequest, token: string): Promise<Actor | undefined> => {
    const claims = await tokens.verify(request)
    if (!claims) return providerReader?.read(token)
    verified.set(token, claims)
    return actors.get(claims.sessionId)
  }

  return {
    /** Returns the actor of the token of a request; undefined if the token is invalid or has expired. */
    read(request: FastifyRequest, token: string): MaybePromise<Actor | undefined> {
      if (token.length > MAX_TOKEN_LENGTH) return undefined
      const claims = verified.get(token)
      if (!claims) return verify(request, token)
      return hasExpired(claims.expiresAt) ? undefined : actors.get(claims.sessionId)
    },

    /** Returns the actor of a session, also if its access token has expired; undefined if the session has ended. */
    readSession: (id: string): MaybePromise<Actor | undefined> => actors.get(id),

    /** Returns the actor of a token that is cached, without a query or a signature check. */
    peek(token: string): Actor | undefined {
      const claims = verified.peek(token)
      return claims && !hasExpired(claims.expiresAt) ? actors.peek(claims.sessionId) : undefined
    },

    clearCache() {
      actors.clear()
      providerReader?.clearCache()
    },
  }
}
