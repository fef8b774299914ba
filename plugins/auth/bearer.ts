/** Finds the caller that a bearer token was issued to: an access token of this service or of an identity provider. */
import type { FastifyBaseLogger } from 'fastify'
import { decodeJwt } from 'jose/jwt/decode'
import { LRUCache } from 'lru-cache'
import type { Database } from '../../drizzle/client/index.ts'
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { MaybePromise } from '../../lib/maybe-promise.ts'
import { type Actor, isRole } from '../access/index.ts'
import { createLookUpCache } from './cache.ts'
import { createIdentityFinder } from './identities.ts'
import type { AccessTokens, Claims } from './tokens/access-token.ts'
import type { Identity, Provider } from './tokens/identity-provider.ts'

const ALL_SCOPES: ReadonlySet<string> = new Set(['*'])
/** Verifying a signature takes 83 us, so verified tokens are cached until they expire. */
const MAX_CACHED_TOKENS = 10_000
/** Longer than the tokens of common providers; a header may have 16 KiB. */
const MAX_TOKEN_LENGTH = 8_192

// Reads the user's current role: that of the token may be outdated.
const SELECT_SESSION = `select s.user_id, u.role from sessions s join users u on u.id = s.user_id
  where s.id = $1 and s.expires_at > now() and u.status = 'active'`

// Does not increment the revision: the use of a session does not modify the resource.
const UPDATE_LAST_USED = `update sessions set last_used_at = now()
  where id = $1 and last_used_at < now() - interval '1 minute'`

/** Returns the issuer that an unverified token names. */
const readIssuer = (token: string): unknown => {
  try {
    return decodeJwt(token).iss
  } catch {
    return undefined
  }
}

/** @param expiresAt in seconds since the epoch */
const hasExpired = ({ expiresAt }: { expiresAt: number }): boolean => Date.now() >= expiresAt * 1000

interface BearerOptions {
  database: Database
  tokens: AccessTokens
  provider: Provider | undefined
  log: Pick<FastifyBaseLogger, 'warn'>
}

/** Returns a reader for tokens of an identity provider. */
function createProviderReader(database: Database, provider: Provider, log: BearerOptions['log']) {
  const identities = new LRUCache<string, Identity>({ max: MAX_CACHED_TOKENS })
  const findUser = createIdentityFinder(database, provider.issuer, log)

  // The key has the e-mail address too, since that selects the user of a subject without a link. Neither contains "\n".
  const actors = createLookUpCache(async (key): Promise<Actor | undefined> => {
    const [subject = '', email] = key.split('\n')
    const user = await findUser({ subject, email })
    if (!user || !isRole(user.role)) return undefined
    return { userId: user.id, role: user.role, scopes: ALL_SCOPES, credential: 'token' }
  })

  return {
    async read(token: string): Promise<Actor | undefined> {
      const identity = identities.get(token) ?? (await provider.verify(token))
      if (!identity || hasExpired(identity)) return undefined
      identities.set(token, identity)
      const { subject, email } = identity
      return actors.get(email === undefined ? subject : `${subject}\n${email}`)
    },
    clearCache: actors.clear,
  }
}

export function createBearerReader({ database, tokens, provider, log }: BearerOptions) {
  const verified = new LRUCache<string, Claims>({ max: MAX_CACHED_TOKENS })

  const verify = (token: string): Claims | undefined => {
    const cached = verified.get(token)
    if (cached) return hasExpired(cached) ? undefined : cached
    const claims = tokens.verify(token)
    if (claims) verified.set(token, claims)
    return claims
  }

  const sessions = createLookUpCache(async (id): Promise<Actor | undefined> => {
    const [row] = await queryRows<{ user_id: string; role: string }>(database, SELECT_SESSION, [id])
    if (!row || !isRole(row.role)) return undefined
    await database.run(UPDATE_LAST_USED, [id])
    return { userId: row.user_id, role: row.role, scopes: ALL_SCOPES, credential: 'token', sessionId: id }
  })

  const providerReader = provider && createProviderReader(database, provider, log)

  return {
    /** Returns the actor of a token; undefined if the token is invalid or has expired. */
    read(token: string): MaybePromise<Actor | undefined> {
      if (token.length > MAX_TOKEN_LENGTH) return undefined
      const claims = verify(token)
      if (claims) return sessions.get(claims.sessionId)
      if (providerReader && readIssuer(token) === provider?.issuer) return providerReader.read(token)
      return undefined
    },

    /** Returns the actor of a token that is cached, without a query or a signature check. */
    peek(token: string): Actor | undefined {
      const claims = verified.peek(token)
      return claims && !hasExpired(claims) ? sessions.peek(claims.sessionId) : undefined
    },

    clearCache() {
      sessions.clear()
      providerReader?.clearCache()
    },
  }
}
