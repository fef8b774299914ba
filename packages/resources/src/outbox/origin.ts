/** Who changed a resource, and by which request. */
import { type Actor, NO_USER_ID } from '@resource-api/api/actor'

export interface ChangeOrigin {
  /** The user; null for sign-ups, for commands, and for the bootstrap key without its admin. */
  actorId: string | null
  credential: Actor['credential'] | 'system'
  /** The session or the API key. */
  credentialId: string | null
  requestId: string | null
}

/** The origin of changes by commands and at the start. */
export const SYSTEM_ORIGIN: ChangeOrigin = {
  actorId: null,
  credential: 'system',
  credentialId: null,
  requestId: null,
}

/** Returns the origin of the changes that a request makes. */
export const getOrigin = (
  { userId, credential, key, sessionId }: Actor,
  requestId: string,
): ChangeOrigin => ({
  actorId: userId === NO_USER_ID ? null : userId,
  credential,
  credentialId: key?.id ?? sessionId ?? null,
  requestId,
})

/** Returns the origin of the changes of a write. @param origin if it is not the caller */
export const getCallOrigin = ({
  address: { actor },
  origin,
  request: { id },
}: {
  address: { actor: Actor }
  origin?: ChangeOrigin
  request: { id: string }
}): ChangeOrigin => origin ?? getOrigin(actor, id)
