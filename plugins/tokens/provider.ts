/** An external identity provider: its tokens, verified by the keys that it publishes, for users known here. */
import { createRemoteJWKSet, customFetch, errors, type FetchImplementation, jwtVerify } from 'jose'
import { apiError } from '../errors.ts'

export interface ProviderOptions {
  jwksUrl: string
  issuer: string
  audience: string
}

/** Milliseconds. */
const PATIENCE = 3_000
const REFETCH = 60_000
const KEEP = 600_000

const ALGORITHMS = ['RS256', 'ES256', 'EdDSA']

/** Failures of the token itself, not of the provider. */
const ofToken = [
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

/** The provider gave no answer. */
class OutOfReach extends Error {
  override readonly name = 'OutOfReach'
}

const reach: FetchImplementation = async (url, options) => {
  try {
    return await fetch(url, options)
  } catch (cause) {
    throw new OutOfReach('no answer', { cause })
  }
}

export function createProvider({ jwksUrl, issuer, audience }: ProviderOptions) {
  // An unknown `kid` fetches the keys anew, at most once a minute: keys rotate without a restart here.
  const keys = createRemoteJWKSet(new URL(jwksUrl), {
    timeoutDuration: PATIENCE,
    cooldownDuration: REFETCH,
    cacheMaxAge: KEEP,
    [customFetch]: reach,
  })

  return {
    issuer,

    /**
     * The verified e-mail address of a token's subject; undefined for a token that is not good.
     * @throws ApiError 502 for a provider that answers badly, 503 for one out of reach
     */
    async emailOf(token: string): Promise<{ email: string; expiresAt: number } | undefined> {
      try {
        const { payload } = await jwtVerify(token, keys, {
          issuer,
          audience,
          algorithms: ALGORITHMS,
          requiredClaims: ['exp', 'email'],
        })
        const { email, email_verified: verified, exp } = payload
        if (typeof email !== 'string' || verified !== true || exp === undefined) return undefined
        return { email: email.trim().normalize('NFC').toLowerCase(), expiresAt: exp }
      } catch (error) {
        if (ofToken.some((kind) => error instanceof kind)) return undefined
        if (error instanceof OutOfReach) {
          throw apiError('SERVICE_UNAVAILABLE', {
            message: 'The identity provider is out of reach',
            retryAfter: 5,
            cause: error,
          })
        }
        // An answer that is of no use: no key set, or a key that no signature can be verified with.
        throw apiError('BAD_GATEWAY', { message: 'The identity provider answered badly', cause: error })
      }
    },
  }
}

export type Provider = ReturnType<typeof createProvider>
