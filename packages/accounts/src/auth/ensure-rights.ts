/** Checks in a transaction that its caller still has the rights of the request: a cached credential is up to 5 s old. */

import { CHALLENGES, checkGuard, createChallenge, type Guard } from '@resource-api/api/access'
import { type Actor, NO_USER_ID } from '@resource-api/api/actor'
import { apiError } from '@resource-api/api/errors'
import { type Connection, prepare, users } from '@resource-api/database'
import { isRole } from '@resource-api/database/roles'
import { apiKeys, sessions } from '@resource-api/database/tables'
import { and, eq, gt, sql } from 'drizzle-orm'

const isActive = eq(users.status, 'active')
const hasId = eq(users.id, sql.placeholder('userId'))

const findUser = prepare((db) => db.select({ role: users.role }).from(users).where(and(hasId, isActive)))

const findSession = prepare((db) =>
  db
    .select({ role: users.role })
    .from(users)
    .innerJoin(sessions, eq(sessions.user_id, users.id))
    .where(
      and(
        hasId,
        isActive,
        eq(sessions.id, sql.placeholder('credentialId')),
        gt(sessions.expires_at, sql`now()`),
      ),
    ),
)

const findKey = prepare((db) =>
  db
    .select({ role: users.role, scopes: apiKeys.scopes })
    .from(users)
    .innerJoin(apiKeys, eq(apiKeys.user_id, users.id))
    .where(
      and(
        hasId,
        isActive,
        eq(apiKeys.id, sql.placeholder('credentialId')),
        gt(apiKeys.expires_at, sql`now()`),
      ),
    ),
)

/** Returns the caller with the present role and scopes; undefined if the credential or the user is not valid any more. */
async function findActor(tx: Connection, actor: Actor): Promise<Actor | undefined> {
  const { userId, key, sessionId } = actor
  if (userId === NO_USER_ID) return actor
  if (key) {
    const [row] = await findKey(tx, { userId, credentialId: key.id })
    return row && isRole(row.role) ? { ...actor, role: row.role, scopes: new Set(row.scopes) } : undefined
  }
  const [row] = await (sessionId === undefined
    ? findUser(tx, { userId })
    : findSession(tx, { userId, credentialId: sessionId }))
  return row && isRole(row.role) ? { ...actor, role: row.role } : undefined
}

const isSameSet = (a: ReadonlySet<string>, b: ReadonlySet<string>) =>
  a.size === b.size && [...a].every((each) => b.has(each))

/**
 * @param guards of what the caller does
 * @throws ApiError 401 if the session or key has ended or the user is not active; 403 if the role or the scopes have changed
 */
export async function ensureRights(tx: Connection, actor: Actor, guards: readonly Guard[]): Promise<void> {
  const current = await findActor(tx, actor)
  if (!current) throw createChallenge(actor.credential === 'token' ? CHALLENGES.token : CHALLENGES.key)
  for (const guard of guards) checkGuard(current, guard)
  if (current.role === actor.role && isSameSet(current.scopes, actor.scopes)) return
  const message =
    'The role or the scopes of the caller have changed since the request was sent; send it again'
  throw apiError('FORBIDDEN', { message })
}
