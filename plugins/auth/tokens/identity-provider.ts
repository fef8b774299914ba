/** Verifies the tokens of an external identity provider with the keys that it publishes. */
import { decodeJwt, decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose'
import { toEmailAddress } from '../../../lib/email-address.ts'
import { apiError } from '../../errors/index.ts'
import { createProviderKeys, ProviderUnreachableError, RETRY_INTERVAL_MS } from './provider-keys.ts'

interface ProviderOptions {
  jwksUrl: string
  issuer: string
  audience: string
  /** Milliseconds since the epoch. */
  now: () => number
}

/** The subject of a verified token. */
export interface Identity {
  subject: string
  /** In lower case; undefined if the provider has not verified an address. */
  email: string | undefined
  /** Seconds since the epoch. */
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
   * Returns whether the unverified contents of a token permit that it is valid. If not, it is rejected without the keys,
   * and so counts as a failed authentication even while the provider is unavailable.
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
     * Returns the subject of a token; undefined if the token is invalid.
     * @throws ApiError 502 if the provider returns an invalid key set, 503 if it cannot be reached
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
            message: 'The identity provider could not be reached',
            retryAfter: RETRY_INTERVAL_MS / 1000,
            cause: error,
          })
        }
        // The response is not a key set, or the key cannot verify signatures.
        throw apiError('BAD_GATEWAY', {
          message: 'The identity provider returned an invalid response',
          cause: error,
        })
      }
    },
  }
}

export type Provider = ReturnType<typeof createProvider>
