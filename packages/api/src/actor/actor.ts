/** The authenticated caller of a request. */
import type { Role } from '@resource-api/database/roles'

/** `anonymous` is the role of a request without credentials, on the few routes whose rules include it. */
export type CallerRole = Role | 'anonymous'

/** The authenticated caller of a request. */
export interface Actor {
  userId: string
  role: CallerRole
  /** The scopes of the credential, such as `users:read`; `*` includes all. */
  scopes: ReadonlySet<string>
  credential: 'token' | 'api_key' | 'bootstrap_key' | 'none'
  /** The API key of the request, with its own rate limit. */
  key?: { id: string; rateLimit: number | null }
  /** The session of an access token that this service issued. */
  sessionId?: string
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller; null on public routes. */
    actor: Actor | null
  }
}

/** The id of a caller who is no user. No row has it: it is the nil UUID of RFC 9562. */
export const NO_USER_ID = '00000000-0000-0000-0000-000000000000'

/** The actor of a request without credentials. */
export const ANONYMOUS_ACTOR: Actor = {
  userId: NO_USER_ID,
  role: 'anonymous',
  scopes: new Set(['*']),
  credential: 'none',
}

/** Returns a text that differs between callers who may see a resource differently. */
export const formatActor = ({ userId, role, credential, sessionId = '', key }: Actor): string =>
  [userId, role, credential, sessionId, key?.id ?? ''].join()
