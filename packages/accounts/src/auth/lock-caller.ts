/** Checks in the transaction of a write that its caller is still signed in: a cached credential is up to 5 s old. */
import { CHALLENGES, createChallenge } from '@resource-api/api/access'
import { type Actor, NO_USER_ID } from '@resource-api/api/actor'
import { type Connection, prepare, users } from '@resource-api/database'
import { sessions } from '@resource-api/database/tables'
import { and, eq, gt, sql } from 'drizzle-orm'

const lockUserRow = prepare((db) =>
  db
    .select({ status: users.status })
    .from(users)
    .where(eq(users.id, sql.placeholder('id')))
    .for('no key update'),
)

const lockSession = prepare((db) =>
  db
    .select({ id: sessions.id })
    .from(sessions)
    .where(and(eq(sessions.id, sql.placeholder('id')), gt(sessions.expires_at, sql`now()`)))
    .for('key share'),
)

/**
 * Locks the row of a user until the transaction ends. Concurrent writes for the same user wait for each other; without
 * the lock, all of them could count the same rows.
 * @returns the status of the user, after the changes that the lock waited for; undefined without the user
 */
export async function lockUser(tx: Connection, userId: string): Promise<string | undefined> {
  const [user] = await lockUserRow(tx, { id: userId })
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
  if (isActive && (sessionId === undefined || (await lockSession(tx, { id: sessionId })).length > 0)) return
  throw createChallenge(CHALLENGES.token)
}
