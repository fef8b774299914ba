/** Issues and verifies access tokens (RFC 9068): short-lived JWTs signed with EdDSA. */
import { createHash, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyJWTOptions, TokenOrHeader } from '@fastify/jwt'
import { newId } from '@resource-api/database'
import { isUuid } from '@resource-api/database/values'
import { type Config, deriveKey, parsePrivateKeys, type RunConfig } from '@resource-api/http/config'
import type { FastifyInstance, FastifyRequest } from 'fastify'

export interface SigningKey {
  /** The key's thumbprint (RFC 7638). */
  kid: string
  privatePem: string
  publicPem: string
  /** The public key, as the JWKS endpoint publishes it. */
  jwk: { kty: string; crv: string; x: string; kid: string; alg: 'EdDSA'; use: 'sig' }
}

export type SigningKeys = readonly [SigningKey, ...SigningKey[]]

/** The PKCS #8 header before the 32 bytes of an Ed25519 seed (RFC 8410, section 7). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')

/** Returns the private key that is derived from the application secret: servers with the same secret have the same key. */
export function createKeyFromSecret(secret: string): KeyObject {
  const seed = deriveKey(secret, 'access tokens')
  return createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, seed]), format: 'der', type: 'pkcs8' })
}

export function toSigningKey(privateKey: KeyObject): SigningKey {
  const publicKey = createPublicKey(privateKey)
  const { kty = '', crv = '', x = '' } = publicKey.export({ format: 'jwk' })
  const kid = createHash('sha256').update(JSON.stringify({ crv, kty, x })).digest('base64url')
  return {
    kid,
    privatePem: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
    publicPem: publicKey.export({ format: 'pem', type: 'spki' }).toString(),
    jwk: { kty, crv, x, kid, alg: 'EdDSA', use: 'sig' },
  }
}

/** Returns the configured keys, or the derived one. The first key signs, all of them verify. */
export function createSigningKeys(config: Pick<RunConfig, 'APP_SECRET' | 'JWT_PRIVATE_KEY'>): SigningKeys {
  const { APP_SECRET, JWT_PRIVATE_KEY } = config
  const configured = JWT_PRIVATE_KEY === undefined ? [] : parsePrivateKeys(JWT_PRIVATE_KEY)
  const [first = createKeyFromSecret(APP_SECRET), ...others] = configured
  return [toSigningKey(first), ...others.map(toSigningKey)]
}

/** The claims of a verified token that are used: the user and the role are those of the session. */
export interface Claims {
  sessionId: string
  /** `exp`, in seconds since the epoch. */
  expiresAt: number
}

/** Seconds by which the clocks of two servers may differ. It extends each time in a token: `exp` and `nbf`. */
export const CLOCK_LEEWAY_SECONDS = 30

/** Returns whether a token has expired. @param exp in seconds since the epoch */
export const hasExpired = (exp: number): boolean => Date.now() >= (exp + CLOCK_LEEWAY_SECONDS) * 1000

const TYPE = 'at+jwt'
const ALGORITHM = 'EdDSA'
const REQUIRED_CLAIMS = ['iss', 'aud', 'sub', 'sid', 'role', 'iat', 'exp', 'jti']

/** Returns the token of the Bearer scheme (RFC 6750, section 2.1); undefined for another scheme. */
export const getBearerToken = ({ authorization }: IncomingHttpHeaders): string | undefined =>
  authorization === undefined ? undefined : /^bearer +([^ ]+) *$/i.exec(authorization)?.[1]

/** Returns the options of @fastify/jwt, with which it signs and verifies access tokens. */
export const createJwtOptions = (
  keys: SigningKeys,
  config: Pick<Config, 'ACCESS_TOKEN_TTL' | 'JWT_AUDIENCE' | 'JWT_ISSUER'>,
): FastifyJWTOptions => ({
  secret: {
    private: keys[0].privatePem,
    // Finds the key by `kid`, and never takes it from the token.
    public: async (_request: FastifyRequest, { header }: TokenOrHeader) => {
      const key = keys.find(({ kid }) => kid === header?.kid)
      if (!key) throw new Error('No key has the kid of the token')
      return key.publicPem
    },
  },
  // With the header, for `public`.
  decode: { complete: true },
  sign: {
    algorithm: ALGORITHM,
    iss: config.JWT_ISSUER,
    aud: config.JWT_AUDIENCE,
    expiresIn: config.ACCESS_TOKEN_TTL,
    kid: keys[0].kid,
    header: { alg: ALGORITHM, typ: TYPE },
  },
  verify: {
    algorithms: [ALGORITHM],
    allowedIss: config.JWT_ISSUER,
    allowedAud: config.JWT_AUDIENCE,
    requiredClaims: REQUIRED_CLAIMS,
    checkTyp: TYPE,
    clockTolerance: CLOCK_LEEWAY_SECONDS * 1000,
    cache: false,
    extractToken: ({ headers }) => getBearerToken(headers),
  },
})

/**
 * Creates the functions that issue and verify access tokens with the registered @fastify/jwt.
 * @param ttl lifetime of a token in seconds
 */
export function createAccessTokens(app: FastifyInstance, keys: SigningKeys, ttl: number) {
  return {
    /** The public keys. */
    jwks: keys.map(({ jwk }) => jwk),

    issue: (grant: { userId: string; sessionId: string; role: string }) => {
      const jti = newId()
      const text = app.jwt.sign({ sub: grant.userId, sid: grant.sessionId, role: grant.role, jti })
      return { id: jti, text, expiresIn: ttl }
    },

    /** Returns the claims of the token of a request; undefined if it is invalid or has expired. */
    async verify(request: FastifyRequest): Promise<Claims | undefined> {
      try {
        const { sid, exp } = await request.jwtVerify<{ sid: unknown; exp: unknown }>()
        if (typeof sid !== 'string' || !isUuid(sid) || typeof exp !== 'number') return undefined
        // A token expires at `exp` (RFC 7519, section 4.1.4), while the library accepts it for another second.
        if (hasExpired(exp)) return undefined
        return { sessionId: sid, expiresAt: exp }
      } catch {
        return undefined
      }
    },
  }
}

export type AccessTokens = ReturnType<typeof createAccessTokens>
