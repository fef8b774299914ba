/** Users: passwords are hashed here, and the last active admin stays one. */
import { users } from '../../drizzle/tables.ts'
import type { Violation } from '../../schemas/error.ts'
import { User, UserChange, UserCreate } from '../../schemas/users.ts'
import { type Actor, CALLER } from '../access/index.ts'
import {
  type Change,
  defineResource,
  type ResourceDefinition,
  type Store,
  type Tools,
} from '../collection/definition.ts'
import { apiError, invalidBody } from '../errors/index.ts'

type UserRow = typeof users.$inferSelect

const isActiveAdmin = ({ role, status }: Pick<UserRow, 'role' | 'status'>) =>
  role === 'admin' && status === 'active'

/** Any number that nobody else uses. */
const LEAVING = 4_271_993_007

/**
 * Admins go one after the other, so that the last two cannot go at once. A lock of their own, not one on each other's
 * rows: each holds their own row already, and two would wait for each other.
 */
async function keepAnAdmin({ connection }: Store<UserRow>, leaving: UserRow) {
  await connection.run('select pg_advisory_xact_lock($1)', [LEAVING])
  const [other] = await connection.run(
    `select 1 from users where role = 'admin' and status = 'active' and id <> $1 limit 1`,
    [leaving.id],
  )
  if (!other) throw apiError('RESOURCE_CONFLICT', { message: 'The last active admin must stay' })
}

const violation = (field: string, message: string, code: Violation['code']): Violation => ({
  field,
  message,
  code,
})

/** Not the e-mail address or the name, in any letter case. */
function checkPassword(body: { password?: string; email?: string; name?: string }): Violation[] {
  const secret = body.password?.toLowerCase()
  if (secret === undefined) return []
  const open = [body.email, body.name].some((text) => text?.toLowerCase() === secret)
  return open ? [violation('password', 'must not be the e-mail address or the name', 'INVALID_VALUE')] : []
}

type Changes = Change<
  Partial<UserRow> & { password?: string; current_password?: string; revoke_api_keys?: boolean }
>

/** Whether what the user signs in with changes. */
const changesSignIn = ({ changed }: Changes) => changed.has('password') || changed.has('email')

/** API keys are deleted only together with a new password or e-mail address: alone, DELETE /api-keys/{id} does it. */
function guardKeyRevocation(change: Changes) {
  if (change.next.revoke_api_keys !== true || changesSignIn(change)) return
  throw invalidBody([
    violation('revoke_api_keys', 'is only valid beside a new password or email', 'INVALID_VALUE'),
  ])
}

/** One's own password or e-mail address changes only for who knows the password. */
const needsConfirmation = (current: UserRow, change: Changes, actor: Actor) =>
  current.id === actor.userId && changesSignIn(change)

/** It is given, and by somebody who signed in: who found a key must not come to own the account. */
function guardConfirmation(current: UserRow, change: Changes, actor: Actor) {
  if (!needsConfirmation(current, change, actor)) return
  if (actor.credential !== 'token') {
    throw apiError('FORBIDDEN', {
      message: "One's own password and e-mail address are changed with a Bearer token",
    })
  }
  if (change.next.current_password === undefined) {
    throw invalidBody([
      violation('current_password', "is required beside one's own password or email", 'REQUIRED'),
    ])
  }
}

/** It is right; a wrong one counts as a failed sign-in. */
async function confirm({ passwords, attempt }: Tools, current: UserRow, password: string) {
  const isRight = await attempt(current.email, () => passwords.verify(current.password_hash, password))
  if (!isRight) {
    throw apiError('FORBIDDEN', { message: 'The current password is wrong' })
  }
}

/** An address that an admin sets for another user is confirmed; one that users set for themselves is not. */
const confirmsEmail = (current: UserRow, actor: Actor): boolean =>
  actor.role === 'admin' && current.id !== actor.userId

