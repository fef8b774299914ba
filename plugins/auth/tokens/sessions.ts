/** Creates sessions at sign-in and rotates their refresh tokens. The reuse of an old token ends its session. */
import type { Connection, Database } from '../../../drizzle/client/index.ts'
import { queryRows } from '../../../drizzle/client/query-rows.ts'
import { sessions } from '../../../drizzle/credential-tables.ts'
import { getNextUpdatedAt } from '../../../drizzle/expressions.ts'
import { newId } from '../../../lib/ids.ts'
import type { ChangeOrigin } from '../../outbox/origin.ts'
import { type ChangeContext, changeRows, type Recorders } from '../../outbox/recorder.ts'
import type { RefreshToken, RefreshTokens } from './refresh-token.ts'

/** A session that is not refreshed expires after this time. */
const IDLE_LIFETIME_SECONDS = 30 * 24 * 3600
/** A session expires after this time even if it is refreshed. */
const MAX_LIFETIME_SECONDS = 90 * 24 * 3600
/** A token may be used again for this time, since two tabs may refresh concurrently or a reply may be lost. */
const REUSE_GRACE_SECONDS = 10
/** Times of the latest rotations that are stored. An older token cannot be reused even within the grace period. */
const MAX_STORED_ROTATIONS = 20
/** A sign-in above this limit ends the session that was used least recently. */
const MAX_SESSIONS_PER_USER = 100

export interface Origin {
  ip: string
  userAgent: string | undefined
  requestId?: string
}

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

interface GrantRow {
  user_id: string
  role: string
  /** Until the session expires if it is not used. */
  seconds: number
}

interface SessionRow extends GrantRow {
  generation: number
  refresh_hash: string
  status: string
  /** Whether the given generation was rotated within the grace period; null if its rotation is no longer stored. */
  in_grace: boolean | null
}

const NEW_EXPIRY = `least(now() + make_interval(secs => ${IDLE_LIFETIME_SECONDS}), ends_at)`
const SECONDS_LEFT = `floor(extract(epoch from expires_at - now()))::bigint as seconds`

const INSERT_SESSION = `insert into sessions (id, user_id, refresh_hash, expires_at, ends_at, ip, user_agent)
  values ($1, $2, $3, now() + make_interval(secs => ${IDLE_LIFETIME_SECONDS}), now() + make_interval(secs => ${MAX_LIFETIME_SECONDS}), $4, $5)`

// The lock serializes the sign-ins of a user, so that none exceeds the limit. It also waits for a concurrent change of the
// password, after which PostgreSQL checks the condition again: no session outlives the password it was created with.
const LOCK_USER = `select 1 from users
  where id = $1 and status = 'active' and ($2::text is null or password_hash = $2) for no key update`

// To make room for one session, deletes those used least recently. Expired ones have ended already, without an event.
const DELETE_EXCESS = `delete from sessions where user_id = $1 and id in (
  select id from sessions where user_id = $1 and expires_at > now()
  order by last_used_at desc, id desc offset ${MAX_SESSIONS_PER_USER - 1})`

// Of several concurrent uses of a token, one rotates it; the others find another generation.
const ROTATE = `update sessions s set generation = generation + 1, refresh_hash = $3,
    rotations = array_prepend(now(), s.rotations[1:${MAX_STORED_ROTATIONS - 1}]),
    last_used_at = now(), expires_at = ${NEW_EXPIRY}, revision = s.revision + 1, updated_at = ${getNextUpdatedAt('s.updated_at')}
  from users u where u.id = s.user_id and u.status = 'active'
    and s.id = $1 and s.generation = $2 and s.refresh_hash = $4 and s.expires_at > now()
  returning s.user_id, u.role, floor(extract(epoch from s.expires_at - s.last_used_at))::bigint as seconds`

const SELECT_SESSION = `select s.generation, s.refresh_hash, s.user_id, u.role, u.status, ${SECONDS_LEFT},
    s.rotations[s.generation - $2::int] > now() - make_interval(secs => ${REUSE_GRACE_SECONDS}) as in_grace
  from sessions s join users u on u.id = s.user_id where s.id = $1 and s.expires_at > now()`

