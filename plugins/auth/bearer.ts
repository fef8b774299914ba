/** Bearer tokens to who calls with them: our own, and those of an identity provider. */
import type { FastifyBaseLogger } from 'fastify'
import { decodeJwt } from 'jose/jwt/decode'
import { LRUCache } from 'lru-cache'
import type { Database } from '../../drizzle/client/index.ts'
import type { MaybePromise } from '../../lib/maybe-promise.ts'
import { type Actor, isRole } from '../access/index.ts'
import { remembered } from './cache.ts'
import { createIdentityFinder } from './identities.ts'
import type { AccessTokens, Claims } from './tokens/access-token.ts'
import type { Identity, Provider } from './tokens/identity-provider.ts'

const EVERYTHING: ReadonlySet<string> = new Set(['*'])
/** A token is verified once (83 us), then known by its text until it ends. */
const MOST_TOKENS = 10_000
/** No token of anybody's is longer; a header may be 16 KiB. */
const LONGEST = 8_192

// The role is that of the user now, not that of the token.
const SESSION = `select s.id, s.user_id, u.role from sessions s join users u on u.id = s.user_id
  where s.id = $1 and s.expires_at > now() and u.status = 'active'`

// Changes no revision: being used is no change of the session.
const USED = `update sessions set last_used_at = now()
  where id = $1 and last_used_at < now() - interval '1 minute'`

const issuerOf = (token: string): unknown => {
  try {
    return decodeJwt(token).iss
  } catch {
    return undefined
  }
}

export interface BearerOptions {
  database: Database
  tokens: AccessTokens
  provider: Provider | undefined
  log: Pick<FastifyBaseLogger, 'warn'>
}

/** Returns a reader for tokens of an identity provider. */
function createProviderReader(database: Database, provider: Provider, log: BearerOptions['log']) {
  const identities = new LRUCache<string, Identity>({ max: MOST_TOKENS })
  const findUser = createIdentityFinder(database, provider.issuer, log)

  // By subject and e-mail address, since the address decides while there is no link. Neither has a line break.
  const findActor = remembered(async (key): Promise<Actor | undefined> => {
    const [subject = '', email] = key.split('\n')
    const user = await findUser({ subject, email })
    if (!user || !isRole(user.role)) return undefined
    return { userId: String(user.id), role: user.role, scopes: EVERYTHING, credential: 'token' }
  })

  return {
    async read(token: string): Promise<Actor | undefined> {
      const identity = identities.get(token) ?? (await provider.verify(token))
      if (!identity || Date.now() >= identity.expiresAt * 1000) return undefined
      identities.set(token, identity)
      const { subject, email } = identity
      return findActor.get(email === undefined ? subject : `${subject}\n${email}`)
    },
    forget: findActor.forget,
  }
}

/** @returns a reader: who a token was made for, undefined for one that is not good (any more) */
export function createBearerReader({ database, tokens, provider, log }: BearerOptions) {
  const verified = new LRUCache<string, Claims>({ max: MOST_TOKENS })

  const verify = (token: string): Claims | undefined => {
    const known = verified.get(token)
    if (known) return Date.now() < known.expiresAt * 1000 ? known : undefined
    const claims = tokens.verify(token)
    if (claims) verified.set(token, claims)
    return claims
  }

  const findSession = remembered(async (id): Promise<Actor | undefined> => {
    const [row] = await database.run(SESSION, [id])
    if (!row || !isRole(row.role)) return undefined
    await database.run(USED, [id])
    return {
      userId: String(row.user_id),
      role: row.role,
      scopes: EVERYTHING,
      credential: 'token',
      sessionId: id,
    }
  })

  const external = provider && createProviderReader(database, provider, log)

  const read = (token: string): MaybePromise<Actor | undefined> => {
    if (token.length > LONGEST) return undefined
    const claims = verify(token)
    if (claims) return findSession.get(claims.sessionId)
    if (external && issuerOf(token) === provider?.issuer) return external.read(token)
    return undefined
  }

  /** Returns the actor of a token that is cached, without a query or a signature check. */
  const peek = (token: string): Actor | undefined => {
    const claims = verified.peek(token)
    return claims && Date.now() < claims.expiresAt * 1000 ? findSession.peek(claims.sessionId) : undefined
  }

  const forget = () => {
    findSession.forget()
    external?.forget()
  }

  return { read, peek, forget }
}
