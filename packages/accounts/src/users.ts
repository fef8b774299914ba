/** Users: hashes passwords, protects the account of a user, and keeps one active admin. */

import type { Actor } from '@resource-api/api/actor'
import { apiError, invalidBody, type Violation } from '@resource-api/api/errors'
import { CALLER } from '@resource-api/api/rules'
import { createViolation } from '@resource-api/api/validation'
import { users as table, toEveryRole, userProfiles } from '@resource-api/database'
import { toStaff } from '@resource-api/database/roles'
import { apiKeys, hashForLock, sessions } from '@resource-api/database/tables'
import { type ChangeOf, type CreateOf, collection, type RemoveOf } from '@resource-api/resources'
import { type Change, changeRows, type Store } from '@resource-api/resources/internal'
import { and, eq, ne, sql } from 'drizzle-orm'
import { voidLinks } from './accounts/links.ts'
import { sendNotice } from './accounts/notices.ts'
import { sendReset } from './accounts/send-reset.ts'
import { signUp } from './accounts/sign-up.ts'
import { isCommonPassword } from './auth/common-passwords.ts'
import { listProviders } from './auth/identities.ts'
import { User, UserChange, UserCreate } from './schemas/users.ts'

export type UserRow = typeof table.$inferSelect

const isActiveAdmin = ({ role, status }: Pick<UserRow, 'role' | 'status'>) =>
  role === 'admin' && status === 'active'

/** The key is that of the table: removals in other schemas of the database do not wait for it. */
const LOCK_ADMIN_REMOVAL = sql`select pg_advisory_xact_lock(${hashForLock(table, 4271993007)})`

const LAST_ADMIN = 'The last active admin cannot be deleted, deactivated or given another role'

/**
 * Checks that another active admin remains. An advisory lock makes concurrent removals wait for each other, so that the
 * last two admins cannot remove themselves in parallel. Locking the rows of the other admins would deadlock, since each
 * transaction has locked one of them already.
 * @throws ApiError 409
 */
async function ensureAnotherAdmin({ connection }: Store<UserRow>, removed: UserRow) {
  await connection.execute(LOCK_ADMIN_REMOVAL)
  const [other] = await connection
    .select({ id: table.id })
    .from(table)
    .where(and(eq(table.role, 'admin'), eq(table.status, 'active'), ne(table.id, removed.id)))
    .limit(1)
  if (!other) throw apiError('RESOURCE_CONFLICT', { message: LAST_ADMIN })
}

/** Checks that the password is not the email address, the name or a common one, regardless of case. */
function checkPassword(body: { password?: string; email?: string; name?: string }): Violation[] {
  const password = body.password?.toLowerCase()
  if (password === undefined) return []
  const isGuessable = [body.email, body.name].some((text) => text?.toLowerCase() === password)
  if (isGuessable) {
    return [createViolation('password', 'must differ from the email address and the name', 'INVALID_VALUE')]
  }
  if (!isCommonPassword(password)) return []
  return [createViolation('password', 'is one of the most common passwords', 'INVALID_VALUE')]
}

/** A change of a user, with fields that no column has. */
export type UserChanges = Change<
  UserRow & { password?: string; current_password?: string; revoke_api_keys?: boolean }
>

/** Returns whether the password or the email address changes. */
const changesSignIn = ({ changed }: UserChanges) => changed.has('password') || changed.has('email')

/** Returns whether the caller must confirm the change with their current password. */
const needsConfirmation = (current: UserRow, change: UserChanges, actor: Actor) =>
  current.id === actor.userId && changesSignIn(change)

/**
 * Checks that the current password was sent, and with a Bearer token: a stolen API key must not be enough to take over
 * the account.
 * @throws ApiError 403 or 422
 */
