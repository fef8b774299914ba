/** Signing in with an e-mail address and a password: one answer, in one time, whatever of the two is wrong. */
import type { Database } from '../database/index.ts'
import { hashPassword, verifyPassword } from '../passwords.ts'

export interface SignedIn {
  id: string
  role: string
}

const FIND = `select id, role, status, password_hash from users where email = $1`

/** What is verified where there is no password: as long a work, and never right. */
const nobody = hashPassword('nobody has this password, since it is too public')

/** @returns undefined for an unknown address, a wrong password, and one who is not active */
export async function signIn(
  database: Database,
  email: string,
  password: string,
): Promise<SignedIn | undefined> {
  const [user] = await database.run(FIND, [email])
  const hash = typeof user?.password_hash === 'string' ? user.password_hash : undefined
  const right = await verifyPassword(hash ?? (await nobody), password)
  return right && user && hash !== undefined && user.status === 'active'
    ? { id: String(user.id), role: String(user.role) }
    : undefined
}
