/** Access tokens (RFC 9068): short-lived JWTs, signed with EdDSA, read without a query. */
import fastifyJwt from '@fastify/jwt'
import type { FastifyInstance } from 'fastify'
import { validate } from 'uuid'
import { newId } from '../../../lib/ids.ts'
import type { SigningKey } from './signing-keys.ts'

export interface AccessTokenOptions {
  /** The first signs, all verify. */
  keys: readonly [SigningKey, ...SigningKey[]]
  issuer: string
  audience: string
  /** Seconds. */
  ttl: number
}

/** What a verified token says. */
export interface Claims {
  userId: string
  sessionId: string
  role: string
  /** Epoch seconds. */
  expiresAt: number
}

const TYPE = 'at+jwt'
const ALGORITHM = 'EdDSA'
const CLAIMS = ['iss', 'aud', 'sub', 'sid', 'role', 'iat', 'exp', 'jti']

const isUuid = (value: unknown): value is string => validate(value)
const isText = (value: unknown): value is string => typeof value === 'string'

export async function createAccessTokens(app: FastifyInstance, options: AccessTokenOptions) {
  const { keys, issuer, audience, ttl } = options
  const [signing] = keys
  const byId = new Map(keys.map((key) => [key.kid, key]))
  await app.register(fastifyJwt, {
    secret: { private: signing.privatePem, public: signing.publicPem },
    sign: {
      algorithm: ALGORITHM,
      iss: issuer,
      aud: audience,
      expiresIn: ttl,
      kid: signing.kid,
      header: { alg: ALGORITHM, typ: TYPE },
    },
    verify: {
      algorithms: [ALGORITHM],
      allowedIss: issuer,
      allowedAud: audience,
      requiredClaims: CLAIMS,
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

    /** Undefined for what is no token of ours, or not any more. The key is looked up by `kid` alone, never taken from the token. */
    verify(text: string): Claims | undefined {
      try {
        const decoded = app.jwt.decode<{ header: { kid?: unknown } }>(text, { complete: true })
        const kid = decoded?.header.kid
        const key = isText(kid) ? byId.get(kid) : undefined
        if (!key) return undefined
        const claims = app.jwt.verify<Record<string, unknown>>(text, {
          ...app.jwt.options.verify,
          key: key.publicPem,
        })
        const { sub, sid, role, exp } = claims
        if (!isText(sub) || !isUuid(sid) || !isText(role) || typeof exp !== 'number') return undefined
        // On or after `exp` it is over (RFC 7519, section 4.1.4); the library lets that very second pass.
        if (Date.now() >= exp * 1000) return undefined
        return { userId: sub, sessionId: sid, role, expiresAt: exp }
      } catch {
        return undefined
      }
    },
  }
}

export type AccessTokens = Awaited<ReturnType<typeof createAccessTokens>>
