/** Email verifications: the mail with a link to the present or a new address of the caller, and its completion. */
import { type Connection, newId, prepare, users } from '@resource-api/database'
import { mapInTurns, type Transaction } from '@resource-api/database/internal'
import { apiError, invalidBody } from '@resource-api/http'
import { createChallenge, createViolation, getLifetime } from '@resource-api/http/internal'
import {
  type Mailer,
  toTimestamp,
  type WriteInput,
  type WriteOperation,
} from '@resource-api/resources/internal'
import { and, eq, sql } from 'drizzle-orm'
import type { FastifyInstance } from 'fastify'
import { lockCaller } from '../auth/lock-caller.ts'
import { createUserChange, type LinkCall } from './change-user.ts'
import { deleteLink, findLink, refuseLink, voidOtherVerifications } from './links.ts'
import { sendVerification, VERIFICATION_LIFETIME_MS } from './send-verification.ts'

/** The fields of a verification in responses. */
export interface Verification {
  id: string
  email: string
  status: 'pending' | 'completed'
  /** RFC 3339. */
  expires_at: string
}

interface VerificationRequest {
  /** In lower case. Default: the present address. */
  email?: string
  current_password?: string
}

interface VerificationInput extends WriteInput {
  wanted: VerificationRequest
}

const findCaller = prepare((db) =>
  db
    .select({ id: users.id, email: users.email, password_hash: users.password_hash })
    .from(users)
    .where(eq(users.id, sql.placeholder('id'))),
)

type Caller = Awaited<ReturnType<typeof findCaller>>[number]

const lockActiveUser = prepare((db) =>
  db
    .select({ id: users.id })
    .from(users)
    .where(and(eq(users.id, sql.placeholder('id')), eq(users.status, 'active')))
    .for('no key update'),
)

export function createVerifications(app: FastifyInstance, mail: Mailer) {
  const { connectionShares, database, limits, outbox, passwords } = app
  const changeUser = createUserChange(app.resources)

  const verify = async (
    tx: Transaction,
    call: LinkCall,
    link: { id: string; token: string },
    userId: string,
  ) => {
    // The user before the link, as in a change of the user, which voids the link.
    const [user] = await lockActiveUser(tx, { id: userId })
    const found = user && (await findLink(tx, { kinds: ['verify'], ...link }, true))
    if (!found) throw refuseLink()
    const email_verified_at = new Date().toISOString()
    await changeUser(tx, call, userId, { email: found.email, email_verified_at })
    await deleteLink(tx, found)
    return found
  }

  /** @throws ApiError 409 if another request has changed the password or the address since */
  const start = async (
    tx: Connection,
    { wanted }: VerificationInput,
    caller: Caller,
    confirmed: unknown,
  ): Promise<Verification> => {
    const email = wanted.email ?? caller.email
    if (email !== caller.email && (confirmed === null || confirmed !== caller.password_hash)) {
      const message = 'Another request changed the user in the meantime; try again'
      throw apiError('RESOURCE_CONFLICT', { message })
    }
    const purpose = email === caller.email ? 'verify' : 'change'
    const link = await sendVerification(tx, mail, { purpose, userId: caller.id, email })
    if (link) await voidOtherVerifications(tx, { userId: caller.id, keptEmail: email })
    const [id, expires_at] = link
      ? [link.id, toTimestamp(link.expiresAt)]
      : [newId(), new Date(Date.now() + VERIFICATION_LIFETIME_MS).toISOString()]
    return { id, email, status: 'pending', expires_at }
  }

  /** The mail with a link to the caller's address, or to one that becomes theirs. */
  const verification: WriteOperation<VerificationInput, Caller> = {
    isIdempotent: true,

    read(call) {
      call.check()
      const { members, prefix } = call.open()
      // Validated by the schema of the route.
      return { call, prefix, wanted: members as VerificationRequest }
    },

    /** @throws ApiError 401 if the caller has signed out */
    async find(connection, { call }, isLocking) {
      const { actor } = call.address
      if (isLocking) await lockCaller(connection, actor)
      const [caller] = await findCaller(connection, { id: actor.userId })
      if (!caller) throw createChallenge({ message: 'Invalid or expired token', error: 'invalid_token' })
      return caller
    },

    /**
     * Verifies the current password, which a new address requires.
     * @returns the hash that it has
     * @throws ApiError 403, 422, 429
     */
    async prepare(_connection, { call, wanted }, { id, email, password_hash }) {
      if (wanted.email === undefined || wanted.email === email) return undefined
      const { current_password } = wanted
      if (current_password === undefined) {
        const message = 'is required for a new email'
        throw invalidBody([createViolation('current_password', message, 'REQUIRED')])
      }
      const { verify: verifyPassword } = passwords.for(id, getLifetime(call.reply.raw))
      // A wrong password counts as a failed sign-in.
      const isRight = await limits.confirmPassword(call.request, id, email, () =>
        verifyPassword(password_hash, current_password),
      )
      if (!isRight) throw apiError('FORBIDDEN', { message: 'The current password is incorrect' })
      return { columns: { password_hash } }
    },

    write: (tx, writes) =>
      mapInTurns(writes, async ({ input, found, prepared = { columns: { password_hash: null } } }) => ({
        status: 201,
        returned: await start(tx, input, found, prepared.columns.password_hash),
      })),
  }

  return {
    verification,

    /**
     * Returns what a link verifies: the present address of its user, or a new one.
     * @throws ApiError 403 if it cannot be used
     */
    async findVerification(link: { id: string; token: string }): Promise<{ email: string; isNew: boolean }> {
      const found = await findLink(database, { kinds: ['verify'], ...link })
      const [user] = found ? await findCaller(database, { id: found.subject }) : []
      if (!found || !user) throw refuseLink()
      return { email: found.email, isNew: found.email !== user.email }
    },

    /**
     * Verifies the address to which the link was sent, and gives it to the user if it is another one.
     * @throws ApiError 403 if the link cannot be used; 409 if another user has the address, and then it can still be used
     */
    async completeVerification(call: LinkCall, link: { id: string; token: string }): Promise<Verification> {
      const sent = await findLink(database, { kinds: ['verify'], ...link })
      if (!sent) throw refuseLink()
      const userId = sent.subject
      const found = await connectionShares.run(userId, () =>
        database.transaction((tx) => verify(tx, call, link, userId)),
      )
      outbox.publish()
      const { id, email, expires_at } = found
      return { id, email, status: 'completed', expires_at: toTimestamp(expires_at) }
    },
  }
}
