/** Sessions: begun by signing in, kept by refreshing, ended by signing out, by time, or by a token used twice. */

import type { Connection, Database } from '../../../drizzle/client/index.ts'
import { newId } from '../../../lib/ids.ts'
import type { RefreshToken, RefreshTokens } from './refresh-token.ts'

/** Seconds. */
const IDLE_LIFE = 30 * 24 * 3600
const WHOLE_LIFE = 90 * 24 * 3600
/** Seconds in which a token may be used again: two tabs refresh at once, a reply is lost. */
const GRACE = 10
/** How many of the latest rotations are remembered: beyond these, a token is not good even within the grace. */
const KEPT = 20
/** Sessions per user: a sign-in beyond these ends the one that was used least recently. */
const MAX_SESSIONS_PER_USER = 100

export interface Origin {
  ip: string
  userAgent: string | undefined
}

/** A user whose credentials were checked. */
export interface SigningIn {
  id: string
  role: string
  /** The stored hash that the password was verified with. */
  passwordHash?: string | undefined
}

/** The user was deleted, suspended or given another password while the password was being verified. */
export class UserChangedError extends Error {
  override readonly name = 'UserChangedError'
}

/** What a session gives out. */
export interface Grant {
  sessionId: string
  userId: string
  role: string
  refreshToken: string
  /** Seconds until the refresh token ends, if it is not used. */
  refreshExpiresIn: number
}

const lives = `least(now() + make_interval(secs => ${IDLE_LIFE}), ends_at)`
const seconds = `floor(extract(epoch from expires_at - now()))::bigint as seconds`

const BEGIN = `insert into sessions (id, user_id, refresh_hash, expires_at, ends_at, ip, user_agent)
  values ($1, $2, $3, now() + make_interval(secs => ${IDLE_LIFE}), now() + make_interval(secs => ${WHOLE_LIFE}), $4, $5)
  returning ${seconds}`

// The lock makes the sign-ins of one user wait for each other, so that none goes beyond the limit, and for a change of
// the password, after which its condition is checked again: the session would outlive the password that began it.
const LOCK_USER = `select 1 from users
  where id = $1 and status = 'active' and ($2::text is null or password_hash = $2) for no key update`

// Makes room for one session: those that have expired go, then those that were used least recently.
const PRUNE = `delete from sessions where user_id = $1 and (expires_at <= now() or id in (
  select id from sessions where user_id = $1 and expires_at > now()
  order by last_used_at desc, id desc offset ${MAX_SESSIONS_PER_USER - 1}))`

// One statement decides which of several uses of a token rotates it: the others find another generation.
const ROTATE = `update sessions s set generation = generation + 1, refresh_hash = $3,
    rotations = array_prepend(now(), s.rotations[1:${KEPT - 1}]),
    last_used_at = now(), expires_at = ${lives}, revision = s.revision + 1, updated_at = clock_timestamp()
  from users u where u.id = s.user_id and u.status = 'active'
    and s.id = $1 and s.generation = $2 and s.refresh_hash = $4 and s.expires_at > now()
  returning s.user_id, u.role, ${seconds}`

const FIND = `select s.generation, s.refresh_hash, s.user_id, u.role, u.status, ${seconds},
    s.rotations[s.generation - $2::int] > now() - make_interval(secs => ${GRACE}) as fresh
  from sessions s join users u on u.id = s.user_id where s.id = $1 and s.expires_at > now()`

const OWNER = `select user_id from sessions where id = $1 and expires_at > now()`

const END = `delete from sessions where id = $1`

export function createSessions(database: Database, tokens: RefreshTokens) {
  const grant = (token: RefreshToken, userId: unknown, role: unknown, left: unknown): Grant => ({
    sessionId: token.sessionId,
    userId: String(userId),
    role: String(role),
    refreshToken: tokens.write(token),
    refreshExpiresIn: Number(left),
  })

  /** Whether so many rotations of a token lead to the one whose hash is stored. Costs one HMAC per rotation. */
  const leadsTo = (token: RefreshToken, rotations: number, hash: unknown): boolean => {
    let latest = token
    for (let i = 0; i < rotations; i++) latest = tokens.successor(latest)
    return tokens.hash(latest) === hash
  }

  /** A use of a token that is not the current one: its successor within the grace, else the end of the session. */
  const again = async (connection: Connection, token: RefreshToken): Promise<Grant | undefined> => {
    const [found] = await connection.run(FIND, [token.sessionId, token.generation])
    if (found?.status !== 'active') return undefined
    const rotations = Number(found.generation) - token.generation
    // Newer than the stored one, as after a restore from a backup: not a replay, so the session goes on.
    if (rotations < 0) return undefined
    // An older token than the remembered rotations is a replay in any case. Its chain could be of any length.
    if (rotations <= KEPT && found.fresh === true && leadsTo(token, rotations, found.refresh_hash))
      return grant(tokens.successor(token), found.user_id, found.role, found.seconds)
    await connection.run(END, [token.sessionId])
    return undefined
  }

  return {
    /** @throws UserChangedError where the user can no longer sign in with that password */
    async begin(user: SigningIn, { ip, userAgent }: Origin): Promise<Grant> {
      const token = tokens.first(newId())
      const [row] = await database.transaction(async (tx) => {
        const [locked] = await tx.run(LOCK_USER, [user.id, user.passwordHash ?? null])
        if (!locked) throw new UserChangedError()
        await tx.run(PRUNE, [user.id])
        return tx.run(BEGIN, [
          token.sessionId,
          user.id,
          tokens.hash(token),
          ip,
          userAgent?.slice(0, 500) ?? null,
        ])
      })
      return grant(token, user.id, user.role, row?.seconds)
    },

    /** Whose session a token is of, be it good still or not; undefined where there is none. */
    async ownerOf(text: string): Promise<string | undefined> {
      const token = tokens.read(text)
      if (!token) return undefined
      const [row] = await database.run(OWNER, [token.sessionId])
      return row && String(row.user_id)
    },

    /** Undefined for a token that is not good any more; one that was used before ends its session. */
    async refresh(text: string): Promise<Grant | undefined> {
      const token = tokens.read(text)
      if (!token) return undefined
      const successor = tokens.successor(token)
      const [row] = await database.run(ROTATE, [
        token.sessionId,
        token.generation,
        tokens.hash(successor),
        tokens.hash(token),
      ])
      return row ? grant(successor, row.user_id, row.role, row.seconds) : again(database, token)
    },
  }
}

export type Sessions = ReturnType<typeof createSessions>
