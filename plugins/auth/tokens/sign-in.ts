/** Checks an e-mail address and a password, with the same result and duration whichever of them is wrong. */
import { eq, sql } from 'drizzle-orm'
import type { Database } from '../../../drizzle/client/index.ts'
import { prepare } from '../../../drizzle/client/prepare.ts'
import { users } from '../../../drizzle/tables.ts'
import type { Passwords } from '../passwords.ts'
import type { AuthenticatedUser } from './sessions.ts'

const findUser = prepare((db) =>
  db
    .select({
      id: users.id,
      role: users.role,
      status: users.status,
      password_hash: users.password_hash,
    })
    .from(users)
    .where(eq(users.email, sql.placeholder('email'))),
)

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
  const [user] = await findUser(database, { email })
  const hash = user?.password_hash ?? null
  const isRight = await getPasswords(user?.id ?? email).verify(hash, password)
  return isRight && user?.status === 'active'
    ? { id: user.id, role: user.role, passwordHash: hash }
    : undefined
}