const SELECT_OWNER = `select user_id from sessions where id = $1 and expires_at > now()`

const DELETE_SESSION = `delete from sessions where id = $1`

/** The origin of what happens at a sign-in or a refresh: no credential has been checked yet. */
const getSignInOrigin = (actorId: string | null, requestId: string | undefined): ChangeOrigin => ({
  actorId,
  credential: 'none',
  credentialId: null,
  requestId: requestId ?? null,
})

export function createSessions(database: Database, tokens: RefreshTokens, recorders: Recorders) {
  const toGrant = (token: RefreshToken, { user_id, role, seconds }: GrantRow): SessionGrant => ({
    sessionId: token.sessionId,
    userId: user_id,
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
    connection: Connection,
    token: RefreshToken,
    requestId: string | undefined,
  ): Promise<SessionGrant | undefined> => {
    const [session] = await queryRows<SessionRow>(connection, SELECT_SESSION, [
      token.sessionId,
      token.generation,
    ])
    if (session?.status !== 'active') return undefined
    const rotations = session.generation - token.generation
    // The token is newer than the stored one, as after a restore from a backup. It is no replay, so the session stays.
    if (rotations < 0) return undefined
    // A token older than the stored rotations is always a replay; the limit also bounds the number of HMACs.
    if (
      rotations <= MAX_STORED_ROTATIONS &&
      session.in_grace &&
      isAncestor(token, rotations, session.refresh_hash)
    )
      return toGrant(tokens.getSuccessor(token), session)
    const context = { recorders, origin: getSignInOrigin(null, requestId) }
    await changeRows(connection, context, sessions, 'deleted', {
      text: DELETE_SESSION,
      params: [token.sessionId],
    })
    return undefined
  }

  return {
    /**
     * Creates a session.
     * @throws UserChangedError if the user can no longer sign in with that password
     */
    async create(user: AuthenticatedUser, { ip, userAgent, requestId }: Origin): Promise<SessionGrant> {
      const token = tokens.createFirst(newId())
      const context: ChangeContext = { recorders, origin: getSignInOrigin(user.id, requestId) }
      return database.transaction(async (tx) => {
        const [locked] = await tx.run(LOCK_USER, [user.id, user.passwordHash ?? null])
        if (!locked) throw new UserChangedError()
        await changeRows(tx, context, sessions, 'deleted', { text: DELETE_EXCESS, params: [user.id] })
        const [row] = await changeRows<Pick<GrantRow, 'seconds'>>(tx, context, sessions, 'created', {
          text: INSERT_SESSION,
          params: [token.sessionId, user.id, tokens.hash(token), ip, userAgent?.slice(0, 500) ?? null],
          returning: SECONDS_LEFT,
        })
        if (!row) throw new Error('The session was not inserted')
        return toGrant(token, { user_id: user.id, role: user.role, seconds: row.seconds })
      })
    },

    /** Returns the user of a token's session, even if the token itself is outdated; undefined without a session. */
    async findOwner(text: string): Promise<string | undefined> {
      const token = tokens.read(text)
      if (!token) return undefined
      const [row] = await queryRows<{ user_id: string }>(database, SELECT_OWNER, [token.sessionId])
      return row?.user_id
    },

    /** Rotates a token. Returns undefined if it is invalid; one that was used before ends its session. */
    async refresh(text: string, requestId?: string): Promise<SessionGrant | undefined> {
      const token = tokens.read(text)
      if (!token) return undefined
      const successor = tokens.getSuccessor(token)
      const [row] = await queryRows<GrantRow>(database, ROTATE, [
        token.sessionId,
        token.generation,
        tokens.hash(successor),
        tokens.hash(token),
      ])
      return row ? toGrant(successor, row) : handleReuse(database, token, requestId)
    },
  }
}

export type Sessions = ReturnType<typeof createSessions>
