/** Checks an e-mail address and a password, with the same result and duration whichever of them is wrong. */
import type { Database } from '../../../drizzle/client/index.ts'
import type { Passwords } from '../passwords.ts'
import type { AuthenticatedUser } from './sessions.ts'

const SELECT_USER = `select id, role, status, password_hash from users where email = $1`

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
  const [user] = await database.run(SELECT_USER, [email])
  const hash = typeof user?.password_hash === 'string' ? user.password_hash : null
  const isRight = await getPasswords(String(user?.id ?? email)).verify(hash, password)
  return isRight && user && user.status === 'active'
    ? { id: String(user.id), role: String(user.role), passwordHash: hash ?? undefined }
    : undefined
}
