/** Checks an e-mail address and a password, with the same result and duration whichever of them is wrong. */
import type { Database } from '../../../drizzle/client/index.ts'
import { queryRows } from '../../../drizzle/client/query-rows.ts'
import type { Passwords } from '../passwords.ts'
import type { AuthenticatedUser } from './sessions.ts'

const SELECT_USER = `select id, role, status, password_hash from users where email = $1`

interface UserRow {
  id: string
  role: string
  status: string
  password_hash: string | null
}

/**
 * Finds the active user with these credentials.
 * @param getPasswords returns the password functions with the queue of an account, which need not exist
 * @returns undefined for an unknown address, a wrong password, or an inactive user
 */
export async function signIn(
  database: Database,
  getPasswords: (account: string) => Passwords,
  email: string,
  password: string,
): Promise<AuthenticatedUser | undefined> {
  const [user] = await queryRows<UserRow>(database, SELECT_USER, [email])
  const hash = user?.password_hash ?? null
  const isRight = await getPasswords(user?.id ?? email).verify(hash, password)
  return isRight && user?.status === 'active'
    ? { id: user.id, role: user.role, passwordHash: hash }
    : undefined
}
