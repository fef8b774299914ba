/** Enqueues the mail that verifies an email address. */
import type { Connection } from '@resource-api/database'
import type { Mailer } from '@resource-api/resources/internal'
import { takeQuota } from '../mail/quotas.ts'
import { type CreatedLink, createLink } from './links.ts'

export const VERIFICATION_LIFETIME_MS = 24 * 60 * 60_000

/**
 * Enqueues a mail with a link.
 * @param purpose `verify` for the present address of the user, `change` for the one that becomes theirs
 * @param email in lower case
 * @returns the link; undefined, and nothing changes, if the address has five such links
 */
export async function sendVerification(
  connection: Connection,
  mail: Pick<Mailer, 'enqueue'>,
  { purpose, userId, email }: { purpose: 'verify' | 'change'; userId: string; email: string },
): Promise<CreatedLink | undefined> {
  const lifetimeMs = VERIFICATION_LIFETIME_MS
  if (!(await takeQuota(connection, purpose, email, lifetimeMs))) return undefined
  const link = await createLink(connection, { kind: 'verify', subject: userId, email, lifetimeMs })
  await mail.enqueue(connection, { template: 'email-verification', recipient: email, userId, link })
  return link
}
