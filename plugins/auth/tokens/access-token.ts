/** Issues and verifies access tokens (RFC 9068): short-lived JWTs signed with EdDSA. */
import fastifyJwt from '@fastify/jwt'
import type { FastifyInstance } from 'fastify'
import { isUuid, newId } from '../../../lib/ids.ts'
import type { SigningKey } from './signing-keys.ts'

interface AccessTokenOptions {
  /** The first key signs, all of them verify. */
  keys: readonly [SigningKey, ...SigningKey[]]
  issuer: string
  audience: string
  /** Lifetime in seconds. */
  ttl: number
}

/** The claims of a verified token that are used: the user and the role are those of the session. */
export interface Claims {
  sessionId: string
  /** Seconds since the epoch. */
  expiresAt: number
}

const TYPE = 'at+jwt'
const ALGORITHM = 'EdDSA'
const REQUIRED_CLAIMS = ['iss', 'aud', 'sub', 'sid', 'role', 'iat', 'exp', 'jti']

export async function createAccessTokens(app: FastifyInstance, options: AccessTokenOptions) {
  const { keys, issuer, audience, ttl } = options
  const [signingKey] = keys
  const keysById = new Map(keys.map((key) => [key.kid, key]))
  await app.register(fastifyJwt, {
    secret: { private: signingKey.privatePem, public: signingKey.publicPem },
    sign: {
      algorithm: ALGORITHM,
      iss: issuer,
      aud: audience,
      expiresIn: ttl,
      kid: signingKey.kid,
      header: { alg: ALGORITHM, typ: TYPE },
    },
    verify: {
      algorithms: [ALGORITHM],
      allowedIss: issuer,
      allowedAud: audience,
      requiredClaims: REQUIRED_CLAIMS,
      checkTyp: TYPE,
      cache: false,
    },
  })

  return {
    issue: (grant: { userId: string; sessionId: string; role: string }) => {
      const jti = newId()
      const text = app.jwt.sign({ sub: grant.userId, sid: grant.sessionId, role: grant.role, jti })
      return { id: jti, text, expiresIn: ttl }
    },

    /**
     * Returns the claims of a token; undefined if it is invalid or has expired. The key is found by `kid`, and never
     * taken from the token.
     */
    verify(text: string): Claims | undefined {
      try {
        const decoded = app.jwt.decode<{ header: { kid?: unknown } }>(text, { complete: true })
        const kid = decoded?.header.kid
        const key = typeof kid === 'string' ? keysById.get(kid) : undefined
        if (!key) return undefined
        const { sid, exp } = app.jwt.verify<{ sid: unknown; exp: unknown }>(text, {
          ...app.jwt.options.verify,
          key: key.publicPem,
        })
        if (typeof sid !== 'string' || !isUuid(sid) || typeof exp !== 'number') return undefined
        // A token expires at `exp` (RFC 7519, section 4.1.4), while the library accepts it for another second.
        if (Date.now() >= exp * 1000) return undefined
        return { sessionId: sid, expiresAt: exp }
      } catch {
        return undefined
      }
    },
  }
}

export type AccessTokens = Awaited<ReturnType<typeof createAccessTokens>>
