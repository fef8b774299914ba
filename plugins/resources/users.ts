/** Users: passwords are hashed here, and the last active admin stays one. */
import { users } from '../../drizzle/tables.ts'
import type { Violation } from '../../schemas/error.ts'
import { User, UserChange, UserCreate } from '../../schemas/users.ts'
import { type Actor, CALLER } from '../access.ts'
import { type AnyCard, defineCollection } from '../collection/define.ts'
import type { Store } from '../collection/store.ts'
import { apiError, invalidBody } from '../errors.ts'
import { hashPassword, verifyPassword } from '../passwords.ts'
import { ordersCard } from './orders.ts'
import { postsCard } from './posts.ts'
import { userProfilesCard } from './user-profiles.ts'

type UserRow = typeof users.$inferSelect

const isActiveAdmin = ({ role, status }: Pick<UserRow, 'role' | 'status'>) =>
  role === 'admin' && status === 'active'

/** Locks all active admins, in id order, so that two of them cannot go at once. */
async function keepAnAdmin(store: Store<UserRow>, leaving: UserRow) {
  const admins = await store.connection.run(
    `select id from users where role = 'admin' and status = 'active' order by id for update`,
  )
  if (admins.every(({ id }) => id === leaving.id)) {
    throw apiError('RESOURCE_CONFLICT', { message: 'The last active admin must stay' })
  }
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

/** One's own password or e-mail address changes only for who knows the password, and holds a token rather than a key. */
async function confirm(current: UserRow, password: string | undefined, actor: Actor) {
  if (actor.credential !== 'token') {
    throw apiError('FORBIDDEN', {
      message: "One's own password and e-mail address are changed with a Bearer token",
    })
  }
  if (password === undefined) {
    throw invalidBody([
      violation('current_password', "is required beside one's own password or email", 'REQUIRED'),
    ])
  }
  if (!(await verifyPassword(current.password_hash, password))) {
    throw apiError('FORBIDDEN', { message: 'The current password is wrong' })
  }
}

/** Role and status are an admin's to change, save that users may set their own status to inactive. */
function guardRank(current: UserRow, next: Pick<UserRow, 'role' | 'status'>, actor: Actor) {
  if (actor.role === 'admin') return
  const ownLeave = current.id === actor.userId && next.status === 'inactive'
  if (next.role !== current.role || (next.status !== current.status && !ownLeave)) {
    throw apiError('FORBIDDEN', { message: 'Only an admin changes role and status' })
  }
}

export const usersCard: AnyCard = defineCollection({
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
    orders: { to: () => ordersCard, local: 'id', foreign: 'user_id', many: true },
    posts: { to: () => postsCard, local: 'id', foreign: 'user_id', many: true },
    profile: { to: () => userProfilesCard, local: 'id', foreign: 'user_id', many: false },
  },
  access: {
    list: { admin: true, manager: true },
    read: { admin: true, manager: true, member: [{ id: CALLER }] },
    create: { admin: true },
    replace: { admin: true, manager: [{ id: CALLER }], member: [{ id: CALLER }] },
    update: { admin: true, manager: [{ id: CALLER }], member: [{ id: CALLER }] },
    remove: { admin: true },
  },
  check: checkPassword,
  actions: {
    prepare: async ({ password }) =>
      password === undefined ? {} : { password_hash: await hashPassword(password) },

    async change(store, current, { next, changed }, actor) {
      const wrong = checkPassword(next)
      if (wrong.length > 0) throw invalidBody(wrong)
      guardRank(current, next, actor)
      const own = current.id === actor.userId
      if (own && (next.password !== undefined || changed.has('email'))) {
        await confirm(current, next.current_password, actor)
      }
      if (isActiveAdmin(current) && !isActiveAdmin(next)) await keepAnAdmin(store, current)
      return store.update(current, next)
    },

    async remove(store, current) {
      if (isActiveAdmin(current)) await keepAnAdmin(store, current)
      await store.remove(current)
    },
  },
})
