/** Bearer tokens to who calls with them: our own, and those of an identity provider. */
import { decodeJwt } from 'jose/jwt/decode'
import { LRUCache } from 'lru-cache'
import { type Actor, isRole } from '../access.ts'
import type { Database } from '../database/index.ts'
import type { Soon } from '../soon.ts'
import type { AccessTokens, Claims } from '../tokens/access-token.ts'
import type { Provider } from '../tokens/provider.ts'
import { remembered } from './cache.ts'

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

const USER = `select id, role from users where email = $1 and status = 'active'`

const issuerOf = (token: string): unknown => {
  try {
    return decodeJwt(token).iss
  } catch {
    return undefined
  }
}

/** @returns a reader: who a token was made for, undefined for one that is not good (any more) */
export function createBearerReader(database: Database, tokens: AccessTokens, provider: Provider | undefined) {
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

  const findUser = remembered(async (email): Promise<Actor | undefined> => {
    const [row] = await database.run(USER, [email])
    if (!row || !isRole(row.role)) return undefined
    return { userId: String(row.id), role: row.role, scopes: EVERYTHING, credential: 'token' }
  })

  const external = new LRUCache<string, { email: string; expiresAt: number }>({ max: MOST_TOKENS })

  const ofProvider = async (token: string, from: Provider): Promise<Actor | undefined> => {
    const known = external.get(token) ?? (await from.emailOf(token))
    if (!known || Date.now() >= known.expiresAt * 1000) return undefined
    external.set(token, known)
    return findUser.get(known.email)
  }

  const read = (token: string): Soon<Actor | undefined> => {
    if (token.length > LONGEST) return undefined
    const claims = verify(token)
    if (claims) return findSession.get(claims.sessionId)
    if (provider && issuerOf(token) === provider.issuer) return ofProvider(token, provider)
    return undefined
  }

  const forget = () => {
    findSession.forget()
    findUser.forget()
  }

  return { read, forget }
}
