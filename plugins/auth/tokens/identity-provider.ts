/** An external identity provider: its tokens, verified by the keys that it publishes, for users known here. */
import { decodeJwt, decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose'
import { toEmailAddress } from '../../../lib/email-address.ts'
import { apiError } from '../../errors/index.ts'
import { createProviderKeys, ProviderUnreachableError, RETRY_INTERVAL_MS } from './provider-keys.ts'

export interface ProviderOptions {
  jwksUrl: string
  issuer: string
  audience: string
  /** Milliseconds since the epoch. */
  now: () => number
}

/** What a verified token says about its subject. */
export interface Identity {
  subject: string
  /** In lower case; undefined if the provider has not verified one. */
  email: string | undefined
  /** Epoch seconds. */
  expiresAt: number
}

const ALGORITHMS = ['RS256', 'ES256', 'EdDSA']
const MAX_EMAIL_LENGTH = 254

/** Failures of the token itself, not of the provider. */
const TOKEN_ERRORS = [
  errors.JWTExpired,
  errors.JWTClaimValidationFailed,
  errors.JWTInvalid,
  errors.JWSInvalid,
  errors.JWSSignatureVerificationFailed,
  errors.JOSEAlgNotAllowed,
  errors.JOSENotSupported,
  errors.JWKSNoMatchingKey,
  errors.JWKSMultipleMatchingKeys,
]

/** OpenID Connect Core 1.0, section 2: `sub` has at most 255 ASCII characters. */
export const isSubject = (value: unknown): value is string =>
  typeof value === 'string' && /^[\x20-\x7e]{1,255}$/.test(value)

const readEmail = ({ email, email_verified: isVerified }: JWTPayload): string | undefined =>
  typeof email === 'string' && email.length <= MAX_EMAIL_LENGTH && isVerified === true
    ? toEmailAddress(email)
    : undefined

export function createProvider({ jwksUrl, issuer, audience, now }: ProviderOptions) {
  const getKey = createProviderKeys({ url: jwksUrl, now })

  /**
   * Returns whether a token could be good, by what it says itself. One that could not is refused without the keys, and
   * so counts as a failed authentication even while the provider fails.
   */
  const isPlausible = (token: string): boolean => {
    try {
      const { alg } = decodeProtectedHeader(token)
      const { sub, aud, exp } = decodeJwt(token)
      const audiences = Array.isArray(aud) ? aud : [aud]
      const hasExpired = typeof exp !== 'number' || exp * 1000 <= Date.now()
      return ALGORITHMS.includes(alg ?? '') && isSubject(sub) && audiences.includes(audience) && !hasExpired
    } catch {
      return false
    }
  }

  return {
    issuer,

    /**
     * Returns whom a token was issued for; undefined if it is not good.
     * @throws ApiError 502 for a provider that answers badly, 503 for one out of reach
     */
    async verify(token: string): Promise<Identity | undefined> {
      if (!isPlausible(token)) return undefined
      try {
        const { payload } = await jwtVerify(token, getKey, {
          issuer,
          audience,
          algorithms: ALGORITHMS,
          requiredClaims: ['exp', 'sub'],
        })
        const { sub, exp } = payload
        if (!isSubject(sub) || exp === undefined) return undefined
        return { subject: sub, email: readEmail(payload), expiresAt: exp }
      } catch (error) {
        if (TOKEN_ERRORS.some((kind) => error instanceof kind)) return undefined
        if (error instanceof ProviderUnreachableError) {
          throw apiError('SERVICE_UNAVAILABLE', {
            message: 'The identity provider is out of reach',
            retryAfter: RETRY_INTERVAL_MS / 1000,
            cause: error,
          })
        }
        // Not a key set, or a key that no signature can be verified with.
        throw apiError('BAD_GATEWAY', { message: 'The identity provider answered badly', cause: error })
      }
    },
  }
}

export type Provider = ReturnType<typeof createProvider>