function guardConfirmation(current: UserRow, change: UserChanges, actor: Actor) {
  if (!needsConfirmation(current, change, actor)) return
  if (actor.credential !== 'token') {
    throw apiError('FORBIDDEN', {
      message: 'Changing your own password or email address requires a Bearer token',
    })
  }
  if (change.next.current_password !== undefined) return
  const message = 'is required to change your own password or email'
  throw invalidBody([createViolation('current_password', message, 'REQUIRED')])
}

/**
 * Lets only admins change role and status, except that users may set their own status to "inactive".
 * @throws ApiError 403
 */
function guardRoleAndStatus(current: UserRow, next: Pick<UserRow, 'role' | 'status'>, actor: Actor) {
  if (actor.role === 'admin') return
  const isOwnDeactivation = current.id === actor.userId && next.status === 'inactive'
  if (next.role === current.role && (next.status === current.status || isOwnDeactivation)) return
  throw apiError('FORBIDDEN', { message: 'Only an admin can change role and status' })
}

/** Ends the sessions of a user, except that of the caller if they changed their own account and it is still active. */
const endSessions = (store: Store<UserRow>, { id, status }: UserRow, actor: Actor) => {
  const kept = status === 'active' && id === actor.userId ? actor.sessionId : undefined
  const ended = and(eq(sessions.user_id, id), kept === undefined ? undefined : ne(sessions.id, kept))
  return changeRows(store, sessions, 'deleted', store.connection.delete(sessions).where(ended))
}

/** Other processes accept the keys for up to 5 s; this process clears its credential cache after the write. */
const deleteApiKeys = (store: Store<UserRow>, { id }: UserRow) =>
  changeRows(store, apiKeys, 'deleted', store.connection.delete(apiKeys).where(eq(apiKeys.user_id, id)))

/**
 * Voids resets and invitations to the former and the new address, and verifications. If only the password changed, that of
 * the present address stays, and one of a new address goes: who requested it may have known the former password.
 */
const voidLinksOf = ({ connection }: Store<UserRow>, former: UserRow, user?: UserRow) =>
  voidLinks(connection, {
    emails: [former.email, user?.email ?? former.email],
    userId: former.id,
    keptEmail: user?.status === 'active' && user.email === former.email ? user.email : null,
  })

const relations = {
  profile: { to: userProfiles, local: 'id', foreign: 'user_id', many: false },
} as const

const own = [{ id: CALLER }] as const

export const users = collection({
  table,
  description: 'Accounts that call the API and own resources. `me` stands for the id of the caller',
  system: { isCredential: true, me: true },
  schemas: { read: User, create: UserCreate, change: UserChange },
  bodies: {
    kept: ['role', 'status'],
    notImported: ['password', 'current_password', 'revoke_api_keys', 'invite'],
    // A new address of one's own is verified first: a 409 would say that another user has it.
    locked: (actor, id, { mail }) => (mail?.isDelivered && id === actor.userId ? ['email'] : []),
    withheld: (actor) => (actor.role === 'anonymous' ? ['role', 'status', 'invite'] : []),
  },
  lists: {
    filters: ['status', 'role', 'email'],
    negations: ['status'],
    prefixes: ['name', 'email'],
    sorts: ['name', 'email', 'created_at', 'updated_at'],
    search: ['name', 'email'],
    aggregates: { measures: ['created_at'], groups: ['role', 'status', 'created_at'] },
  },
  relations,
  access: {
    list: { ...toStaff(true), admin: true },
    read: { ...toEveryRole(own), ...toStaff(true), admin: true },
    // Anonymous callers sign up, if ALLOW_SIGNUP is set.
    create: { admin: true, anonymous: true },
    replace: { ...toEveryRole(own), admin: true },
    update: { ...toEveryRole(own), admin: true },
    remove: { admin: true },
  },
  check: checkPassword,
})

