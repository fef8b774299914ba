/** Signing in with an e-mail address and a password: one answer, in one time, whatever of the two is wrong. */
import type { Database } from '../../../drizzle/client/index.ts'
import type { Passwords } from '../passwords.ts'
import type { SigningIn } from './sessions.ts'

const FIND = `select id, role, status, password_hash from users where email = $1`

/**
 * @param passwordsFor the work of one account, known or not, waits in a queue of its own
 * @returns undefined for an unknown address, a wrong password, and one who is not active
 */
export async function signIn(
  database: Database,
  passwordsFor: (user: string) => Passwords,
  email: string,
  password: string,
): Promise<SigningIn | undefined> {
  const [user] = await database.run(FIND, [email])
  const hash = typeof user?.password_hash === 'string' ? user.password_hash : null
  const right = await passwordsFor(String(user?.id ?? email)).verify(hash, password)
  return right && user && user.status === 'active'
    ? { id: String(user.id), role: String(user.role), passwordHash: hash ?? undefined }
    : undefined
}
