/** Enqueues the mail that verifies an e-mail address. */
import type { Connection } from '../../drizzle/client/types.ts'
import type { MailQueue } from '../mail/index.ts'
import { takeQuota } from '../mail/mail-store.ts'
import { type CreatedLink, createLink } from './links.ts'

export const VERIFICATION_LIFETIME_MS = 24 * 60 * 60_000

/**
 * Enqueues a mail with a link, which voids the user's link before it.
 * @param email the present address of the user, or the one that becomes theirs, in lower case
 * @returns the link; undefined, and nothing changes, if the address has had its mails of this hour
 */
export async function sendVerification(
  connection: Connection,
  mail: Pick<MailQueue, 'enqueue'>,
  { userId, email }: { userId: string; email: string },
): Promise<CreatedLink | undefined> {
  if (!(await takeQuota(connection, 'verify', email))) return undefined
  const lifetimeMs = VERIFICATION_LIFETIME_MS
  const link = await createLink(connection, { kind: 'verify', subject: userId, email, lifetimeMs })
  await mail.enqueue(connection, { template: 'email-verification', recipient: email, userId, link })
  return link
}
