/** Signs users in, and rotates the refresh tokens of their sessions. The reuse of an old token ends its session. */
import { type Passwords, refuseUnverified } from '@resource-api/api/access'
import { type Database, newId, nextUpdatedAt, prepare, users } from '@resource-api/database'
import type { Transaction } from '@resource-api/database/client'
import { sessions } from '@resource-api/database/tables'
import { prepareChange } from '@resource-api/resources'
import { changeRows, type Recorders } from '@resource-api/resources/internal'
import { and, desc, eq, gt, inArray, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { FastifyInstance } from 'fastify'
import type { RefreshToken, RefreshTokens } from './refresh-token.ts'

/** A session that is not refreshed expires after this time. */
const IDLE_LIFETIME = sql.raw(`interval '720 hours'`)
/** A session expires after this time even if it is refreshed. */
const MAX_LIFETIME = sql.raw(`interval '2160 hours'`)
/** A token may be used again for this time, since two tabs may refresh concurrently or a reply may be lost. */
const REUSE_GRACE = sql.raw(`interval '10 seconds'`)
/** Times of the latest rotations that are stored. An older token cannot be reused even within the grace period. */
const MAX_STORED_ROTATIONS = 20
/** A sign-in above this limit ends the session that was used least recently. */
const MAX_SESSIONS_PER_USER = 100

/** A user whose password was verified. */
export interface AuthenticatedUser {
  id: string
  role: string
  /** The stored hash that the password was verified with. */
  passwordHash?: string | null
}

/** The user was deleted, suspended or given another password while the password was being verified. */
export class UserChangedError extends Error {
  override readonly name = 'UserChangedError'
}

/** The result of a sign-in or a refresh. */
export interface SessionGrant {
  sessionId: string
  userId: string
  role: string
  refreshToken: string
  /** Seconds until the refresh token expires if it is not used. */
  refreshExpiresIn: number
}

const findUser = prepare((db) =>
  db
    .select({ id: users.id, role: users.role, status: users.status, password_hash: users.password_hash })
    .from(users)
    .where(eq(users.email, sql.placeholder('email'))),
)

/**
 * Finds the active user with these credentials, after the same time whichever of them is wrong.
 * @param getPasswords returns the password functions with the queue of an account, which need not exist
 * @returns undefined for an unknown address, a wrong password, or an inactive user
 */
export async function signIn(
  database: Database,
  getPasswords: (account: string) => Passwords,
  email: string,
  password: string,
): Promise<AuthenticatedUser | undefined> {
  const [user] = await findUser(database, { email })
  const isRight = await getPasswords(user?.id ?? email).verify(user?.password_hash ?? null, password)
  return isRight && user?.status === 'active' ? { ...user, passwordHash: user.password_hash } : undefined
}

const isCurrent = and(eq(sessions.id, sql.placeholder('id')), gt(sessions.expires_at, sql`now()`))

/** Returns the seconds from a time until the session expires. */
const getSecondsLeft = (from: SQL | PgColumn) =>
  sql<number>`floor(extract(epoch from ${sessions.expires_at} - ${from}))::bigint`

// The lock serializes the sign-ins of a user, so that none exceeds the limit. It also waits for a concurrent change of the
// password, after which PostgreSQL checks the condition again: no session outlives the password it was created with.
const lockUser = prepare((db) =>
  db
    .select({ email_verified_at: users.email_verified_at })
    .from(users)
    .where(
      and(
        eq(users.id, sql.placeholder('id')),
        eq(users.status, 'active'),
        sql`(${sql.placeholder('passwordHash')}::text is null or ${users.password_hash} = ${sql.placeholder('passwordHash')})`,
      ),
    )
    .for('no key update'),
)

// Of several concurrent uses of a token, one rotates it; the others find another generation.
const rotate = prepare((db) =>
  db
    .update(sessions)
    .set({
      generation: sql`${sessions.generation} + 1`,
      refresh_hash: sql`${sql.placeholder('successorHash')}`,
      rotations: sql`array_prepend(now(), ${sessions.rotations}[1:${sql.raw(String(MAX_STORED_ROTATIONS - 1))}])`,
      last_used_at: sql`now()`,
      expires_at: sql`least(now() + ${IDLE_LIFETIME}, ${sessions.ends_at})`,
      revision: sql`${sessions.revision} + 1`,
      updated_at: nextUpdatedAt(sessions),
    })
    .from(users)
    .where(
      and(
        isCurrent,
        eq(users.id, sessions.user_id),
        eq(users.status, 'active'),
        sql`(${users.email_verified_at} is not null or not ${sql.placeholder('requiresVerifiedEmail')}::boolean)`,
        eq(sessions.generation, sql.placeholder('generation')),
        eq(sessions.refresh_hash, sql.placeholder('hash')),
      ),
    )
    .returning({
      user_id: sessions.user_id,
      role: users.role,
      seconds: getSecondsLeft(sessions.last_used_at).as('seconds'),
    }),
)

const findSession = prepare((db) =>
  db
    .select({
      generation: sessions.generation,
      refresh_hash: sessions.refresh_hash,
      user_id: sessions.user_id,
      role: users.role,
      status: users.status,
      email_verified_at: users.email_verified_at,
      seconds: getSecondsLeft(sql`now()`).as('seconds'),
      // Whether the given generation was rotated within the grace period; null if its rotation is no longer stored.
      in_grace: sql<
        boolean | null
      >`${sessions.rotations}[${sessions.generation} - ${sql.placeholder('generation')}::int]
          > now() - ${REUSE_GRACE}`.as('in_grace'),
    })
    .from(sessions)
    .innerJoin(users, eq(users.id, sessions.user_id))
    .where(isCurrent),
)

const insertSession = prepareChange(
  sessions,
  'created',
  (db) =>
    db.insert(sessions).values({
      id: sql.placeholder('id'),
      user_id: sql.placeholder('user_id'),
      refresh_hash: sql.placeholder('refresh_hash'),
      expires_at: sql`now() + ${IDLE_LIFETIME}`,
      ends_at: sql`now() + ${MAX_LIFETIME}`,
      ip: sql.placeholder('ip'),
      user_agent: sql.placeholder('user_agent'),
    }),
  { returning: { seconds: getSecondsLeft(sql`now()`) } },
)

// To make room for one session, deletes those used least recently. Expired ones have ended already, without an event.
const deleteExcess = prepareChange(sessions, 'deleted', (db) => {
  const isOfUser = eq(sessions.user_id, sql.placeholder('user_id'))
  const excess = db
    .select({ id: sessions.id })
    .from(sessions)
    .where(and(isOfUser, gt(sessions.expires_at, sql`now()`)))
    .orderBy(desc(sessions.last_used_at), desc(sessions.id))
    .offset(MAX_SESSIONS_PER_USER - 1)
  return db.delete(sessions).where(and(isOfUser, inArray(sessions.id, excess)))
})

/** Signing in and refreshing need no credential that was checked before. */
const NO_CREDENTIAL = { credential: 'none', credentialId: null } as const

interface SessionOptions extends Pick<FastifyInstance, 'connectionShares'> {
  database: Database
  tokens: RefreshTokens
  recorders: Recorders
  /** Whether only users with a verified address get tokens. */
  requiresVerifiedEmail: boolean
}

export function createSessions({
  database,
  connectionShares,
  tokens,
  recorders,
  requiresVerifiedEmail,
}: SessionOptions) {
  const toGrant = (
    token: RefreshToken,
    { user_id: userId, role, seconds }: { user_id: string; role: string; seconds: number },
  ): SessionGrant => ({
    sessionId: token.sessionId,
    userId,
    role,
    refreshToken: tokens.write(token),
    refreshExpiresIn: seconds,
  })

  /** Returns whether a token becomes the stored one after this many rotations. Costs one HMAC per rotation. */
  const isAncestor = (token: RefreshToken, rotations: number, hash: string): boolean => {
    let latest = token
    for (let i = 0; i < rotations; i++) latest = tokens.getSuccessor(latest)
    return tokens.hash(latest) === hash
  }

  /** Handles a token that is not the current one: returns its successor in the grace period, else ends the session. */
  const handleReuse = async (
    token: RefreshToken,
    requestId: string | null,
  ): Promise<SessionGrant | undefined> => {
    const { sessionId: id, generation } = token
    const [session] = await findSession(database, { id, generation })
    if (session?.status !== 'active') return undefined
    const rotations = session.generation - generation
    // The token is newer than the stored one, as after a restore from a backup. It is no replay, so the session stays.
    if (rotations < 0) return undefined
    // A token older than the stored rotations is always a replay; the limit also bounds the number of HMACs.
    const isInGrace = rotations <= MAX_STORED_ROTATIONS && session.in_grace
    if ((rotations === 0 || isInGrace) && isAncestor(token, rotations, session.refresh_hash)) {
      // The token is the current one: the session stays until the address is verified.
      if (requiresVerifiedEmail && session.email_verified_at === null) throw refuseUnverified()
      if (isInGrace) return toGrant(tokens.getSuccessor(token), session)
    }
    const origin = { ...NO_CREDENTIAL, actorId: null, requestId }
    const context = { connection: database, recorders, origin }
    await changeRows(context, sessions, 'deleted', database.delete(sessions).where(eq(sessions.id, id)))
    return undefined
  }

  return {
    /**
     * Creates a session.
     * @throws UserChangedError if the user can no longer sign in with that password, ApiError 403 if the address has to be
     *   verified first
     */
    async create(
      { id: userId, role, passwordHash = null }: AuthenticatedUser,
      {
        ip,
        userAgent,
        requestId = null,
      }: { ip: string; userAgent: string | undefined; requestId?: string | null },
    ): Promise<SessionGrant> {
      const token = tokens.createFirst(newId())
      const insert = async (tx: Transaction) => {
        const origin = { ...NO_CREDENTIAL, actorId: userId, requestId }
        const context = { connection: tx, recorders, origin }
        const [locked] = await lockUser(tx, { id: userId, passwordHash })
        if (!locked) throw new UserChangedError()
        if (requiresVerifiedEmail && locked.email_verified_at === null) throw refuseUnverified()
        await deleteExcess(context, { user_id: userId })
        const [row] = await insertSession(context, {
          id: token.sessionId,
          user_id: userId,
          refresh_hash: tokens.hash(token),
          ip,
          user_agent: userAgent?.slice(0, 500) ?? null,
        })
        if (!row) throw new Error('The session was not inserted')
        return toGrant(token, { user_id: userId, role, seconds: row.seconds })
      }
      // The user's row may be locked by their own writes.
      return connectionShares.run(userId, () => database.transaction(insert))
    },

    /** Returns the user of a token's session, even if the token itself is outdated; undefined without a session. */
    async findOwner(text: string): Promise<string | undefined> {
      const token = tokens.read(text)
      const [session] = token ? await findSession(database, { id: token.sessionId, generation: 0 }) : []
      return session?.user_id
    },

    /**
     * Rotates a token. Returns undefined if it is invalid; one that was used before ends its session.
     * @throws ApiError 403 if the address has to be verified first
     */
    async refresh(text: string, requestId: string | null = null): Promise<SessionGrant | undefined> {
      const token = tokens.read(text)
      if (!token) return undefined
      const successor = tokens.getSuccessor(token)
      const { sessionId: id, generation } = token
      const hashes = { hash: tokens.hash(token), successorHash: tokens.hash(successor) }
      const [row] = await rotate(database, { id, generation, requiresVerifiedEmail, ...hashes })
      return row ? toGrant(successor, row) : handleReuse(token, requestId)
    },
  }
}

export type Sessions = ReturnType<typeof createSessions>
