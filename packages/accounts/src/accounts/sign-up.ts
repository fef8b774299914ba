/** Signs a user up without saying whether the email address is known: only a mail to the address says so. */
import { prepare, users } from '@resource-api/database'
import type { Mailer, Store } from '@resource-api/resources/internal'
import { eq, sql } from 'drizzle-orm'
import { takeQuota } from '../mail/quotas.ts'
import { createLink } from './links.ts'
import { sendVerification, VERIFICATION_LIFETIME_MS } from './send-verification.ts'

type UserRow = typeof users.$inferSelect

const findByEmail = prepare((db) =>
  db
    .select({ id: users.id })
    .from(users)
    .where(eq(users.email, sql.placeholder('email'))),
)

/**
 * Creates a user, who gets a mail to verify the address. If another user has the address, the same writes are made for an
 * address that does not exist, and undone, so that the response is the same and takes the same time; the user of the
 * address gets a mail that they have an account.
 * @returns the user, or one who does not exist
 */
export async function signUp(
  store: Store<UserRow>,
  mail: Pick<Mailer, 'enqueue'>,
  values: Partial<UserRow> & Pick<UserRow, 'id' | 'email'>,
): Promise<UserRow> {
  const { connection } = store
  const { id, email } = values
  // Requests for the same address wait here for each other, so that none of them meets the unique constraint.
  const mayTell = await takeQuota(connection, 'sign-up', email)
  const [known] = await findByEmail(connection, { email })
  await connection.execute(sql`savepoint sign_up`)
  if (!known) {
    const user = await store.insert(values)
    await sendVerification(connection, mail, { purpose: 'verify', userId: id, email })
    await connection.execute(sql`release savepoint sign_up`)
    return user
  }
  const unused = `${id}-${email}`
  const user = await store.insert({ ...values, email: unused })
  const lifetimeMs = VERIFICATION_LIFETIME_MS
  await takeQuota(connection, 'verify', unused, lifetimeMs)
  await createLink(connection, { kind: 'verify', subject: id, email: unused, lifetimeMs })
  await connection.execute(sql`rollback to savepoint sign_up`)
  if (mayTell) await mail.enqueue(connection, { template: 'account-exists', recipient: email })
  return { ...user, email }
}
