/** Password resets: the mail with a link, and the new password that its receiver sets. An invitation is a longer one. */
import { invalidBody } from '@resource-api/api/errors'
import { getLifetime } from '@resource-api/api/requests'
import { newId, prepare, users } from '@resource-api/database'
import type { Transaction } from '@resource-api/database/client'
import { userIdentities } from '@resource-api/database/tables'
import { getClientIp } from '@resource-api/http/internal'
import { type Mailer, toTimestamp } from '@resource-api/resources/internal'
import { and, eq, sql } from 'drizzle-orm'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { clearQuotas } from '../mail/quotas.ts'
import { createUserChange, type LinkCall } from './change-user.ts'
import { findLink, PASSWORD_LINKS, refuseLink } from './links.ts'
import { RESET_LIFETIME_MS, sendReset } from './send-reset.ts'

/** The fields of a reset in responses. */
export interface Reset {
  id: string
  status: 'pending' | 'completed'
  /** RFC 3339. */
  expires_at: string
}

export interface ResetCompletion {
  id: string
  token: string
  password: string
  revoke_api_keys?: boolean
}

const isActive = and(eq(users.email, sql.placeholder('email')), eq(users.status, 'active'))

const findActiveUser = prepare((db) => db.select({ id: users.id }).from(users).where(isActive))

const lockActiveUser = prepare((db) =>
  db
    .select({ id: users.id, email_verified_at: users.email_verified_at })
    .from(users)
    .where(isActive)
    .for('no key update'),
)

const deleteIdentities = prepare((db) =>
  db.delete(userIdentities).where(eq(userIdentities.user_id, sql.placeholder('userId'))),
)

export function createResets(app: FastifyInstance, mail: Mailer) {
  const { connectionShares, database, outbox, passwords } = app
  const changeUser = createUserChange(app.resources)
  const { check } = app.resources.find(({ table }) => table === users) ?? {}

  const setPassword = async (
    tx: Transaction,
    call: LinkCall,
    { id, token, password, revoke_api_keys }: ResetCompletion,
    { email, password_hash }: { email: string; password_hash: string },
  ) => {
    // The user before the link, as in a change of the user, which voids the link.
    const [user] = await lockActiveUser(tx, { email })
    const link = user && (await findLink(tx, { kinds: PASSWORD_LINKS, id, token }, true))
    if (!link) throw refuseLink()
    // Until now, anyone may have used the account, who entered the address of another person: no key or provider remains.
    const isFirstProof = user.email_verified_at === null
    await changeUser(tx, call, user.id, {
      email_verified_at: new Date().toISOString(),
      ...{ password, password_hash, ...((revoke_api_keys || isFirstProof) && { revoke_api_keys: true }) },
    })
    if (isFirstProof) await deleteIdentities(tx, { userId: user.id })
    await clearQuotas(tx, PASSWORD_LINKS, email)
    return link
  }

  return {
    /**
     * Sends a mail with a link if an active user has the address. Runs the same statements if none has.
     * @param email in lower case
     */
    async requestReset(email: string): Promise<Reset> {
      const link = await database.transaction((tx) => sendReset(tx, mail, { purpose: 'reset', email }))
      outbox.publish()
      const [id, expires_at] = link
        ? [link.id, toTimestamp(link.expiresAt)]
        : [newId(), new Date(Date.now() + RESET_LIFETIME_MS).toISOString()]
      return { id, status: 'pending', expires_at }
    },

    /** Returns the link of a reset or an invitation. @throws ApiError 403 if it cannot be used */
    async findReset(link: { id: string; token: string }): Promise<{ email: string }> {
      const found = await findLink(database, { kinds: PASSWORD_LINKS, ...link })
      if (!found) throw refuseLink()
      return found
    },

    /**
     * Sets the password of the user who received the link.
     * @throws ApiError 403 if the link cannot be used; 422 for the password, and then it can still be used
     */
    async completeReset(
      request: FastifyRequest,
      reply: FastifyReply,
      completion: ResetCompletion,
    ): Promise<Reset> {
      const { id, token, password } = completion
      const violations = check?.({ password }, 'update') ?? []
      if (violations.length > 0) throw invalidBody(violations)
      // Only the right token leads to hashing.
      const found = await findLink(database, { kinds: PASSWORD_LINKS, id, token })
      if (!found) throw refuseLink()
      const { email } = found
      const password_hash = await passwords.for(getClientIp(request), getLifetime(reply.raw)).hash(password)
      const [user] = await findActiveUser(database, { email })
      if (!user) throw refuseLink()
      // The user's row may be locked by their own writes.
      const link = await connectionShares.run(user.id, () =>
        database.transaction((tx) =>
          setPassword(tx, { request, reply }, completion, { email, password_hash }),
        ),
      )
      outbox.publish()
      return { id: link.id, status: 'completed', expires_at: toTimestamp(link.expires_at) }
    },
  }
}
