/** Verifies the tokens of an external identity provider with the keys that it publishes. */
import { apiError } from '@resource-api/api/errors'
import { toEmailAddress } from '@resource-api/database/values'
import {
  createRemoteJWKSet,
  customFetch,
  decodeJwt,
  decodeProtectedHeader,
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
} from 'jose'
import { LRUCache } from 'lru-cache'
import { CLOCK_LEEWAY_SECONDS, hasExpired } from './access-token.ts'

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
  /** `exp`, in seconds since the epoch. */
  expiresAt: number
}

const FETCH_TIMEOUT_MS = 3_000
const MAX_AGE_MS = 600_000
/** Minimum time between two fetches for the same unknown `kid`. */
const REFETCH_INTERVAL_MS = 60_000
/** Time for which a failure is returned to all requests that need keys. */
const RETRY_INTERVAL_MS = 5_000
/** Fetches for unknown kids at once; after that, one every `RETRY_INTERVAL_MS`. Anyone can send tokens with new kids. */
const MAX_REFETCHES = 5
/** More than are fetched for within `REFETCH_INTERVAL_MS`. */
const MAX_MISSING_KIDS = 100
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

/** Fetches a key set with its body. Throws JWKSTimeout if the provider cannot be reached. */
const fetchKeySet: typeof fetch = async (url, init) => {
  try {
    const response = await fetch(url, init)
    return new Response(await response.text(), { status: response.status === 200 ? 200 : 502 })
  } catch (cause) {
    throw new errors.JWKSTimeout('The identity provider cannot be reached', { cause })
  }
}

/**
 * Returns a function that finds the key of a token. All requests that wait share one fetch, and neither an invalid token
 * nor a failing provider makes each request fetch again.
 */
function createKeyFinder({ jwksUrl, now }: ProviderOptions): JWTVerifyGetKey {
  const keySet = createRemoteJWKSet(new URL(jwksUrl), {
    timeoutDuration: FETCH_TIMEOUT_MS,
    cacheMaxAge: MAX_AGE_MS,
    // jose's limit holds for all unknown kids together, so that a forged one would delay the keys of a rotation.
    cooldownDuration: Number.POSITIVE_INFINITY,
    [customFetch]: fetchKeySet,
  })
  let failure: { error: unknown; until: number } | undefined
  /** The unknown kids that were fetched for. */
  const missing = new LRUCache<string, true>({
    max: MAX_MISSING_KIDS,
    ttl: REFETCH_INTERVAL_MS,
    perf: { now },
    // Otherwise it may take a time for the present one that is past by now.
    ttlResolution: 0,
  })
  /** The end of the time that the fetches for unknown kids have used up, `RETRY_INTERVAL_MS` each. */
  let refetchesUntil = 0

  const throwRecentFailure = () => {
    if (failure && !keySet.reloading && now() < failure.until) throw failure.error
  }

  const reload = async () => {
    throwRecentFailure()
    try {
      await keySet.reload()
      failure = undefined
    } catch (error) {
      failure = { error, until: now() + RETRY_INTERVAL_MS }
      throw error
    }
  }

  /** Returns whether a token may cause a fetch: its key may be a new one of the provider. */
  const mayRefetch = (kid: string): boolean => {
    if (missing.has(kid)) return false
    throwRecentFailure()
    const from = Math.max(refetchesUntil, now())
    if (from - now() > (MAX_REFETCHES - 1) * RETRY_INTERVAL_MS) return false
    refetchesUntil = from + RETRY_INTERVAL_MS
    return true
  }

  return async (header, token) => {
    if (!keySet.fresh) await reload()
    try {
      return await keySet(header, token)
    } catch (error) {
      const { kid = '' } = header
      const isShared = keySet.reloading
      if (!(error instanceof errors.JWKSNoMatchingKey) || (!isShared && !mayRefetch(kid))) throw error
      await reload()
      // A fetch that had begun before may have missed the key: the next request with it fetches again.
      if (!isShared) missing.set(kid, true)
      return keySet(header, token)
    }
  }
}

/** OpenID Connect Core 1.0, section 2: `sub` has at most 255 ASCII characters. */
export const isSubject = (value: unknown): value is string =>
  typeof value === 'string' && /^[\x20-\x7e]{1,255}$/.test(value)

const readEmail = ({ email, email_verified: isVerified }: JWTPayload): string | undefined =>
  typeof email === 'string' && email.length <= MAX_EMAIL_LENGTH && isVerified === true
    ? toEmailAddress(email)
    : undefined

/**
 * Returns whether the unverified contents of a token permit that it is valid. If not, it is rejected without the keys,
 * and so counts as a failed authentication even while the provider is unavailable.
 */
function isPlausible(token: string, audience: string): boolean {
  try {
    const { alg = '' } = decodeProtectedHeader(token)
    const { sub, aud = [], exp = 0 } = decodeJwt(token)
    return ALGORITHMS.includes(alg) && isSubject(sub) && [aud].flat().includes(audience) && !hasExpired(exp)
  } catch {
    return false
  }
}

export function createProvider(options: ProviderOptions) {
  const { issuer, audience } = options
  const findKey = createKeyFinder(options)
  const requirements = {
    issuer,
    audience,
    algorithms: ALGORITHMS,
    requiredClaims: ['exp', 'sub'],
    clockTolerance: CLOCK_LEEWAY_SECONDS,
  }

  return {
    issuer,

    /**
     * Returns the subject of a token; undefined if the token is invalid.
     * @throws ApiError 502 if the provider returns an invalid key set, 503 if it cannot be reached
     */
    async verify(token: string): Promise<Identity | undefined> {
      if (!isPlausible(token, audience)) return undefined
      try {
        const { payload } = await jwtVerify(token, findKey, requirements)
        const { sub, exp } = payload
        if (!isSubject(sub) || exp === undefined) return undefined
        return { subject: sub, email: readEmail(payload), expiresAt: exp }
      } catch (cause) {
        if (TOKEN_ERRORS.some((kind) => cause instanceof kind)) return undefined
        if (cause instanceof errors.JWKSTimeout) {
          const message = 'The identity provider could not be reached'
          throw apiError('SERVICE_UNAVAILABLE', { message, retryAfter: RETRY_INTERVAL_MS / 1000, cause })
        }
        // The response is not a key set, or the key cannot verify signatures.
        throw apiError('BAD_GATEWAY', {
          message: 'The identity provider returned an invalid response',
          cause,
        })
      }
    },
  }
}

export type Provider = ReturnType<typeof createProvider>
