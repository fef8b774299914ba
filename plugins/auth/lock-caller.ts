/** Checks in the transaction of a write that its caller is still signed in: a cached credential is up to 5 s old. */
import { queryRows } from '../../drizzle/client/query-rows.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import { type Actor, NO_USER_ID } from '../access/index.ts'
import { createChallenge } from './challenge.ts'

const LOCK_USER = 'select status from users where id = $1 for no key update'

const LOCK_SESSION = 'select 1 from sessions where id = $1 and expires_at > now() for key share'

/**
 * Locks the row of a user until the transaction ends. Concurrent writes for the same user wait for each other; without
 * the lock, all of them could count the same rows.
 * @returns the status of the user, after the changes that the lock waited for; undefined without the user
 */
export async function lockUser(tx: Connection, userId: string): Promise<string | undefined> {
  const [user] = await queryRows<{ status: string }>(tx, LOCK_USER, [userId])
  return user?.status
}

/**
 * Locks the caller's row and session until the transaction ends. A revocation that has begun commits before the check,
 * and one that begins later waits. The user's row comes first, as in a change of the password, which ends sessions.
 * @throws ApiError 401 if the session has ended or the user is not active
 */
export async function lockCaller(tx: Connection, { userId, sessionId }: Actor): Promise<void> {
  if (userId === NO_USER_ID) return
  const isActive = (await lockUser(tx, userId)) === 'active'
  if (isActive && (sessionId === undefined || (await tx.run(LOCK_SESSION, [sessionId])).length > 0)) return
  throw createChallenge({ message: 'Invalid or expired token', error: 'invalid_token' })
}