/** Role and status are an admin's to change, save that users may set their own status to inactive. */
function guardRank(current: UserRow, next: Pick<UserRow, 'role' | 'status'>, actor: Actor) {
  if (actor.role === 'admin') return
  const ownLeave = current.id === actor.userId && next.status === 'inactive'
  if (next.role !== current.role || (next.status !== current.status && !ownLeave)) {
    throw apiError('FORBIDDEN', { message: 'Only an admin changes role and status' })
  }
}

/** Signs a user out, save, as long as they stay active, where they just proved who they are. */
const endSessions = ({ connection }: Store<UserRow>, { id, status }: UserRow, actor: Actor) =>
  connection.run('delete from sessions where user_id = $1 and id is distinct from $2::uuid', [
    id,
    (status === 'active' && id === actor.userId && actor.sessionId) || null,
  ])

/** Takes effect within 5 s in other processes, and at once in this one, which forgets credentials after such a write. */
const deleteApiKeys = ({ connection }: Store<UserRow>, { id }: UserRow) =>
  connection.run('delete from api_keys where user_id = $1', [id])

export const usersResource: ResourceDefinition = defineResource({
  name: 'users',
  singular: 'User',
  plural: 'Users',
  description: 'Who may call, and whom everything belongs to. `me` stands for the caller',
  table: users,
  me: true,
  schemas: { read: User, create: UserCreate, change: UserChange },
  kept: ['role', 'status'],
  filters: ['status', 'role'],
  sorts: {
    name: users.name,
    email: users.email,
    created_at: users.created_at,
    updated_at: users.updated_at,
  },
  search: ['name', 'email'],
  relations: {
    orders: { to: 'orders', local: 'id', foreign: 'user_id', many: true },
    posts: { to: 'posts', local: 'id', foreign: 'user_id', many: true },
    profile: { to: 'user-profiles', local: 'id', foreign: 'user_id', many: false },
  },
  access: {
    list: { admin: true, manager: true },
    read: { admin: true, manager: true, member: [{ id: CALLER }] },
    // Signing up, where it is allowed.
    create: { admin: true, anonymous: true },
    replace: { admin: true, manager: [{ id: CALLER }], member: [{ id: CALLER }] },
    update: { admin: true, manager: [{ id: CALLER }], member: [{ id: CALLER }] },
    remove: { admin: true },
  },
  withheld: (actor) => (actor.role === 'anonymous' ? ['role', 'status'] : []),
  check: checkPassword,
  actions: {
    guard(current, change, actor) {
      const wrong = checkPassword(change.next)
      if (wrong.length > 0) throw invalidBody(wrong)
      guardRank(current, change.next, actor)
      guardConfirmation(current, change, actor)
      guardKeyRevocation(change)
    },

    async prepare({ password, current_password = '' }, actor, tools, seen) {
      const confirmed = seen !== undefined && needsConfirmation(seen.current, seen.change, actor)
      if (confirmed) await confirm(tools, seen.current, current_password)
      return {
        columns: {
          ...(password !== undefined && { password_hash: await tools.passwords.hash(password) }),
          // Where there is no row yet, this is a creation; `change` decides for the others.
          ...(seen === undefined && { email_is_confirmed: actor.role === 'admin' }),
        },
        holds: (current, change) =>
          !needsConfirmation(current, change, actor) ||
          (confirmed && current.password_hash === seen.current.password_hash),
      }
    },

    async change(store, current, change, actor) {
      const { next } = change
      if (isActiveAdmin(current) && !isActiveAdmin(next)) await keepAnAdmin(store, current)
      const email_is_confirmed = change.changed.has('email')
        ? confirmsEmail(current, actor)
        : current.email_is_confirmed
      const user = await store.update(current, { ...next, email_is_confirmed })
      if (changesSignIn(change) || user.status !== 'active') await endSessions(store, user, actor)
      if (next.revoke_api_keys === true) await deleteApiKeys(store, user)
      return user
    },

    async remove(store, current) {
      if (isActiveAdmin(current)) await keepAnAdmin(store, current)
      await store.remove(current)
    },
  },
})