export const userCreate: CreateOf<typeof users> = {
  prepare: async ({ body: { password }, actor, tools: { passwords } }) => ({
    columns: {
      ...(password !== undefined && { password_hash: await passwords.hash(password) }),
      ...(actor.role === 'admin' && { email_verified_at: new Date().toISOString() }),
    },
  }),
  async runAlone({ store, id, body: { invite = true, ...body }, actor }) {
    if (store.mail && actor.role === 'anonymous') return signUp(store, store.mail, { ...body, id })
    const user = await store.insert(body)
    const needsPassword = user.password_hash === null && user.status === 'active'
    if (store.mail && invite && needsPassword && actor.role === 'admin')
      await sendReset(store.connection, store.mail, { purpose: 'invite', email: user.email })
    return user
  },
}

/** Returns whether a change sets the first password of someone who follows a link, and who could not sign in before. */
const acceptsInvitation = async (
  { connection }: Store<UserRow>,
  { id, password_hash }: UserRow,
  { changed }: UserChanges,
) =>
  // Only a link from a mail changes it.
  changed.has('email_verified_at') &&
  password_hash === null &&
  (await listProviders(connection, { user_id: id })).length === 0

/** Changes a user, and ends the sessions and links that it makes void. */
export async function changeUser(
  store: Store<UserRow>,
  current: UserRow,
  change: UserChanges,
  actor: Actor,
): Promise<UserRow> {
  const { next } = change
  if (isActiveAdmin(current) && !isActiveAdmin(next)) await ensureAnotherAdmin(store, current)
  const user = await store.update(current, {
    ...next,
    // A new address is verified only if an admin sets it for another user.
    ...(change.changed.has('email') && {
      email_verified_at:
        actor.role === 'admin' && current.id !== actor.userId ? new Date().toISOString() : null,
    }),
  })
  if (changesSignIn(change) || user.status !== 'active') {
    await endSessions(store, user, actor)
    await voidLinksOf(store, current, user)
  }
  if (next.revoke_api_keys === true) await deleteApiKeys(store, user)
  // To the former address: who took over an account cannot hide it by changing the address.
  if (change.changed.has('password') && !(await acceptsInvitation(store, current, change)))
    await sendNotice(store, 'password-changed', current)
  if (change.changed.has('email')) await sendNotice(store, 'email-changed', current)
  return user
}

export const userChange: ChangeOf<typeof users> = {
  description:
    'Where the server sends mails (`MAIL_URL`), your own `email` is read-only: you verify the new address instead.',
  conflicts: [{ name: 'admin', message: LAST_ADMIN }],
  guard({ current, actor, ...change }) {
    const violations = checkPassword(change.next)
    if (violations.length > 0) throw invalidBody(violations)
    guardRoleAndStatus(current, change.next, actor)
    guardConfirmation(current, change, actor)
    // DELETE /api-keys/{id} deletes single keys.
    if (change.next.revoke_api_keys === true && !changesSignIn(change)) {
      const message = 'is valid only together with a new password or email'
      throw invalidBody([createViolation('revoke_api_keys', message, 'INVALID_VALUE')])
    }
  },
  async prepare({ body: { password, current_password = '' }, current: seen, actor, tools, ...change }) {
    const isConfirmed = needsConfirmation(seen, change, actor)
    if (isConfirmed) {
      const verify = () => tools.passwords.verify(seen.password_hash, current_password)
      // A wrong password counts as a failed sign-in.
      if (!(await tools.attempt(seen.email, verify)))
        throw apiError('FORBIDDEN', { message: 'The current password is incorrect' })
    }
    return {
      columns: password === undefined ? {} : { password_hash: await tools.passwords.hash(password) },
      stillApplies: (current, next) =>
        !needsConfirmation(current, next, actor) ||
        (isConfirmed && current.password_hash === seen.password_hash),
    }
  },
  run: ({ store, current, actor, ...change }) => changeUser(store, current, change, actor),
}

export const userRemove: RemoveOf<typeof users> = {
  conflicts: [{ name: 'admin', message: LAST_ADMIN }],
  async run({ store, current }) {
    if (isActiveAdmin(current)) await ensureAnotherAdmin(store, current)
    await store.remove(current)
    await voidLinksOf(store, current)
  },
}
