/** Creates the 401 of a missing or invalid credential, and publishes it for the metrics. */
import { channel } from 'node:diagnostics_channel'
import { identity } from '@resource-api/database'
import { getChannelName } from '@resource-api/database/values'
import { apiError } from '../errors/errors.ts'

/** The 401 of each kind of credential. */
export const CHALLENGES = {
  none: { message: 'Authentication required' },
  token: { message: 'Invalid or expired token', error: 'invalid_token' },
  key: { message: 'Invalid or expired API key' },
} as const

type CredentialKind = 'none' | 'token' | 'key' | 'password' | 'refresh_token'

interface ChallengeOptions {
  message?: string
  /** The error code of RFC 6750, section 3.1. */
  error?: 'invalid_token'
  cause?: unknown
}

const refusedChannel = channel(getChannelName('auth:refused'))

/** Creates a 401 with the header that it requires (RFC 9110, section 15.5.2). */
export const createChallenge = ({ error, ...options }: ChallengeOptions) =>
  apiError('UNAUTHORIZED', {
    ...options,
    headers: { 'WWW-Authenticate': `Bearer realm="${identity.realm}"${error ? `, error="${error}"` : ''}` },
  })

/** Creates the 403 of a user who must verify the email address first (REQUIRE_VERIFIED_EMAIL). */
export const refuseUnverified = () =>
  apiError('FORBIDDEN', { message: 'The email address of the account is not verified' })

/** Creates the 401 of a credential that a client sent, or of none. */
export function refuseCredential(kind: CredentialKind, options: ChallengeOptions) {
  refusedChannel.publish({ kind })
  return createChallenge(options)
}
